"""When to commit: often when caught up, seldom under lag.

A transaction costs the broker 15 to 50 ms of CPU whatever it holds, and each segment costs the
services downstream a few more.  So there should be few commits under lag, but a process that keeps
up should show its results at once.

The rule looks at the busy share: the part of the time since the last commit that was not spent
waiting for input.

* Above 0.9 for the third commit in a row: the interval doubles, up to the maximum, and again with
  each further such commit.  One stall of the broker or the machine makes two such commits: the one
  that waits and the one that catches up.
* Below 0.45: the interval halves, down to the minimum.  If all work is per commit, half the
  interval makes at most twice the work, so the first rule does not undo this one.
* Between the two: the interval stays, so that a slow machine settles instead of swinging.  But the
  cause of the long interval may be over, and work per row would keep the share up forever.  So the
  shorter interval is tried after some commits; each failed try doubles the wait before the next.
* No input for as long as the maximum: the interval is the minimum again.  Without input there are
  no commits that could have halved it.
"""

from tidemark.runtime.config import Config

_BUSY = 0.9
_AT_EASE = _BUSY / 2
_LASTS = 3
"""Busy commits in a row before the interval doubles."""

_PATIENCE = 4
"""Commits at one interval before a shorter one is tried."""

_MOST_PATIENCE = 1_024


class CommitInterval:
    """The interval between commits, adapted to the busy share of the last one."""

    def __init__(self, least_ms: int, most_ms: int, now_s: float) -> None:
        """Start at the minimum, ``least_ms``; ``most_ms``: the maximum; ``now_s``: monotonic."""
        self._least_s, self._most_s = least_ms / 1000, most_ms / 1000
        self._interval_s = self._least_s
        self._begun_s = self._ended_s = now_s
        self._waited_s = 0.0
        self._busy = 0  # commits in a row
        self._stayed = 0  # commits since the interval changed, with no cause to change it
        self._patience = _PATIENCE
        self._trying = False

    def until_due_s(self, now_s: float) -> float:
        """Return the seconds until a commit is due; 0 if it is due now."""
        return max(0.0, self._begun_s + self._interval_s - now_s)

    def waited(self, seconds: float) -> None:
        """Count seconds without input."""
        self._waited_s += seconds

    def committed(self, begun_s: float, ended_s: float) -> None:
        """Note a commit, and decide on the length of the next interval.

        Intervals run from the begin of a commit to the begin of the next, so that the duration of a
        commit delays no record.
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
        """Count the commit; after enough of them a try has succeeded, and the next may start."""
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


def following(config: Config) -> Config:
    """Return the settings with a shorter interval between commits than that of ingest.

    Segments come when ingest commits.  With the same interval the two processes drift apart, and
    segments wait for up to a whole interval.  With a shorter interval, a commit is due when
    segments come, and the number of commits stays the same.
    """
    interval_ms = max(1, config.commit_interval_ms * 3 // 4)
    return config.model_copy(update={"commit_interval_ms": interval_ms})
