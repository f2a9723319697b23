"""Count windows in order of event time: rows wait until the clock has passed them.

See docs/semantics.md, "Count windows in event-time order".  ``InEventTime`` wraps an operator on
windows in order of arrival.  It holds each row until the clock is later than the row's event time.
Then it hands the rows on in order of event time, so the operator takes that order for the order of
arrival.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from tidemark.core.operators.arrival.body import ArrivalBody
from tidemark.core.operators.arrival.state import ArrivalState
from tidemark.core.operators.operator import WindowBody
from tidemark.core.operators.paired_state import PairedState, Part
from tidemark.core.operators.ports import Port
from tidemark.core.operators.waiting_rows import WaitingRows
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.windows.open_bounds import OpenBounds


class HeldState(PairedState):
    """The state of the operator, and the rows that wait for the clock."""

    def __init__(self, inner: ArrivalState, waiting: WaitingRows) -> None:
        """Start without rows."""
        self.inner = inner
        self.waiting = waiting

    @property
    def _parts(self) -> tuple[Part, Part]:
        return self.inner, self.waiting

    def open_windows(self) -> int:
        """Return the number of open runs, and of rows that wait."""
        return self.inner.open_windows() + len(self.waiting)

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the event times of rows that wait; only rows close the windows."""
        return self.waiting.open_bounds()


@dataclass(frozen=True)
class InEventTime(WindowBody):
    """Windows by rows whose order is that of event time."""

    inner: ArrivalBody

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of the operator."""
        return self.inner.outputs

    def open(self, store: BlockStore = IN_MEMORY) -> HeldState:
        """Return empty state."""
        return HeldState(self.inner.open(store), WaitingRows(self.inner.columns, store))

    def fold(self, rows: pl.DataFrame, state: HeldState) -> pl.DataFrame:
        """Let the rows wait; those that W has passed are late."""
        return state.waiting.take(rows)

    def publish(self, state: HeldState, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Hand on the rows that the clock has passed; return the panes that they fire."""
        due = state.waiting.release(clock_ms)
        if due is not None:
            self.inner.fold(due, state.inner)
        return self.inner.publish(state.inner, before_ms, clock_ms)

    def rests(self, state: HeldState, before_ms: int, clock_ms: int) -> bool:  # noqa: ARG002
        """Whether the clock passes no row that waits."""
        return not state.waiting.is_due(clock_ms)

    def pending(self, state: HeldState) -> bool:
        """Whether rows wait for the clock."""
        return len(state.waiting) > 0
