"""Count windows in order of event time: rows wait until the clock has passed them.

See docs/semantics.md, "Count windows in event-time order".  ``InEventTime`` wraps an operator on
windows in order of arrival.  It holds each row until the clock is later than the row's event time.
Then it hands the rows on in order of event time, so the operator takes that order for the order of
arrival.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from tidemark.core.operators.arrival.body import ArrivalBody
from tidemark.core.operators.arrival.state import ArrivalState
from tidemark.core.operators.operator import Changes, WindowBody, missed
from tidemark.core.operators.ports import Port
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.time.segment import (
    EVENT_TIME,
    NEVER_MS,
    OFFSET,
    SOURCE,
    SUB_ROW,
    WATERMARK,
)

HELD, RELEASED = "held", "released"
"""Frames of changes: rows that wait, and the clock that released those before it."""

_CLOCK = "@clock"
_ORDER = (EVENT_TIME, SOURCE, OFFSET, SUB_ROW)
_PIECE_ROWS = 65_536


class HeldState:
    """The state of the operator, and the rows that wait for the clock."""

    def __init__(self, inner: ArrivalState) -> None:
        """Start without rows."""
        self.inner = inner
        self._held: list[pl.DataFrame] = []
        self._fresh: list[pl.DataFrame] = []
        self._released_ms = NEVER_MS
        self._has_released = False

    def hold(self, rows: pl.DataFrame) -> None:
        """Let rows wait."""
        self._held.append(rows)
        self._fresh.append(rows)

    def release(self, clock_ms: int) -> pl.DataFrame | None:
        """Remove and return the rows before ``clock_ms``, in order; None without such rows."""
        waits = pl.col(EVENT_TIME) >= clock_ms
        due = [part for rows in self._held if (part := rows.filter(~waits)).height]
        if not due:
            return None
        self._keep(clock_ms)
        self._fresh = [part for rows in self._fresh if (part := rows.filter(waits)).height]
        self._has_released = True
        return pl.concat(due).sort(_ORDER)

    def _keep(self, clock_ms: int) -> None:
        waits = pl.col(EVENT_TIME) >= clock_ms
        kept = [part for rows in self._held if (part := rows.filter(waits)).height]
        self._held = [pl.concat(kept)] if kept else []
        self._released_ms = max(self._released_ms, clock_ms)

    @property
    def waiting(self) -> int:
        """The number of rows that wait."""
        return sum(rows.height for rows in self._held)

    def changes(self) -> Changes:
        """Return, once, the changes since the last call."""
        made = dict(self.inner.changes())
        if self._has_released:
            made[RELEASED] = pl.DataFrame({_CLOCK: [self._released_ms]})
        if self._fresh:
            made[HELD] = pl.concat(self._fresh)
        self._fresh, self._has_released = [], False
        return made

    def snapshot(self) -> Iterator[Changes]:
        """Return the rows that wait, and the state of the operator, in pieces."""
        held, inner = tuple(self._held), self.inner.snapshot()

        def pieces() -> Iterator[Changes]:
            yield from inner
            for rows in held:
                yield from ({HELD: part} for part in rows.iter_slices(_PIECE_ROWS))

        return pieces()

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""
        return self.inner.size_bytes() + sum(int(rows.estimated_size()) for rows in self._held)

    def open_windows(self) -> int:
        """Return the number of open runs, and of rows that wait."""
        return self.inner.open_windows() + self.waiting

    def apply(self, changes: Changes) -> None:
        """Apply one piece."""
        self.inner.apply(changes)
        if RELEASED in changes:
            self._keep(int(changes[RELEASED][_CLOCK].to_numpy().max()))
        if HELD in changes:
            self._held.append(changes[HELD])

    def purge(self, clock_ms: int) -> None:
        """Purge the state of the operator."""
        self.inner.purge(clock_ms)

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        self.inner.validate()
        for rows in self._held:
            assert rows.height, "a block of held rows is empty"
            assert rows.filter(pl.col(EVENT_TIME) < self._released_ms).is_empty(), (
                "a row waits that the clock has passed"
            )


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
        return HeldState(self.inner.open(store))

    def fold(self, rows: pl.DataFrame, state: HeldState) -> pl.DataFrame:
        """Let the rows wait; those that W has passed are late."""
        passed = rows[EVENT_TIME] < rows[WATERMARK]
        accepted = rows.filter(~passed)
        if accepted.height:
            state.hold(accepted.with_columns(pl.col(SOURCE).cast(pl.String)))
        late = rows.filter(passed)
        at_ms = late[EVENT_TIME].to_numpy()
        return missed(late, at_ms, at_ms + 1, at_ms + 1)

    def publish(self, state: HeldState, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Hand on the rows that the clock has passed; return the panes that they fire."""
        due = state.release(clock_ms)
        if due is not None:
            self.inner.fold(due, state.inner)
        return self.inner.publish(state.inner, before_ms, clock_ms)

    def pending(self, state: HeldState) -> bool:
        """Whether rows wait for the clock."""
        return state.waiting > 0
