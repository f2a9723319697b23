"""The keyed state of a join with a table: its versions, and the rows to answer."""

from collections.abc import Iterable

import polars as pl

from tidemark.core.operators.joins.answered_rows import AnsweredRows
from tidemark.core.operators.joins.versions import Versions
from tidemark.core.operators.paired_state import PairedState, Part
from tidemark.core.operators.waiting_rows import WaitingRows
from tidemark.core.windows.open_bounds import OpenBounds


class LeftRows(PairedState):
    """Rows that wait for the clock, and rows that late versions may still answer anew."""

    def __init__(self, waiting: WaitingRows, answered: AnsweredRows) -> None:
        """Start empty."""
        self.waiting = waiting
        self.answered = answered

    @property
    def _parts(self) -> tuple[Part, Part]:
        return self.waiting, self.answered

    def open_windows(self) -> int:
        """Return the number of rows that wait."""
        return len(self.waiting)

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the event times of rows that wait."""
        return self.waiting.open_bounds()


class TableState(PairedState):
    """The versions of a table, and the rows to answer."""

    def __init__(self, versions: Versions, rows: LeftRows) -> None:
        """Start empty."""
        self.versions = versions
        self.rows = rows
        self.behind: pl.DataFrame | None = None
        """The keys of versions since the last advance that count before their W."""

    @property
    def _parts(self) -> tuple[Part, Part]:
        return self.versions, self.rows

    def open_windows(self) -> int:
        """Return the number of versions, and of rows that wait."""
        return len(self.versions) + self.rows.open_windows()

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the event times of rows that wait; time closes no version."""
        return self.rows.open_bounds()
