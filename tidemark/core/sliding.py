"""Sliding windows: a window ends with every row, and one begins just after it.

See docs/semantics.md, "Sliding".  With reach d, a row at t makes two windows of its key:

        [t - d .......... t]                       ends with the row
                            [t + 1 ...... t + 1 + d]   follows it, where it is not empty

Both are half open here: their size is d + 1 ms.  A window holds every row in it that was not late
for it, whoever made it and whenever.  So content and existence follow from the rows' times and W
alone, and neither order nor cuts can show.

A segment's publication looks at the keys that have a window due, or rows behind their W.  Their
lines near those times are laid out by key and time; then a window is a stretch of lines.  Whole
stretches are merged from blocks of 1, 2, 4 ... lines, each merged once, where every line counts:

* lines ahead count in every window that has them;
* lines behind by at most a *bound* count in every window that ends later than the bound after them.

So of each window the rest is judged line by line: lines slightly behind in its last stretch, as
long as the bound, and lines far behind in all of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tidemark.core.aggregate import ROWS, Aggregation
from tidemark.core.block_store import IN_MEMORY, BlockStore
from tidemark.core.blocks import stacked
from tidemark.core.keyed_runs import Mask, Numbers, keys_of
from tidemark.core.operator import missed
from tidemark.core.pane import (
    END,
    LATE,
    ON_TIME,
    REVISION,
    framed,
    pane_schema,
    timing_where,
)
from tidemark.core.prefixes import grouped
from tidemark.core.segment import EVENT_TIME, NEVER_MS, WATERMARK
from tidemark.core.sliding_fold import Timeline, Windows, any_of, windows_made
from tidemark.core.sliding_state import SlidingState
from tidemark.core.trigger import OnClose, OnFinal, Trigger
from tidemark.core.window import Sliding

_NUMBER = "@number"

_BOUND = 16
"""The part of a window's size by which lines may be behind without being judged one by one."""


@dataclass(frozen=True)
class _Lines:
    """Some lines and their partials; those in [end - far_ms, end - near_ms) concern a window."""

    timeline: Timeline
    partials: pl.DataFrame
    far_ms: int
    near_ms: int = 0


@dataclass(frozen=True)
class _Near:
    """The lines that a publication looks at: those that surely count, and those to be judged.

    ``keys`` by number; ``every``: all lines; ``touched``: new lines behind.
    """

    keys: pl.DataFrame
    every: Timeline
    certain: tuple[_Lines, ...]
    judged: tuple[_Lines, ...]
    touched: Timeline


@dataclass(frozen=True)
class _Shown:
    """What to publish of windows: the rows with W before a limit, and under which timing."""

    windows: Windows
    limit_ms: Numbers
    late: Mask


