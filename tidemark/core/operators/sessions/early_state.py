"""Keyed state of sessions with early panes: the live sessions, and the panes of a segment.

See docs/semantics.md, "Early panes of sessions".  The facts of a session say which of its rows are
published, so changelogs hold sessions only.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import polars as pl

from tidemark.core.operators.operator import Changes
from tidemark.core.operators.sessions.state import SessionState
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.windows.open_bounds import OpenBounds


@dataclass
class EarlySessionState:
    """Live sessions, and the panes and withdrawals that this segment's rows fired.

    ``fired``: panes with a column ROW, Int64, the place of the row that fired each in the segment.
    """

    sessions: SessionState
    fired: list[pl.DataFrame] = field(default_factory=list)
    now_ms: int = NEVER_MS  # processing time of the segment

    def take_fired(self) -> list[pl.DataFrame]:
        """Return, once, the panes and withdrawals that fired."""
        fired, self.fired = self.fired, []
        return fired

    def changes(self) -> Changes:
        """Return the changes of the sessions since the last call."""
        return self.sessions.changes()

    def snapshot(self) -> Iterator[Changes]:
        """Return all live state in pieces."""
        return self.sessions.snapshot()

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""
        return self.sessions.size_bytes()

    def open_windows(self) -> int:
        """Return the number of live sessions."""
        return self.sessions.open_windows()

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the bounds of live sessions."""
        return self.sessions.open_bounds()

    def apply(self, changes: Changes) -> None:
        """Apply changes to the sessions."""
        self.sessions.apply(changes)

    def purge(self, clock_ms: int) -> None:
        """Drop the sessions that no row can reach."""
        self.sessions.purge(clock_ms)

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        assert not self.fired, "panes that fired were not published"
        self.sessions.validate()
