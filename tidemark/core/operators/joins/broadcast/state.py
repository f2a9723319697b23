"""The keyed state of a join with a broadcast table: a copy of the table, and rows that wait."""

from collections.abc import Iterable

from tidemark.core.operators.joins.versions import Versions
from tidemark.core.operators.paired_state import PairedState, Part
from tidemark.core.operators.waiting_rows import WaitingRows
from tidemark.core.windows.open_bounds import OpenBounds


class BroadcastState(PairedState):
    """The versions of all keys, and the rows that wait for the clock."""

    def __init__(self, versions: Versions, waiting: WaitingRows) -> None:
        """Start empty."""
        self.versions = versions
        self.waiting = waiting
        self.pairs_per_row = 1
        """The most pairs per row among the rows answered together so far; no part of the state."""

    @property
    def _parts(self) -> tuple[Part, Part]:
        return self.versions, self.waiting

    def open_windows(self) -> int:
        """Return the number of versions, and of rows that wait."""
        return len(self.versions) + len(self.waiting)

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the event times of rows that wait; time closes no version."""
        return self.waiting.open_bounds()
