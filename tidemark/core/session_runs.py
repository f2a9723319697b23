"""Runs of live sessions: keyed lines with an index by end.

A cursor in the index makes asking for what is due cost nothing when nothing is.
"""

import numpy as np

from tidemark.core.aggregate import ROWS
from tidemark.core.keyed_runs import Lines, Mask, Numbers, Run
from tidemark.core.pane import END, START

JOINED_LATE, STANDS, STANDS_END = "@joined_late", "@stands", "@stands_end"
SHOWN_EARLY = "@shown_early"

FACT_NAMES = (START, END, ROWS, JOINED_LATE, STANDS, STANDS_END, SHOWN_EARLY)

_MARKS = (JOINED_LATE, SHOWN_EARLY)

FACTS = np.dtype([(name, np.bool_ if name in _MARKS else np.int64) for name in FACT_NAMES])
"""What is known of a session besides its key and partial aggregates.

* JOINED_LATE: some row joined after an end had passed, so timing is late.
* STANDS: revision of the pane published under this start and not withdrawn, 0 without one; the
  session is up to date when it equals ROWS.
* STANDS_END: the end in that pane.
* SHOWN_EARLY: that pane was early, and one of the same rows is to follow when the session closes.

Discarding, STANDS counts the rows that panes have shown, under whatever start.
"""


class SessionRun(Run):
    """Sessions in order of hash, indexed by end."""

    def __init__(self, lines: Lines, fresh: Mask) -> None:
        """Index sessions in order of hash that all live; ``fresh``: no changes told of them yet."""
        super().__init__(lines, fresh)
        end_ms = lines.facts[END]
        self._by_end = np.argsort(end_ms, kind="stable")
        self._ends_ms = end_ms[self._by_end]
        self._due, self._purged = 0, 0

    def pass_due(self, end_ms: int) -> Numbers:
        """Return live sessions with ends up to ``end_ms`` that lack their pane, once each."""
        stop = int(np.searchsorted(self._ends_ms, end_ms, "right"))
        at = self._by_end[self._due : stop]
        self._due = max(self._due, stop)
        at = at[self.alive[at]]
        facts = self.lines.facts[at]
        lacking: Numbers = at[(facts[STANDS] < facts[ROWS]) | facts[SHOWN_EARLY]]
        return lacking

    def purge(self, end_ms: int) -> None:
        """Let the sessions with ends up to ``end_ms`` go."""
        stop = int(np.searchsorted(self._ends_ms, end_ms, "right"))
        at = self._by_end[self._purged : stop]
        self._purged = max(self._purged, stop)
        self.kill(at[self.alive[at]])

    def publish(self, at: Numbers) -> None:
        """Note that panes of sessions went out."""
        facts = self.lines.facts
        facts[STANDS][at], facts[STANDS_END][at] = facts[ROWS][at], facts[END][at]
        facts[SHOWN_EARLY][at] = False

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        super().validate()
        facts = self.lines.facts
        assert bool((facts[STANDS] <= facts[ROWS]).all()), "a pane has more rows than its session"
        assert bool((facts[START] < facts[END]).all()), "a session ends before it starts"
