"""Operators that take the rows of each key in order of event time and hand on rows.

See docs/semantics.md, "Operators in order of event time".  A row waits until the clock is later
than its event time.  Then no earlier row can come, and the *rule* of the operator takes it: it
leaves the row out (distinct.py) or adds values (scan.py).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import polars as pl

from tidemark.core.operators.operator import Body, Frames, State, TimePortion
from tidemark.core.operators.paired_state import PairedState, Part
from tidemark.core.operators.ports import LATE, ROWS, Port, late_port, shown_columns, shown_key
from tidemark.core.operators.rows import published_rows, rows_port
from tidemark.core.operators.waiting_rows import WaitingRows
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.time.row_watermarks import with_segment
from tidemark.core.windows.open_bounds import OpenBounds


class RowRule(ABC):
    """What an operator does with rows in order of event time; a frozen value."""

    @property
    @abstractmethod
    def added(self) -> Mapping[str, pl.DataType]:
        """The columns that the rule adds to rows, with types."""

    @property
    @abstractmethod
    def reads(self) -> frozenset[str]:
        """The columns that decide what the rule does with a row."""

    @property
    @abstractmethod
    def name_parts(self) -> tuple[str, ...]:
        """Texts for the name of a stage."""

    @abstractmethod
    def open(self, store: BlockStore = IN_MEMORY) -> Any:
        """Return empty state, without the rows that wait."""

    @abstractmethod
    def take(self, rows: pl.DataFrame, state: Any) -> pl.DataFrame:
        """Return some of the rows, with the columns that are added, in the same order.

        ``rows``: those of all keys, in order of event time; none is earlier than any row before.
        """


class OrderedState(PairedState):
    """The state of a rule, and the rows that wait for the clock."""

    def __init__(self, rule: State, waiting: WaitingRows) -> None:
        """Start empty."""
        self.rule = rule
        self.waiting = waiting
        self.dropped = 0
        """Rows that the rule has left out since the last ``take_dropped``."""

    @property
    def _parts(self) -> tuple[Part, Part]:
        return self.rule, self.waiting

    def take_dropped(self) -> int:
        """Return, once, the number of rows that the rule left out."""
        dropped, self.dropped = self.dropped, 0
        return dropped

    def open_windows(self) -> int:
        """Return the number of keys with state, and of rows that wait."""
        return self.rule.open_windows() + len(self.waiting)

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return how long keys keep state, and the event times of rows that wait."""
        return chain(self.rule.open_bounds(), self.waiting.open_bounds())


@dataclass(frozen=True)
class OrderedRows(Body):
    """Rows in order of event time, by a rule; ``columns``: of the stream, with types.

    ``keeps_bytes``: whether bytes stay bytes, for the operators after a stage; published rows have
    them as text.  ``by_id``: as in ``rows_port``.
    """

    rule: RowRule
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    keeps_bytes: bool = False
    by_id: bool = False

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of rows and late rows.

        A row is not late if its time is at or after the clock, so rows do not lie behind it.
        """
        key = shown_key(self.key)
        shown = {"keeps_bytes": self.keeps_bytes, "by_id": self.by_id}
        rows = rows_port(key, self._published, holds_ms=0, **shown)
        return rows, late_port(self.key, self.columns)

    @cached_property
    def _published(self) -> Mapping[str, pl.DataType]:
        return {**shown_columns(self.columns), **self.rule.added}

    @property
    def can_batch(self) -> bool:
        """True: the time of a row alone decides after which segment it is due."""
        return True

    def open(self, store: BlockStore = IN_MEMORY, /) -> OrderedState:
        """Return empty state."""
        return OrderedState(self.rule.open(store), WaitingRows(self.columns, store))

    def process(self, sides: Frames, state: OrderedState) -> Frames:
        """Let the rows wait; those that W has passed are late."""
        (rows,) = sides.values()
        return {LATE: state.waiting.take(rows)}

    def advance(self, state: OrderedState, before_ms: int, clock_ms: int) -> Frames:
        """Return what the rule makes of the rows that the clock has passed."""
        portions = self.advance_in_portions(state, before_ms, clock_ms)
        frames = [portion.frames[ROWS] for portion in portions]
        return {ROWS: pl.concat(frames, how="vertical_relaxed")}

    def advance_each(self, state: OrderedState, before_ms: int, clock_ms: Sequence[int]) -> Frames:
        """Return the rows of ``advance`` for each segment: the first whose clock passes them."""
        rows = self.advance(state, before_ms, clock_ms[-1])[ROWS]
        at_ms = rows[self.outputs[0].row_time.column].to_numpy()
        return {ROWS: with_segment(rows, at_ms, clock_ms)}

    def advance_in_portions(
        self, state: OrderedState, before_ms: int, clock_ms: int
    ) -> Iterator[TimePortion]:
        """Yield the rows of a stretch of time after those of the one before."""
        assert before_ms <= clock_ms, f"clock back from {before_ms} to {clock_ms}"
        for stop_ms in state.waiting.stops(clock_ms):
            yield TimePortion({ROWS: self._shown(self._taken(state, stop_ms))}, stop_ms)

    def _taken(self, state: OrderedState, clock_ms: int) -> pl.DataFrame | None:
        due = state.waiting.release(clock_ms)
        if due is None:
            return None
        taken = self.rule.take(due, state.rule)
        state.dropped += due.height - taken.height
        return taken

    def _shown(self, rows: pl.DataFrame | None) -> pl.DataFrame:
        if rows is None:
            return pl.DataFrame(schema=self.outputs[0].columns)
        shown = {"keeps_bytes": self.keeps_bytes, "by_id": self.by_id}
        return published_rows(rows, list(self._published), **shown)

    def duplicates(self, state: OrderedState) -> int:
        """Return, once, the number of rows that the rule left out."""
        return state.take_dropped()

    def rests(self, state: OrderedState, before_ms: int, clock_ms: int) -> bool:  # noqa: ARG002
        """Whether the clock passes no row that waits."""
        return not state.waiting.is_due(clock_ms)

    def pending(self, state: OrderedState) -> bool:
        """Whether rows wait for the clock."""
        return len(state.waiting) > 0
