"""When to commit: soon when caught up, seldom under lag.

A transaction costs the broker 15 to 50 ms of CPU whatever is in it, and every segment costs the
services downstream a few, so there should be few while there is much to do; a process that keeps up
should show its results at once.  What is looked at is how much of the time since the last commit
was not spent waiting for input:

* more than 0.9, the third time in a row: the interval doubles, up to the most, and again with each
  commit for which that holds.  One stall, of the broker or the machine, makes two such commits: the
  one that waits and the one that catches up.
* less than 0.45: it is halved, down to the least.  Half the interval makes at most twice the work,
  if all of it is done once a commit, so this never leads to what the first rule undoes.
* between: it stays, so that a slow machine settles at the interval that it can keep instead of
  swinging around it.  But what has made it longer may be over, and what is done once a row would
  keep it there for ever: after some commits the shorter interval is tried.  Each try that fails
  makes the next one wait twice as many.
* There was no input for as long as the most: whatever the interval was for, it is over, and it is
  the least again.  There are no commits meanwhile that could have halved it.
"""

_BUSY = 0.9
_AT_EASE = _BUSY / 2
_LASTS = 3
"""Commits in a row that must be busy before the interval doubles."""

_PATIENCE = 4
"""Commits at one interval before a shorter one is tried."""

_MOST_PATIENCE = 1_024


class CommitInterval:
    """The interval between commits, from how much of the last one was spent waiting for input."""

    def __init__(self, least_ms: int, most_ms: int, now_s: float) -> None:
        """Commit at most every ``least_ms`` when caught up and every ``most_ms`` under lag."""
        self._least_s, self._most_s = least_ms / 1000, most_ms / 1000
        self._interval_s = self._least_s
        self._begun_s = self._ended_s = now_s
        self._waited_s = 0.0
        self._busy = 0  # commits in a row
        self._stayed = 0  # commits since the interval changed, with no cause to change it
        self._patience = _PATIENCE
        self._trying = False

    def until_due_s(self, now_s: float) -> float:
        """Return how long a commit should still wait; 0 when it is due."""
        return max(0.0, self._begun_s + self._interval_s - now_s)

    def waited(self, seconds: float) -> None:
        """Count time in which there was no input."""
        self._waited_s += seconds

    def committed(self, begun_s: float, ended_s: float) -> None:
        """Start the next interval with this commit, and decide how long it is.

        Intervals reach from begin to begin, so that what a commit takes adds to no record's wait.
        """
        busy = 1 - self._waited_s / max(ended_s - self._ended_s, 1e-9)
        self._busy = self._busy + 1 if busy > _BUSY else 0
        if self._busy:
            self._lengthen()
        elif self._waited_s >= self._most_s:
            self._shorten(self._least_s)
        elif busy < _AT_EASE:
            self._shorten(self._interval_s / 2)
        else:
            self._stay()
        self._begun_s, self._ended_s, self._waited_s = begun_s, ended_s, 0.0

    def _lengthen(self) -> None:
        if self._busy < _LASTS:
            return
        if self._trying:
            self._patience = min(2 * self._patience, _MOST_PATIENCE)
            self._trying = False
        self._change(2 * self._interval_s)

    def _shorten(self, interval_s: float) -> None:
        self._patience, self._trying = _PATIENCE, False
        self._change(interval_s)

    def _stay(self) -> None:
        """Count the commit; once they are enough, a try has succeeded, and another may be due."""
        self._stayed += 1
        if self._stayed < self._patience:
            return
        if self._trying:
            self._patience = _PATIENCE
        self._trying = self._interval_s > self._least_s
        self._change(self._interval_s / 2)

    def _change(self, interval_s: float) -> None:
        self._interval_s = min(max(interval_s, self._least_s), self._most_s)
        self._stayed = 0
