"""When to commit: soon when caught up, seldom under lag.

A transaction costs the broker 15 to 50 ms of CPU whatever is in it, so there should be few while
there is much to do; a process that keeps up should show its results at once.
"""

_BUSY = 0.9


class Pace:
    """The interval between commits, from how much of the last one was spent waiting for input."""

    def __init__(self, least_ms: int, most_ms: int, now_s: float) -> None:
        """Commit at most every ``least_ms`` when caught up and every ``most_ms`` under lag."""
        self._least_s, self._most_s = least_ms / 1000, most_ms / 1000
        self._interval_s = self._least_s
        self._begun_s = self._ended_s = now_s
        self._waited_s = 0.0

    def until_due_s(self, now_s: float) -> float:
        """Return how long a commit should still wait; 0 when it is due."""
        return max(0.0, self._begun_s + self._interval_s - now_s)

    def waited(self, seconds: float) -> None:
        """Count time in which there was no input."""
        self._waited_s += seconds

    def committed(self, begun_s: float, ended_s: float) -> None:
        """Start the next interval with this commit: twice as long if the last was spent working.

        Intervals reach from begin to begin, so that what a commit takes adds to no record's wait.
        """
        busy = 1 - self._waited_s / max(ended_s - self._ended_s, 1e-9)
        longer = min(2 * self._interval_s, self._most_s)
        self._interval_s = longer if busy > _BUSY else self._least_s
        self._begun_s, self._ended_s, self._waited_s = begun_s, ended_s, 0.0
