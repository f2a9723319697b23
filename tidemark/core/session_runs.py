"""Runs of live sessions: keyed lines with an index by end.

A cursor in the index makes asking for what is due cost nothing when nothing is.
"""

import numpy as np

from tidemark.core.aggregate import ROWS
from tidemark.core.keyed_runs import Facts, Lines, Mask, Numbers, Run
from tidemark.core.pane import END, START

JOINED_LATE, STANDS, STANDS_END = "@joined_late", "@stands", "@stands_end"
DISCARDED = "@discarded"

FACT_NAMES = (START, END, ROWS, DISCARDED, JOINED_LATE, STANDS, STANDS_END)

FACTS = np.dtype([(name, np.bool_ if name == JOINED_LATE else np.int64) for name in FACT_NAMES])
"""What is known of a session besides its key and partial aggregates.

* ROWS: of the partial aggregates; DISCARDED: rows that panes showed and the partials have no more,
  0 where panes accumulate.  The two together are the revision.
* JOINED_LATE: some row joined after an end had passed, so timing is late.
* STANDS: revision of the pane published under this start and not withdrawn, 0 without one; the
  session is up to date when it is that of now.
* STANDS_END: the end in that pane.
"""


def revision(facts: Facts) -> Numbers:
    """Count the rows that sessions are made of."""
    rows: Numbers = facts[ROWS] + facts[DISCARDED]
    return rows


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
        """Return live sessions with ends up to ``end_ms`` that lack a pane, once each."""
        stop = int(np.searchsorted(self._ends_ms, end_ms, "right"))
        at = self._by_end[self._due : stop]
        self._due = max(self._due, stop)
        at = at[self.alive[at]]
        facts = self.lines.facts[at]
        return at[facts[STANDS] < revision(facts)]

    def purge(self, end_ms: int) -> None:
        """Let the sessions with ends up to ``end_ms`` go."""
        stop = int(np.searchsorted(self._ends_ms, end_ms, "right"))
        at = self._by_end[self._purged : stop]
        self._purged = max(self._purged, stop)
        self.kill(at[self.alive[at]])

    def publish(self, at: Numbers) -> None:
        """Note that panes of sessions went out."""
        facts = self.lines.facts
        facts[STANDS][at], facts[STANDS_END][at] = revision(facts[at]), facts[END][at]

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        super().validate()
        facts = self.lines.facts
        assert bool((facts[STANDS] <= revision(facts)).all()), (
            "a pane has more rows than its session"
        )
        assert bool((facts[START] < facts[END]).all()), "a session ends before it starts"
