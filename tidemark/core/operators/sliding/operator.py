"""Sliding windows: a window ends with every row, and one begins just after it.

See docs/semantics.md, "Sliding".  With ``sliding(d)``, a row at t makes two windows of its key:

        [t - d .......... t]                       ends with the row
                            [t + 1 ...... t + 1 + d]   begins just after it, if it holds a row

Both are half open in the code, so their size is d + 1 ms.  A window holds every row in it that was
not late for it, regardless of which row made the window, and when.  So the times and W of rows
alone decide which windows exist and what they hold.  Neither order nor cuts change that.

A publication reads the keys that have a window due or new rows behind.  Their lines near those
times are put into a layout (lines.py).  For early panes (early.py) the operator also returns which
windows each row of a segment counts in.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS, Aggregation
from tidemark.core.operators.due_by_end import DueByEnd
from tidemark.core.operators.firing import BEHIND, COUNTS, ROW, THERE
from tidemark.core.operators.operator import missed
from tidemark.core.operators.sliding.fold import KeyWindows, any_of, match_rows, windows_made
from tidemark.core.operators.sliding.lines import (
    NUMBER,
    Layout,
    in_order,
    layout_of,
    rows_of,
    without,
)
from tidemark.core.operators.sliding.state import SlidingState
from tidemark.core.operators.tallies import HIGHEST, TOTAL
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.state.blocks import stacked
from tidemark.core.state.keyed_lines import Mask, Numbers, keys_of
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
from tidemark.core.windows.trigger import OnClose, OnFinal, Trigger
from tidemark.core.windows.window import Sliding


@dataclass(frozen=True)
class _NearLines:
    """The lines that a publication reads, and in ``touched`` the new lines behind among them."""

    lines: Layout
    touched: Layout


@dataclass(frozen=True)
class SlidingAggregate(DueByEnd):
    """Aggregate each key's rows in windows that end with a row or begin just after one.

    State is one partial per key and event time, and per W for rows behind.  It stays until the
    clock has passed all windows that the partial can be in, by the allowed lateness.
    """

    windows: Sliding
    aggregation: Aggregation
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    allowed_lateness_ms: int = 0
    trigger: Trigger = field(default_factory=OnClose)
    discarding: bool = False

    def open(self, store: BlockStore = IN_MEMORY) -> SlidingState:
        """Return empty state."""
        return SlidingState(
            self.windows, self.aggregation, self.key, self.allowed_lateness_ms, store
        )

    @property
    def grid_ms(self) -> int:
        """The interval of ends, ms, whose tallies lie together: a window may end every ms."""
        return self.windows.longest_ms

    def fold(self, rows: pl.DataFrame, state: SlidingState) -> pl.DataFrame:
        """Add rows to the lines; return the rows that are late for all windows they can be in."""
        late, rows = self._with_lateness(rows)
        kept = rows.filter(pl.Series(~late))
        if kept.height:
            state.add(self.aggregation.partials(kept, (*self.key, EVENT_TIME, WATERMARK)))
        return self._late(rows.filter(pl.Series(late)))

    def late_of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that are late for all windows they can be in."""
        late, rows = self._with_lateness(rows)
        return self._late(rows.filter(pl.Series(late)))

    def _with_lateness(self, rows: pl.DataFrame) -> tuple[Mask, pl.DataFrame]:
        """Return which rows are late, and the rows with W raised to at least their event time."""
        at_ms = rows[EVENT_TIME].to_numpy()
        # A W before the row's time has passed none of its windows.
        watermark_ms = np.maximum(rows[WATERMARK].to_numpy(), at_ms)
        late: Mask = at_ms + self.windows.longest_ms + self.allowed_lateness_ms <= watermark_ms
        return late, rows.with_columns(pl.Series(WATERMARK, watermark_ms))

    def _late(self, rows: pl.DataFrame) -> pl.DataFrame:
        start_ms = rows[EVENT_TIME].to_numpy()
        end_ms = start_ms + self.windows.longest_ms
        return missed(rows, start_ms, end_ms, end_ms + self.allowed_lateness_ms)

    def publish(self, state: SlidingState, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return corrections of published windows, then the windows that the clock reached."""
        return self.panes(self.due(state, before_ms, clock_ms), clock_ms)

    def due(self, state: SlidingState, before_ms: int, clock_ms: int) -> list[pl.DataFrame]:
        """Return the panes of ``publish`` as partials by END and key, with REVISION and TIMING.

        An on-time pane holds the rows with W < end.  If rows came behind, a second pane follows:
        with all rows, or with discarding panes, with the rows that no pane has shown.
        """
        wait_ms = self.wait_ms
        touched = stacked([self._no_lines(), *state.touched])
        state.settle()
        # A line is in no window that ended before it.  With on_final there are no corrections.
        touched = touched.filter(pl.lit(wait_ms == 0) & (pl.col(EVENT_TIME) < before_ms))
        after_ms, until_ms = max(NEVER_MS, before_ms - wait_ms), max(NEVER_MS, clock_ms - wait_ms)
        near = self._near(state, touched, after_ms, until_ms)
        return [] if near is None else list(self._due(near, after_ms, until_ms))

    def _no_lines(self) -> pl.DataFrame:
        key = {name: self.columns[name] for name in self.key}
        return self.aggregation.empty({**key, EVENT_TIME: pl.Int64(), WATERMARK: pl.Int64()})

    def _near(
        self, state: SlidingState, touched: pl.DataFrame, after_ms: int, until_ms: int
    ) -> _NearLines | None:
        """Return the layout of the lines of keys with a window due or rows behind."""
        size_ms = self.windows.longest_ms
        first_ms, last_ms = after_ms - size_ms, until_ms - 1
        if touched.height:
            at_ms = touched[EVENT_TIME].to_numpy()
            first_ms = min(first_ms, int(at_ms.min()) - size_ms)
            last_ms = max(last_ms, int(at_ms.max()) + size_ms)
        blocks = state.between(first_ms, last_ms) if touched.height or after_ms < until_ms else []
        if not blocks:
            return None
        found = stacked(blocks)
        keys, _, number = keys_of(
            pl.concat([found.select(self.key), touched.select(self.key)]), self.key
        )
        ends = found[EVENT_TIME].to_numpy() + 1
        due = _within(ends, after_ms, until_ms) | _within(ends + size_ms, after_ms, until_ms)
        wanted = any_of(keys.height, number[found.height :])
        number, of_touched = number[: found.height], number[found.height :]
        wanted[number[due]] = True
        picked = np.flatnonzero(wanted[number])
        lines = layout_of(self.aggregation, keys, found[picked], number[picked], size_ms)
        return _NearLines(lines, layout_of(self.aggregation, keys, touched, of_touched, size_ms))

    def _due(self, near: _NearLines, after_ms: int, until_ms: int) -> Iterator[pl.DataFrame]:
        """Yield the panes that are due, and corrections of published panes."""
        lines, lateness_ms = near.lines, self.allowed_lateness_ms
        made = windows_made(lines.every, self.windows.longest_ms, lateness_ms)
        due = made.where(_within(made.end_ms, after_ms, until_ms))
        limit_ms = due.end_ms + lateness_ms
        late = ~due.on_time | lines.behind(due, limit_ms)
        if isinstance(self.trigger, OnFinal):
            yield self._part(lines, due, lines.merged(due, limit_ms), late)
            return
        on_time = due.where(due.on_time)
        yield self._part(lines, on_time, lines.merged(on_time, on_time.end_ms))
        touched = self._touched(near, made.where(made.end_ms <= after_ms))
        if not self.discarding:
            for windows in (due.where(late), touched):
                yield self._corrections(lines, windows, lines)
            return
        new = ~touched.on_time & ~touched.among(self._made_before(near))
        yield self._corrections(lines, due.where(~due.on_time), lines)
        yield self._corrections(lines, due.where(late & due.on_time), lines, behind=True)
        yield self._corrections(lines, touched.where(new), lines)
        yield self._corrections(lines, touched.where(~new), near.touched, behind=True)

    def _corrections(
        self, lines: Layout, windows: KeyWindows, held: Layout, *, behind: bool = False
    ) -> pl.DataFrame:
        """Return late panes of all accepted rows; with ``behind``, of rows behind in ``held``."""
        limit_ms = windows.end_ms + self.allowed_lateness_ms
        partials = held.merged(windows, limit_ms, windows.end_ms if behind else None)
        late = np.ones(windows.key.size, np.bool_)
        if not behind:
            return self._part(lines, windows, partials, late)
        rows = rows_of(lines.merged(windows, limit_ms), windows.key.size)
        return self._part(lines, windows, partials, late, rows)

    def _touched(self, near: _NearLines, published: KeyWindows) -> KeyWindows:
        """Return the published windows in which new rows behind count or that they made."""
        size_ms, touched = self.windows.longest_ms, near.touched.every
        window, line = touched.pairs(published, size_ms)
        counts = touched.watermark_ms[line] < published.end_ms[window] + self.allowed_lateness_ms
        follows = touched.has(published.key, published.end_ms - size_ms - 1)
        has_rows = any_of(published.key.size, window[counts])
        return published.where(has_rows | (follows & ~published.on_time))

    def _made_before(self, near: _NearLines) -> KeyWindows:
        """Return the windows that existed before the new lines came."""
        older = without(near.lines, near.touched)
        return windows_made(older, self.windows.longest_ms, self.allowed_lateness_ms)

    def _part(
        self,
        lines: Layout,
        windows: KeyWindows,
        partials: pl.DataFrame,
        late: Mask | None = None,
        rows: Numbers | None = None,
    ) -> pl.DataFrame:
        """Add END, key, REVISION and TIMING to partials; ``rows``: revisions, by default ROWS."""
        number = partials[NUMBER].to_numpy()
        keys = lines.keys[windows.key[number]]
        revision = partials[ROWS] if rows is None else pl.Series(rows[number])
        timing = (
            np.full(number.size, ON_TIME) if late is None else np.where(late, LATE, ON_TIME)[number]
        )
        head = keys.with_columns(
            pl.Series(END, windows.end_ms[number]),
            revision.alias(REVISION),
            pl.Series(TIMING, timing, pl.String()),
        )
        part: pl.DataFrame = head.hstack(partials.drop(NUMBER))
        return part

    def panes(self, parts: list[pl.DataFrame], clock_ms: int) -> pl.DataFrame:
        """Return partials as panes, in the order of a topic."""
        if not parts:
            schema = pane_schema(self.key, self.columns, self.aggregation.value_types)
            return pl.DataFrame(schema=schema)
        merged = stacked(parts)
        return panes_of(
            merged,
            self.key,
            merged[END].to_numpy() - self.windows.longest_ms,
            self.aggregation.values(merged),
            clock_ms - self.allowed_lateness_ms,
        )

    def counts(self, rows: pl.DataFrame, state: SlidingState, wait_ms: int) -> pl.DataFrame | None:
        """Return which rows count in which windows, or make them, as for ``EarlyWindows``."""
        late, rows = self._with_lateness(rows)
        row = np.flatnonzero(~late)
        if not row.size:
            return None
        rows, size_ms = rows[row], self.windows.longest_ms
        at_ms = rows[EVENT_TIME].to_numpy()
        near = state.between(int(at_ms.min()) - size_ms - 1, int(at_ms.max()) + size_ms + 1)
        columns = (*self.key, EVENT_TIME, WATERMARK)
        known = stacked([self._no_lines(), *near]).select(columns)
        every = pl.concat([known, rows.select(columns)])
        keys, _, number = keys_of(every, self.key)
        ours = any_of(keys.height, number[known.height :])[number[: known.height]]
        lines, _ = in_order(known.filter(pl.Series(ours)), number[: known.height][ours])
        new, order = in_order(rows, number[known.height :])
        matches = match_rows(lines, new, row[order], size_ms, wait_ms)
        of = np.searchsorted(row, matches.row)
        return keys[matches.windows.key].with_columns(
            pl.Series(END, matches.windows.end_ms),
            pl.Series(ROW, matches.row),
            pl.Series(EVENT_TIME, np.where(matches.counts, at_ms[of], NEVER_MS)),
            pl.Series(BEHIND, matches.windows.end_ms <= rows[WATERMARK].to_numpy()[of]),
            pl.Series(COUNTS, matches.counts),
            pl.Series(THERE, matches.there),
        )

    def before(
        self, state: SlidingState, windows: pl.DataFrame, wait_ms: int
    ) -> pl.DataFrame | None:
        """Return END, key, TOTAL, HIGHEST and partials of windows that new rows will make."""
        lines, asked = self._layout(state, windows)
        limit_ms = asked.end_ms + wait_ms
        partials = lines.merged(asked, limit_ms)
        if partials.is_empty():
            return None
        part = self._part(lines, asked, partials).drop(TIMING).rename({REVISION: TOTAL})
        highest_ms = lines.highest(asked, limit_ms)[partials[NUMBER].to_numpy()]
        return part.with_columns(pl.Series(HIGHEST, highest_ms))

    def counted(
        self, state: SlidingState, windows: pl.DataFrame, *, behind: bool
    ) -> list[pl.DataFrame]:
        """Return the partials of windows of keys so far; with ``behind`` including rows behind."""
        lines, asked = self._layout(state, windows)
        limit_ms = asked.end_ms + (self.allowed_lateness_ms if behind else 0)
        late = None
        if behind:
            made = windows_made(lines.every, self.windows.longest_ms, self.allowed_lateness_ms)
            late = ~asked.among(made.where(made.on_time)) | lines.behind(asked, limit_ms)
        return [self._part(lines, asked, lines.merged(asked, limit_ms), late)]

    def _layout(self, state: SlidingState, windows: pl.DataFrame) -> tuple[Layout, KeyWindows]:
        """Return the layout of the lines that windows, given by key and END, read."""
        end_ms, size_ms = windows[END].to_numpy(), self.windows.longest_ms
        near = state.between(int(end_ms.min()) - size_ms - 1, int(end_ms.max()))
        found = stacked([self._no_lines(), *near])
        keys, _, number = keys_of(
            pl.concat([found.select(self.key), windows.select(self.key)]), self.key
        )
        of_line, of_window = number[: found.height], number[found.height :]
        picked = np.flatnonzero(any_of(keys.height, of_window)[of_line])
        lines = layout_of(self.aggregation, keys, found[picked], of_line[picked], size_ms)
        return lines, KeyWindows(of_window, end_ms, np.ones(end_ms.size, np.bool_))


def _within(end_ms: Numbers, after_ms: int, until_ms: int) -> Mask:
    within: Mask = (end_ms > after_ms) & (end_ms <= until_ms)
    return within
