"""Late panes by count: corrections of windows that wait until enough rows are in them.

See docs/semantics.md, "Late panes by count".  ``LateAggregate`` wraps aligned or sliding windows
with ``on_close(late=every(rows=n))``.  The windows make a correction for each segment with rows
behind.  ``LateAggregate`` holds it back until n rows are in no pane, or the window is final.

State is that of the windows, and a tally of each key and window that is published and not final.
With discarding panes a tally also holds the partials of the rows that no pane has shown.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar

import polars as pl

from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.early_windows import EarlyWindows
from tidemark.core.operators.operator import Changes, WindowBody
from tidemark.core.operators.ports import Port
from tidemark.core.operators.tallies import HIGHEST, SHOWN, TALLIES, TOTAL, TalliedState, Tallies
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.windows.pane import END, LATE, REVISION, TIMING
from tidemark.core.windows.trigger import Trigger, late_rows_of

HELD = "held"
"""Name of the frame of tallies in the state's changes; it has the columns of TALLIES."""

_FIRES = "@fires"

Inner = TypeVar("Inner", bound=EarlyWindows)


@dataclass
class LateState(TalliedState):
    """State of windows, and tallies of the rows that their panes have shown.

    The windows may have tallies too, so changes have these under another name.
    """

    def settle(self) -> None:
        """End a publication."""
        self.windows.settle()

    def changes(self) -> Changes:
        """Return the changes since the last call."""
        return {**self.windows.changes(), **_renamed(self.tallies.changes())}

    def snapshot(self) -> Iterator[Changes]:
        """Return all live state in pieces."""
        return chain(self.windows.snapshot(), map(_renamed, self.tallies.snapshot()))

    def apply(self, changes: Changes) -> None:
        """Apply changes to the windows and the tallies."""
        self.windows.apply(changes)
        if HELD in changes:
            self.tallies.apply({TALLIES: changes[HELD]})


def _renamed(changes: Changes) -> Changes:
    return {HELD: changes[TALLIES]} if TALLIES in changes else {}


