"""Aligned windows: one pane per key and window, from slices that windows share.

See docs/semantics.md, "Windows", "Lateness" and "Panes".

State layout.  Time is cut into slices, of width gcd(size, slide) or a period of the calendar;
every window is a whole number of them.  A slice holds runs of partial aggregates: each fold adds
one small block to every slice it met, with one line per key.  Rows that W had overtaken for some
window of theirs (*behind*) are kept apart, with two marks on their partial:

* ``passed``: the last window end at or before W.  The row is on time for every later window.
* ``closed``: the last window end at or before W - allowed lateness.  The row is late for the
  windows up to it and counts in every later one.

Publishing a window reads the blocks of its slices and groups them once.  What a window shows
follows from those marks alone, so purged and unpurged state give the same panes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tidemark.core.aggregate import ROWS, Aggregation
from tidemark.core.block_store import IN_MEMORY, BlockStore
from tidemark.core.blocks import stacked
from tidemark.core.firing import BEHIND, COUNTS, ROW, THERE
from tidemark.core.keyed_lines import Mask
from tidemark.core.operator import behind_time, missed
from tidemark.core.pane import (
    END,
    LATE,
    ON_TIME,
    REVISION,
    TIMING,
    pane_schema,
    panes_of,
)
from tidemark.core.segment import EVENT_TIME, NEVER_MS, WATERMARK
from tidemark.core.slice_buffer import SLICE
from tidemark.core.slices import CLOSED, PASSED, WindowState, unmarked
from tidemark.core.trigger import OnClose, OnFinal, Trigger, wait_after_end_ms
from tidemark.core.window import Aligned


@dataclass(frozen=True)
class WindowAggregate:
    """Aggregate each key's rows in every window that contains them.

    State is the partial aggregates of every slice until the clock has passed the last window it
    belongs to by the allowed lateness: bounded by keys x open slices.
    """

    windows: Aligned
    aggregation: Aggregation
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    allowed_lateness_ms: int = 0
    trigger: Trigger = field(default_factory=OnClose)
    discarding: bool = False

    def fresh(self, store: BlockStore = IN_MEMORY) -> WindowState:
        """Return state that holds nothing."""
        return WindowState(
            self.windows, self.aggregation, self.key, self.allowed_lateness_ms, store
        )

    @property
    def grid_ms(self) -> int:
        """All keys share the windows, so the tallies of each lie apart from others."""
        return 1

    def fold(self, rows: pl.DataFrame, state: WindowState) -> pl.DataFrame:
        """Add each row's share to its slice; return the rows late for all their windows."""
        if rows.is_empty():
            return self._late(rows)
        at_ms = rows[EVENT_TIME].to_numpy()
        # Before its own time W overtakes nothing; cutting there keeps NEVER_MS from overflowing.
        watermark_ms = np.maximum(rows[WATERMARK].to_numpy(), at_ms)
        passed = self.windows.end_until(watermark_ms)
        sliced = rows.with_columns(pl.Series(SLICE, self.windows.slice_start(at_ms)))
        behind = pl.Series(passed > at_ms)
        if not behind.any():
            self._add_ahead(sliced, state)
            return self._late(rows.clear())
        closed = self.windows.end_until(watermark_ms - self.allowed_lateness_ms)
        late = pl.Series(closed >= self.windows.last_end(at_ms))
        closed[closed <= at_ms] = NEVER_MS
        marked = sliced.with_columns(pl.Series(PASSED, passed), pl.Series(CLOSED, closed))
        self._add_ahead(sliced.filter(~behind), state)
        self._add_behind(marked.filter(behind & ~late), state)
        return self._late(rows.filter(late))

    def _add_ahead(self, rows: pl.DataFrame, state: WindowState) -> None:
        if not rows.is_empty():
            state.add_ahead(self.aggregation.partials(rows, (SLICE, *self.key)))

    def _add_behind(self, rows: pl.DataFrame, state: WindowState) -> None:
        if not rows.is_empty():
            by = (SLICE, *self.key, PASSED, CLOSED)
            state.add_behind(self.aggregation.partials(rows, by))

    def _late(self, rows: pl.DataFrame) -> pl.DataFrame:
        end_ms = self.windows.last_end(rows[EVENT_TIME].to_numpy())
        start_ms = self.windows.start_of(end_ms)
        return missed(rows, start_ms, end_ms, self.allowed_lateness_ms)

    def publish(self, state: WindowState, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return corrections of published windows, then the windows that the clock reached."""
        return self.panes(self.due(state, before_ms, clock_ms), clock_ms)

    def pressing(self, rows: pl.DataFrame) -> Mask:
        """Return which rows count in a window that W had passed, and so ask for a correction."""
        behind = behind_time(rows, self.allowed_lateness_ms - self.wait_ms)
        at_ms, watermark_ms = rows[EVENT_TIME].to_numpy(), rows[WATERMARK].to_numpy()
        behind[behind] = self.windows.end_until(watermark_ms[behind]) > at_ms[behind]
        return behind

    @property
    def wait_ms(self) -> int:
        """How long after a window's end its pane waits for late rows."""
        return wait_after_end_ms(self.trigger, self.allowed_lateness_ms)

    def due(self, state: WindowState, before_ms: int, clock_ms: int) -> list[pl.DataFrame]:
        """Return what ``publish`` publishes as partials by END and key, with REVISION and TIMING.

        An on-time pane holds the rows with W < end, whatever else has come; the keys with rows
        behind have a second pane right after it, with everything or, discarding, with those rows.
        """
        touched = state.take_touched()
        if isinstance(self.trigger, OnFinal):
            lateness_ms = self.allowed_lateness_ms
            return self._complete(state, state.due(before_ms - lateness_ms, clock_ms - lateness_ms))
        ends = state.due(before_ms, clock_ms)
        behind = [*self._published(touched, before_ms), *state.behind(ends)]
        parts = self._on_time(state, ends)
        return [*parts, *self._corrections(state, behind)] if behind else parts

    def counted(
        self, state: WindowState, windows: pl.DataFrame, *, behind: bool
    ) -> list[pl.DataFrame]:
        """Return what counts in some windows of keys so far, the rows behind them too if asked."""
        ends = windows[END].unique().sort().to_list()
        parts = self._complete(state, ends) if behind else self._on_time(state, ends)
        by = [END, *self.key]
        return [part.join(windows, on=by, how="semi", nulls_equal=True) for part in parts]

    def counts(self, rows: pl.DataFrame, _state: WindowState, wait_ms: int) -> pl.DataFrame | None:
        """Return which rows count in which windows, as ``early`` asks for it."""
        starts = self.windows.slice_start(rows[EVENT_TIME].to_numpy())
        watermark_ms = rows[WATERMARK].to_numpy()
        parts = []
        columns = rows.select(*self.key, EVENT_TIME)
        for end_ms in self.windows.ends_of(starts).T:
            row = np.flatnonzero((end_ms > starts) & (end_ms + wait_ms > watermark_ms))
            if row.size:
                parts.append(
                    columns[row].with_columns(
                        pl.Series(END, end_ms[row]),
                        pl.Series(ROW, row),
                        pl.Series(BEHIND, end_ms[row] <= watermark_ms[row]),
                        pl.lit(value=True).alias(COUNTS),
                        pl.lit(value=True).alias(THERE),
                    )
                )
        return pl.concat(parts) if parts else None

    def before(self, _state: WindowState, _windows: pl.DataFrame, _wait_ms: int) -> None:
        """Return nothing: of each window that has rows there is a tally."""

    def _on_time(self, state: WindowState, ends: list[int]) -> list[pl.DataFrame]:
        """Return the rows that are on time for windows, as far as they have come."""
        return self._merged(state.on_time(ends), ON_TIME)

    def _complete(self, state: WindowState, ends: list[int]) -> list[pl.DataFrame]:
        """Return everything accepted for windows, late where a row of the key was behind."""
        parts = self._merged(state.accepted(ends), ON_TIME)
        behind = state.behind(ends)
        if not behind:
            return parts
        late = self._keys(behind)
        by = [END, *self.key]
        on_time = [part.join(late, on=by, how="anti", nulls_equal=True) for part in parts]
        return [*on_time, *self._everything(state, late)]

    def _corrections(self, state: WindowState, behind: list[pl.DataFrame]) -> list[pl.DataFrame]:
        """Return late panes for the keys and windows of some partials of rows behind."""
        everything = self._everything(state, self._keys(behind))
        if not self.discarding:
            return everything
        by = [END, *self.key]
        revisions = stacked(everything).select(*by, REVISION, TIMING)
        new = self.aggregation.combine(behind, by)
        return [new.join(revisions, on=by, how="left", nulls_equal=True)]

    def _everything(self, state: WindowState, keys: pl.DataFrame) -> list[pl.DataFrame]:
        """Return everything accepted for some keys of some windows."""
        blocks = state.accepted(keys[END].unique().sort().to_list())
        by = [END, *self.key]
        wanted = [block.join(keys, on=by, how="semi", nulls_equal=True) for block in blocks]
        return self._merged(wanted, LATE)

    def _keys(self, blocks: list[pl.DataFrame]) -> pl.DataFrame:
        return pl.concat([block.select(END, *self.key) for block in blocks]).unique()

    def _merged(self, blocks: list[pl.DataFrame], timing: str) -> list[pl.DataFrame]:
        if not blocks:
            return []
        merged = self.aggregation.combine(blocks, (END, *self.key))
        return [merged.with_columns(pl.col(ROWS).alias(REVISION), pl.lit(timing).alias(TIMING))]

    def _published(self, touched: list[pl.DataFrame], before_ms: int) -> Iterator[pl.DataFrame]:
        """Yield partials of rows behind published windows in which they count, with the END."""
        for block in touched:
            start = block[SLICE].to_numpy()
            upper = np.minimum(block[PASSED].to_numpy(), before_ms)
            lower = np.maximum(block[CLOSED].to_numpy(), start)
            for end_ms in self.windows.ends_of(start).T:
                counts = (lower < end_ms) & (end_ms <= upper)
                if counts.any():
                    ended = block.drop(SLICE).with_columns(pl.Series(END, end_ms))
                    yield unmarked(ended.filter(pl.Series(counts)))

    def panes(self, parts: list[pl.DataFrame], clock_ms: int) -> pl.DataFrame:
        """Return partials as panes, in their order."""
        if not parts:
            schema = pane_schema(self.key, self.columns, self.aggregation.types)
            return pl.DataFrame(schema=schema)
        merged = stacked(parts)
        return panes_of(
            merged,
            self.key,
            self.windows.start_of(merged[END].to_numpy()),
            self.aggregation.values(merged),
            clock_ms - self.allowed_lateness_ms,
        )
