"""Keyed state of a join of two streams: the rows of each side."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from tidemark.core.operators.joins.side_rows import SideRows
from tidemark.core.operators.paired_state import PairedState, Part
from tidemark.core.windows.open_bounds import OpenBounds


@dataclass
class JoinState(PairedState):
    """The rows of both sides."""

    left: SideRows
    right: SideRows

    @property
    def sides(self) -> tuple[SideRows, SideRows]:
        """The left and the right side."""
        return self.left, self.right

    @property
    def _parts(self) -> tuple[Part, Part]:
        return self.left, self.right

    def open_windows(self) -> int:
        """Return the number of rows that may still pair."""
        return self.left.open_rows() + self.right.open_rows()

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the times during which rows may still pair, as of the last purge."""
        return chain(self.left.open_bounds(), self.right.open_bounds())
