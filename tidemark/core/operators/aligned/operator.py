"""Aligned windows: one pane per key and window, from time slices that windows share.

See docs/semantics.md, "Windows", "Lateness" and "Panes".

State layout.  Time is divided into *time slices*, of width gcd(size, slide) or one period of the
calendar.  Every window is a whole number of time slices.  A time slice holds blocks of partial
aggregates.  Each fold adds one block, with one line per key, to every time slice that has rows in
the segment.  Rows with W at or past the end of one of their windows are *behind*.  Their partials
are kept apart, with two marks:

* ``passed``: the last window end at or before W.  The row is on time for every later window.
* ``closed``: the last window end at or before W - allowed lateness.  The row is late for the
  windows up to this end, and counts in every later window.

Publishing a window reads the blocks of its time slices and groups them once.  The marks alone
decide which rows a window shows, so purged and unpurged state give the same panes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS, Aggregation
from tidemark.core.columns import repeated_text, with_column, without
from tidemark.core.operators.aligned.slice_buffer import SLICE
from tidemark.core.operators.aligned.state import CLOSED, PASSED, WindowState
from tidemark.core.operators.due_by_end import DueByEnd
from tidemark.core.operators.firing import BEHIND, COUNTS, ROW, THERE
from tidemark.core.operators.operator import TimePortion, missed
from tidemark.core.operators.ports import PANES
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.state.blocks import stacked
from tidemark.core.state.keyed_lines import Mask, Numbers
from tidemark.core.time.row_watermarks import SEGMENT
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, WATERMARK
from tidemark.core.windows.pane import (
    END,
    LATE,
    ON_TIME,
    REVISION,
    TIMING,
    pane_schema,
    panes_of,
)
from tidemark.core.windows.trigger import OnClose, Trigger
from tidemark.core.windows.window import AlignedWindows

_CAME = "@came"  # segment in which rows behind came; SEGMENT is the segment that shows them


@dataclass(frozen=True)
class WindowAggregate(DueByEnd):
    """Aggregate each key's rows in every window that contains them.

    State is the partial aggregates of every time slice, until the clock has passed the last window
    of the time slice by the allowed lateness.  So it is bounded by keys x open time slices.
    """

    windows: AlignedWindows
    aggregation: Aggregation
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    allowed_lateness_ms: int = 0
    trigger: Trigger = field(default_factory=OnClose)
    discarding: bool = False

    @property
    def max_late_segments(self) -> int:
        """The number of segments with rows behind that a batch may hold.

        A pane reads the rows behind of each segment before its own.  So the work grows with the
        square of this number.
        """
        return 32

    def open(self, store: BlockStore = IN_MEMORY) -> WindowState:
        """Return empty state."""
        return WindowState(
            self.windows, self.aggregation, self.key, self.allowed_lateness_ms, store
        )

    @property
    def grid_ms(self) -> int:
        """The interval of ends, ms, whose tallies lie together: 1, as keys share windows."""
        return 1

    def fold(self, rows: pl.DataFrame, state: WindowState) -> pl.DataFrame:
        """Add each row to its time slice; return the rows that are late for all their windows."""
        if rows.is_empty():
            return self._late(rows)
        at_ms = rows[EVENT_TIME].to_numpy()
        # A W before the row's time has passed none of its windows, and NEVER_MS would overflow.
        watermark_ms = np.maximum(rows[WATERMARK].to_numpy(), at_ms)
        passed = self.windows.end_until(watermark_ms)
        sliced = rows.hstack([pl.Series(SLICE, self.windows.slice_start(at_ms))])
        behind = pl.Series(passed > at_ms)
        if not behind.any():
            self._add_ahead(sliced, state)
            return self._late(rows.clear())
        closed, is_late = self._closed(at_ms, watermark_ms)
        late = pl.Series(is_late)
        closed[closed <= at_ms] = NEVER_MS
        marked = sliced.with_columns(pl.Series(PASSED, passed), pl.Series(CLOSED, closed))
        self._add_ahead(sliced.filter(~behind), state)
        self._add_behind(marked.filter(behind & ~late), state)
        return self._late(rows.filter(late))

    def late_of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that are late for all their windows; W has passed the time of each."""
        _, late = self._closed(rows[EVENT_TIME].to_numpy(), rows[WATERMARK].to_numpy())
        return self._late(rows.filter(pl.Series(late)))

    def _closed(self, at_ms: Numbers, watermark_ms: Numbers) -> tuple[Numbers, Mask]:
        """Return the last window end for which rows may be late, and which are for all windows."""
        closed = self.windows.end_until(watermark_ms - self.allowed_lateness_ms)
        return closed, closed >= self.windows.last_end(at_ms)

    def _add_ahead(self, rows: pl.DataFrame, state: WindowState) -> None:
        if not rows.is_empty():
            state.add_ahead(self.aggregation.partials(rows, (SLICE, *self.key)))

    def _add_behind(self, rows: pl.DataFrame, state: WindowState) -> None:
        if not rows.is_empty():
            by = [SLICE, *self.key, PASSED, CLOSED, *[SEGMENT] * (SEGMENT in rows.columns)]
            state.add_behind(self.aggregation.partials(rows, by))

    def _late(self, rows: pl.DataFrame) -> pl.DataFrame:
        end_ms = self.windows.last_end(rows[EVENT_TIME].to_numpy())
        start_ms = self.windows.start_of(end_ms)
        return missed(rows, start_ms, end_ms, end_ms + self.allowed_lateness_ms)

    def publish(self, state: WindowState, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return corrections of published windows, then the windows that the clock reached."""
        return self.panes(self.due(state, before_ms, clock_ms), clock_ms)

    def rests(self, state: WindowState, before_ms: int, clock_ms: int) -> bool:
        """Whether no window is due, so that a segment without rows publishes nothing."""
        return not state.due(before_ms - self.wait_ms, clock_ms - self.wait_ms)

    def stops(self, state: WindowState, before_ms: int, clock_ms: int) -> list[int]:
        """Return the times at which the clock may stop on its way, so that few panes are due."""
        wait_ms = self.wait_ms
        ends = state.due(before_ms - wait_ms, clock_ms - wait_ms)
        portions = state.portions(ends)
        return [*(portion[-1] + wait_ms for portion in portions[:-1]), clock_ms]

    def advance_in_portions(
        self, state: WindowState, before_ms: int, clock_ms: int
    ) -> Iterator[TimePortion]:
        """Yield the panes of some windows at a time."""
        for stop_ms in self.stops(state, before_ms, clock_ms):
            panes = self.publish(state, before_ms, stop_ms)
            yield TimePortion({PANES: self.with_final(panes, stop_ms, clock_ms)}, stop_ms)
            before_ms = stop_ms

    def publish_each(
        self, state: WindowState, before_ms: int, clock_ms: Sequence[int]
    ) -> pl.DataFrame:
        """Return the panes of ``publish`` for each segment, with its number in SEGMENT."""
        clocks_ms = np.array(clock_ms)
        parts = self._due(state, before_ms, clocks_ms)
        if not parts:
            return self.panes([], clock_ms[-1]).hstack([pl.Series(SEGMENT, [], pl.Int64)])
        merged, lateness_ms = stacked(parts), self.allowed_lateness_ms
        until_ms = np.maximum(clocks_ms, NEVER_MS + lateness_ms) - lateness_ms
        return self._panes(merged, until_ms[merged[SEGMENT].to_numpy()], (SEGMENT,))

    def corrects(self, rows: pl.DataFrame) -> Mask:
        """Mark the rows that count in a window that W has passed: they correct its pane."""
        behind = super().corrects(rows)
        at_ms, watermark_ms = rows[EVENT_TIME].to_numpy(), rows[WATERMARK].to_numpy()
        behind[behind] = self.windows.end_until(watermark_ms[behind]) > at_ms[behind]
        return behind

    def due(self, state: WindowState, before_ms: int, clock_ms: int) -> list[pl.DataFrame]:
        """Return the panes of ``publish`` as partials by END and key, with REVISION and TIMING.

        An on-time pane holds exactly the rows with W < end.  For a key with rows behind, a second
        pane follows directly: with all rows, or with discarding panes, with the rows behind.
        """
        return self._due(state, before_ms, np.array([clock_ms]))

    def _due(self, state: WindowState, before_ms: int, clock_ms: Numbers) -> list[pl.DataFrame]:
        """Return the panes that are due after segments; with several segments, by SEGMENT.

        ``clock_ms``: the clock after each segment.
        """
        wait_ms, last_ms = self.wait_ms, int(clock_ms[-1])
        ends = state.due(before_ms - wait_ms, last_ms - wait_ms)
        corrects = self.allowed_lateness_ms > wait_ms
        corrections = self._corrections(state, ends, clock_ms) if corrects else []
        state.settle()
        parts = self._complete(state, ends) if wait_ms else self._on_time(state, ends)
        return [*self._placed(parts, clock_ms), *corrections]

    def _placed(self, parts: list[pl.DataFrame], clock_ms: Numbers) -> list[pl.DataFrame]:
        """Add, with several segments, the SEGMENT after which each window was due."""
        if clock_ms.size == 1:
            return parts
        reached = [np.searchsorted(clock_ms, p[END].to_numpy() + self.wait_ms) for p in parts]
        segments = [pl.Series(SEGMENT, segment) for segment in reached]
        return list(map(with_column, parts, segments))

    def counted(
        self, state: WindowState, windows: pl.DataFrame, *, behind: bool
    ) -> list[pl.DataFrame]:
        """Return the partials of windows of keys so far; with ``behind`` including rows behind."""
        ends = windows[END].unique().sort().to_list()
        parts = self._complete(state, ends) if behind else self._on_time(state, ends)
        by = [END, *self.key]
        return [part.join(windows, on=by, how="semi", nulls_equal=True) for part in parts]

    def counts(self, rows: pl.DataFrame, _state: WindowState, wait_ms: int) -> pl.DataFrame | None:
        """Return which rows count in which windows, as for ``EarlyWindows``."""
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
        """Return None: every window with rows has a tally."""

    def _on_time(self, state: WindowState, ends: list[int]) -> list[pl.DataFrame]:
        """Return the partials of the rows that are on time for windows, so far."""
        portions = state.portions(ends)
        return [part for some in portions for part in self._merged(state.on_time(some), ON_TIME)]

    def _complete(self, state: WindowState, ends: list[int]) -> list[pl.DataFrame]:
        """Return the partials of all accepted rows; timing is late for keys with a row behind."""
        portions = state.portions(ends)
        return [part for some in portions for part in self._completed(state, some)]

    def _completed(self, state: WindowState, ends: list[int]) -> list[pl.DataFrame]:
        parts = self._merged(state.accepted(ends), ON_TIME)
        behind = state.behind(ends)
        if not behind:
            return parts
        by = [END, *self.key]
        late = _distinct(behind, by)
        on_time = [part.join(late, on=by, how="anti", nulls_equal=True) for part in parts]
        return [*on_time, *self._merged(self._accepted(state, late), LATE)]

    def _corrections(
        self, state: WindowState, ends: list[int], clock_ms: Numbers
    ) -> list[pl.DataFrame]:
        """Return late panes: of published windows with new rows behind, of ``ends`` with any.

        Each pane shows the rows that had come by its segment.
        """
        came = [self._shown_in(part, clock_ms) for part in state.counting(state.touched)]
        new = [stacked(came)] if came else []
        older = self._placed(state.behind(ends), clock_ms)
        shows = pl.col(END) <= pl.min_horizontal(PASSED, int(clock_ms[-1]))
        behind = [*(without(part.filter(shows), PASSED, _CAME) for part in new), *older]
        segment = [SEGMENT] * (clock_ms.size > 1)
        by = [END, *self.key, *segment]
        shown = _distinct(behind, by) if behind else None
        if shown is None or shown.is_empty():
            return []
        # A window is read once for each segment that shows it.
        times = shown.select(END, *segment).unique().group_by(END).len("times").sort(END)
        everything = [
            part
            for some in state.portions(times[END].to_list(), times["times"].to_numpy())
            for part in self._corrected(state, shown.filter(pl.col(END).is_in(some)), new, by)
        ]
        if not self.discarding:
            return everything
        revisions = stacked(everything).select(*by, REVISION, TIMING)
        held = self.aggregation.combine(behind, by)
        return [held.join(revisions, on=by, how="left", nulls_equal=True)]

    def _corrected(
        self, state: WindowState, shown: pl.DataFrame, new: list[pl.DataFrame], by: list[str]
    ) -> list[pl.DataFrame]:
        """Return the partials of all accepted rows of panes; ``new``: rows not yet settled."""
        accepted = [*self._accepted(state, shown), *(self._by_then(part, shown) for part in new)]
        return self._merged(accepted, LATE, by)

    def _shown_in(self, part: pl.DataFrame, clock_ms: Numbers) -> pl.DataFrame:
        """Add the SEGMENT that shows rows behind: their own, or if later, that of the close."""
        if clock_ms.size == 1:
            return part
        came = part[SEGMENT]
        closed = self._placed([part], clock_ms)[0][SEGMENT]
        shown = np.maximum(came.to_numpy(), closed.to_numpy())
        return part.with_columns(came.alias(_CAME), pl.Series(SEGMENT, shown))

    def _by_then(self, part: pl.DataFrame, shown: pl.DataFrame) -> pl.DataFrame:
        """Return the rows behind that panes show: those that had come by the pane's segment."""
        by = [END, *self.key]
        found = without(part, PASSED, SEGMENT).join(shown, on=by, nulls_equal=True)
        if SEGMENT not in shown.columns:
            return found
        return found.filter(pl.col(_CAME) <= pl.col(SEGMENT)).drop(_CAME)

    def _accepted(self, state: WindowState, shown: pl.DataFrame) -> list[pl.DataFrame]:
        """Return the settled partials of windows of keys, once for each of their panes."""
        blocks = state.accepted(shown[END].unique().sort().to_list())
        by = [END, *self.key]
        return [block.join(shown, on=by, nulls_equal=True) for block in blocks]

    def _merged(
        self, blocks: list[pl.DataFrame], timing: str, by: Sequence[str] = ()
    ) -> list[pl.DataFrame]:
        if not blocks:
            return []
        merged = self.aggregation.combine(blocks, by or (END, *self.key))
        revised = with_column(merged, merged[ROWS].alias(REVISION))
        return [with_column(revised, repeated_text(TIMING, timing, merged.height))]

    def panes(self, parts: list[pl.DataFrame], clock_ms: int) -> pl.DataFrame:
        """Return partials as panes, in the order of a topic."""
        if not parts:
            schema = pane_schema(self.key, self.columns, self.aggregation.value_types)
            return pl.DataFrame(schema=schema)
        return self._panes(stacked(parts), clock_ms - self.allowed_lateness_ms)

    def _panes(
        self, merged: pl.DataFrame, final_until_ms: int | Numbers, within: Sequence[str] = ()
    ) -> pl.DataFrame:
        return panes_of(
            merged,
            self.key,
            self.windows.start_of(merged[END].to_numpy()),
            self.aggregation.values(merged),
            final_until_ms,
            within,
        )


def _distinct(parts: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
    return pl.concat([part.select(by) for part in parts]).unique()