@dataclass(frozen=True)
class SlidingAggregate:
    """Aggregate each key's rows in windows that end with, or follow, every row.

    State is one partial per key and time (and W, behind) until the clock has passed all windows
    that it could be in by the allowed lateness.
    """

    windows: Sliding
    aggregation: Aggregation
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    allowed_lateness_ms: int = 0
    trigger: Trigger = field(default_factory=OnClose)

    def fresh(self, store: BlockStore = IN_MEMORY) -> SlidingState:
        """Return state that holds nothing."""
        return SlidingState(
            self.windows, self.aggregation, self.key, self.allowed_lateness_ms, store
        )

    def fold(self, rows: pl.DataFrame, state: SlidingState) -> pl.DataFrame:
        """Add rows to the lines; return those late for every window they could be in."""
        at_ms = rows[EVENT_TIME].to_numpy()
        # Before its own time W overtakes nothing.
        watermark_ms = np.maximum(rows[WATERMARK].to_numpy(), at_ms)
        late = at_ms + self.windows.longest_ms + self.allowed_lateness_ms <= watermark_ms
        kept = rows.with_columns(pl.Series(WATERMARK, watermark_ms)).filter(pl.Series(~late))
        if kept.height:
            state.add(self.aggregation.partials(kept, (*self.key, EVENT_TIME, WATERMARK)))
        return self._late(rows.filter(pl.Series(late)))

    def _late(self, rows: pl.DataFrame) -> pl.DataFrame:
        start_ms = rows[EVENT_TIME].to_numpy()
        end_ms = start_ms + self.windows.longest_ms
        return missed(rows, start_ms, end_ms, self.allowed_lateness_ms)

    def publish(self, state: SlidingState, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return corrections of published windows, then the windows that the clock reached."""
        wait_ms = self.allowed_lateness_ms if isinstance(self.trigger, OnFinal) else 0
        touched = stacked([self._no_lines(), *state.take_touched()])
        # A line is in no window that ended before it; on_final nothing follows what it published.
        touched = touched.filter(pl.lit(wait_ms == 0) & (pl.col(EVENT_TIME) < before_ms))
        after_ms, until_ms = max(NEVER_MS, before_ms - wait_ms), max(NEVER_MS, clock_ms - wait_ms)
        lines = self._near(state, touched, after_ms, until_ms)
        if lines is None:
            schema = pane_schema(self.key, self.columns, self.aggregation.types)
            return pl.DataFrame(schema=schema)
        shown = list(self._shown(lines, after_ms, until_ms))
        return self._panes(
            lines.keys, [self._merged(lines, each) for each in shown], shown, clock_ms
        )

    def _no_lines(self) -> pl.DataFrame:
        key = {name: self.columns[name] for name in self.key}
        return pl.DataFrame(schema={**key, EVENT_TIME: pl.Int64(), WATERMARK: pl.Int64()})

    def _near(
        self, state: SlidingState, touched: pl.DataFrame, after_ms: int, until_ms: int
    ) -> _Near | None:
        """Lay out the lines of the keys with a window due or rows behind."""
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
        every = _sorted_lines(found[picked], number[picked])
        fresh = _sorted_lines(touched, of_touched)[1]
        return _Near(keys, every[1], *self._split(*every), fresh)

    def _split(
        self, lines: pl.DataFrame, every: Timeline
    ) -> tuple[tuple[_Lines, ...], tuple[_Lines, ...]]:
        """Return the lines that surely count, and those to be judged."""
        size_ms = self.windows.longest_ms
        bound_ms = size_ms // _BOUND
        partials = lines.drop(*self.key, EVENT_TIME, WATERMARK)
        behind_ms = every.watermark_ms - every.at_ms
        slight = (behind_ms > 0) & (behind_ms <= bound_ms)

        def part(mask: Mask, far_ms: int, near_ms: int = 0) -> _Lines:
            return _Lines(every.where(mask), partials.filter(pl.Series(mask)), far_ms, near_ms)

        settled = part(behind_ms <= bound_ms, size_ms, bound_ms)
        recent = part(behind_ms == 0, bound_ms)
        return (settled, recent), (part(slight, bound_ms), part(behind_ms > bound_ms, size_ms))

    def _shown(self, lines: _Near, after_ms: int, until_ms: int) -> Iterator[_Shown]:
        """Yield what is due, and corrections of what was due before."""
        size_ms, lateness_ms = self.windows.longest_ms, self.allowed_lateness_ms
        made = windows_made(lines.every, size_ms, lateness_ms)
        due = made.where(_within(made.end_ms, after_ms, until_ms))
        late = ~due.on_time
        for part in lines.judged:
            window, line = part.timeline.pairs(due, part.far_ms)
            watermark_ms, end_ms = part.timeline.watermark_ms[line], due.end_ms[window]
            counts = (watermark_ms >= end_ms) & (watermark_ms < end_ms + lateness_ms)
            late |= any_of(late.size, window[counts])
        if isinstance(self.trigger, OnFinal):
            yield _Shown(due, due.end_ms + lateness_ms, late)
            return
        on_time = due.where(due.on_time)
        yield _Shown(on_time, on_time.end_ms, np.zeros(on_time.key.size, np.bool_))
        again = [due.where(late), self._touched(lines, made.where(made.end_ms <= after_ms))]
        for windows in again:
            yield _Shown(windows, windows.end_ms + lateness_ms, np.ones(windows.key.size, np.bool_))

    def _touched(self, lines: _Near, published: Windows) -> Windows:
        """Return the windows in which new rows behind count, or which they made."""
        size_ms, touched = self.windows.longest_ms, lines.touched
        window, line = touched.pairs(published, size_ms)
        counts = touched.watermark_ms[line] < published.end_ms[window] + self.allowed_lateness_ms
        follows = touched.has(published.key, published.end_ms - size_ms - 1)
        met = any_of(published.key.size, window[counts])
        return published.where(met | (follows & ~published.on_time))

    def _merged(self, lines: _Near, shown: _Shown) -> pl.DataFrame:
        """Return the merged partials of each window that holds a row, with its number."""
        parts: list[pl.DataFrame] = []
        for part in lines.certain:
            begin, end = part.timeline.inside(shown.windows, part.far_ms, part.near_ms)
            parts += self._stretches(part.partials, begin, end)
        for part in lines.judged:
            window, line = part.timeline.pairs(shown.windows, part.far_ms)
            counts = part.timeline.watermark_ms[line] < shown.limit_ms[window]
            parts.append(_numbered(part.partials[line[counts]], window[counts]))
        return self.aggregation.combine(parts, (_NUMBER,))

    def _stretches(
        self, lines: pl.DataFrame, begin: Numbers, end: Numbers
    ) -> Iterator[pl.DataFrame]:
        """Yield blocks of lines that together make the stretches, with the stretch's number."""
        number = np.arange(begin.size)
        while (begin < end).any():
            odd = (begin < end) & (begin % 2 == 1)
            yield _numbered(lines[begin[odd]], number[odd])
            begin = begin + odd
            odd = (begin < end) & (end % 2 == 1)
            end = end - odd
            yield _numbered(lines[end[odd]], number[odd])
            begin, end = begin // 2, end // 2
            if (begin < end).any():
                lines = grouped(self.aggregation, lines, np.arange(lines.height) // 2)

    def _panes(
        self, keys: pl.DataFrame, merged: list[pl.DataFrame], shown: list[_Shown], clock_ms: int
    ) -> pl.DataFrame:
        heads = []
        for partials, each in zip(merged, shown, strict=True):
            number = partials[_NUMBER].to_numpy()
            end_ms = each.windows.end_ms[number]
            head = framed(
                keys[each.windows.key[number]],
                end_ms - self.windows.longest_ms,
                end_ms,
                partials[ROWS],
                timing_where(each.late[number], LATE, ON_TIME),
                end_ms <= clock_ms - self.allowed_lateness_ms,
            )
            heads.append(head)
        values = self.aggregation.values(stacked(merged))
        panes: pl.DataFrame = pl.concat(heads).hstack(values)
        return panes.sort(END, *self.key, REVISION)


def _sorted_lines(lines: pl.DataFrame, number: Numbers) -> tuple[pl.DataFrame, Timeline]:
    """Return lines in order of key and time."""
    at_ms = lines[EVENT_TIME].to_numpy()
    order = np.lexsort((at_ms, number))
    watermark_ms = lines[WATERMARK].to_numpy()[order]
    return lines[order], Timeline(number[order], at_ms[order], watermark_ms)


def _within(end_ms: Numbers, after_ms: int, until_ms: int) -> Mask:
    within: Mask = (end_ms > after_ms) & (end_ms <= until_ms)
    return within


def _numbered(partials: pl.DataFrame, number: Numbers) -> pl.DataFrame:
    return partials.hstack([pl.Series(_NUMBER, number, pl.Int64())])