@dataclass(frozen=True)
class LateAggregate(WindowBody, Generic[Inner]):
    """Aggregate rows in windows whose late panes wait for a number of rows."""

    inner: Inner

    @property
    def aggregation(self) -> Aggregation:
        """The aggregates of panes."""
        return self.inner.aggregation

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return self.inner.key

    @property
    def allowed_lateness_ms(self) -> int:
        """The time after its end in which a window accepts rows, ms."""
        return self.inner.allowed_lateness_ms

    @property
    def trigger(self) -> Trigger:
        """When panes are published."""
        return self.inner.trigger

    @property
    def discarding(self) -> bool:
        """Whether panes hold only rows that no earlier pane has shown."""
        return self.inner.discarding

    @property
    def grid_ms(self) -> int:
        """The interval of window ends, ms, whose tallies lie together."""
        return self.inner.grid_ms

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of the windows."""
        return self.inner.outputs

    @property
    def _by(self) -> tuple[str, ...]:
        return (END, *self.inner.key)

    def open(self, store: BlockStore = IN_MEMORY) -> LateState:
        """Return empty state."""
        tallies = Tallies(self.key, self.allowed_lateness_ms, self.grid_ms, store)
        return LateState(self.inner.open(store), tallies)

    def stops(self, _state: LateState, _before_ms: int, clock_ms: int) -> list[int]:
        """Return the clock alone: corrections wait until the clock has made windows final."""
        return [clock_ms]

    def with_final(self, panes: pl.DataFrame, stop_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return the panes of a stop as final as the clock after the segment makes them."""
        return self.inner.with_final(panes, stop_ms, clock_ms)

    def fold(self, rows: pl.DataFrame, state: LateState) -> pl.DataFrame:
        """Add rows to their windows; return late rows."""
        return self.inner.fold(rows, state.windows)

    def publish(self, state: LateState, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return the panes that are due, and corrections with enough rows."""
        return self.inner.panes(self.due(state, before_ms, clock_ms), clock_ms)

    def panes(self, parts: list[pl.DataFrame], clock_ms: int) -> pl.DataFrame:
        """Return partials as panes, in the order of a topic."""
        return self.inner.panes(parts, clock_ms)

    def counts(self, rows: pl.DataFrame, state: LateState, wait_ms: int) -> pl.DataFrame | None:
        """Return which rows count in which windows."""
        return self.inner.counts(rows, state.windows, wait_ms)

    def before(self, state: LateState, windows: pl.DataFrame, wait_ms: int) -> pl.DataFrame | None:
        """Return the tallies of windows that have rows, but no tally yet."""
        return self.inner.before(state.windows, windows, wait_ms)

    def counted(
        self, state: LateState, windows: pl.DataFrame, *, behind: bool
    ) -> list[pl.DataFrame]:
        """Return the partials of windows so far."""
        return self.inner.counted(state.windows, windows, behind=behind)

    def due(self, state: LateState, before_ms: int, clock_ms: int) -> list[pl.DataFrame]:
        """Return the partials of due panes, of corrections with enough rows, and of the rest."""
        parts = self.inner.due(state.windows, before_ms, clock_ms)
        final_ms = max(NEVER_MS, clock_ms - self.allowed_lateness_ms)
        published = []
        for part in parts:
            corrects = (pl.col(TIMING) == LATE) & (pl.col(END) <= before_ms)
            published.append(part.filter(~corrects))
            corrections = part.filter(corrects)
            if corrections.height:
                published.append(self._enough(state, corrections, final_ms))
        self._note(state, published, final_ms)
        rest_after_ms = max(NEVER_MS, before_ms - self.allowed_lateness_ms)
        rest = state.tallies.unshown(rest_after_ms, final_ms)
        if rest is not None and rest.height:
            published += self._rest(state, rest)
        return [part for part in published if part.height]

    def _enough(self, state: LateState, corrections: pl.DataFrame, final_ms: int) -> pl.DataFrame:
        """Return the corrections to publish; add the rows of the others to their tallies."""
        found = self._joined(corrections.select(self._by), state)
        shown = found[SHOWN]
        # A window without a pane is published at once.
        fires = (
            shown.is_null()
            | (corrections[REVISION] - shown >= late_rows_of(self.trigger))
            | (corrections[END] <= final_ms)
        )
        if self.discarding:
            corrections = self._with_held(corrections, found)
        held = corrections.filter(~fires)
        if held.height:
            lines = held.select(
                *self._by,
                pl.col(REVISION).alias(TOTAL),
                shown.filter(~fires).alias(SHOWN),
                pl.lit(NEVER_MS, pl.Int64).alias(HIGHEST),
            )
            if self.discarding:
                lines = lines.hstack(held.drop(*self._by, REVISION, TIMING))
            state.tallies.add(lines)
        return corrections.filter(fires)

    def _with_held(self, corrections: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
        """Add the rows that wait in tallies to discarding corrections, in the same order."""
        head = corrections.select(*self._by, REVISION, TIMING)
        waits = found.filter(pl.col(SHOWN) < pl.col(TOTAL)).drop(TOTAL, SHOWN, HIGHEST)
        parts = [corrections.drop(REVISION, TIMING), *[waits] * (waits.height > 0)]
        merged = self.aggregation.combine(parts, self._by)
        return head.join(merged, on=self._by, how="left", nulls_equal=True, maintain_order="left")

    def _joined(self, windows: pl.DataFrame, state: LateState) -> pl.DataFrame:
        """Return windows with their tallies, in the same order; null without one."""
        lines = state.tallies.of(windows)
        if lines is None:
            nothing = [pl.lit(None, pl.Int64).alias(name) for name in (TOTAL, SHOWN, HIGHEST)]
            return windows.with_columns(nothing)
        return windows.join(lines, on=self._by, how="left", nulls_equal=True, maintain_order="left")

    def _note(self, state: LateState, published: list[pl.DataFrame], final_ms: int) -> None:
        """Write down what the panes have shown of windows that are not final."""
        parts = [
            part.filter(pl.col(END) > final_ms).select(*self._by, REVISION) for part in published
        ]
        open_ = [part for part in parts if part.height]
        if open_:
            shown = pl.concat(open_).group_by(self._by, maintain_order=True).max()
            state.tallies.add(self._all_shown(shown.rename({REVISION: TOTAL})))

    def _all_shown(self, lines: pl.DataFrame) -> pl.DataFrame:
        return lines.select(
            *self._by,
            TOTAL,
            pl.col(TOTAL).alias(SHOWN),
            pl.lit(NEVER_MS, pl.Int64).alias(HIGHEST),
        )

    def _rest(self, state: LateState, lines: pl.DataFrame) -> list[pl.DataFrame]:
        """Return panes of final windows whose last rows no pane has shown."""
        state.tallies.add(self._all_shown(lines))
        if not self.discarding:
            return self.inner.counted(state.windows, lines.select(self._by), behind=True)
        revision = pl.col(TOTAL).alias(REVISION), pl.lit(LATE).alias(TIMING)
        return [lines.with_columns(revision).drop(TOTAL, SHOWN, HIGHEST)]
