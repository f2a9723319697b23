"""The lines of sliding windows, in a layout in which the lines of a window are found and merged.

See docs/semantics.md, "Sliding"; operator.py and state.py explain windows and lines.  Lines are in
order of key and time, so the lines of a window are a *range* of places.  Lines are of two sorts:

* *certain* lines count in every window of their range.  These are lines ahead.  These are also
  lines behind by at most a *bound*, in windows that end later than the bound after them.
* *checked* lines may be late for a window, so each is compared with the window.  These are lines
  slightly behind, in the last part of a window, which is as long as the bound.  These are also
  lines far behind, in the whole window.

Ranges of certain lines are merged from blocks of 1, 2, 4 ... lines, and each block is merged once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS, Aggregation
from tidemark.core.operators.sliding.fold import KeyWindows, Timeline, any_of
from tidemark.core.state.keyed_lines import Mask, Numbers
from tidemark.core.state.prefixes import merge_groups
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, WATERMARK

NUMBER = "@number"
"""Column of merged partials, Int64: the place of their window."""

_BOUND = 16
"""The bound is the size of a window divided by this number."""


@dataclass(frozen=True)
class Lines:
    """Some lines and their partials; a window uses those in [end - far_ms, end - near_ms)."""

    timeline: Timeline
    partials: pl.DataFrame
    far_ms: int
    near_ms: int = 0


@dataclass(frozen=True)
class Layout:
    """Lines of some keys, divided into certain and checked lines.

    ``keys``: by number.  ``every``: all lines.  ``rows``: the number of rows of each line.
    """

    aggregation: Aggregation
    keys: pl.DataFrame
    every: Timeline
    rows: Numbers
    certain: tuple[Lines, ...]
    checked: tuple[Lines, ...]

    def merged(
        self, windows: KeyWindows, limit_ms: Numbers, from_ms: Numbers | None = None
    ) -> pl.DataFrame:
        """Return the merged partials of each window that holds a row, with NUMBER.

        Lines with W < ``limit_ms`` count.  With ``from_ms``, which is at or past the ends of the
        windows, only lines with W >= ``from_ms`` count.
        """
        parts: list[pl.DataFrame] = []
        for part in self.certain if from_ms is None else ():
            begin, end = part.timeline.inside(windows, part.far_ms, part.near_ms)
            parts += self._stretches(part.partials, begin, end)
        for window, line, part in self._checked_lines(windows):
            watermark_ms = part.timeline.watermark_ms[line]
            counts = watermark_ms < limit_ms[window]
            if from_ms is not None:
                counts &= watermark_ms >= from_ms[window]
            parts.append(_numbered(part.partials[line[counts]], window[counts]))
        return self.aggregation.combine(parts, (NUMBER,))

    def behind(self, windows: KeyWindows, limit_ms: Numbers) -> Mask:
        """Mark the windows that hold a line behind them, with W before the limit."""
        behind = np.zeros(windows.key.size, np.bool_)
        for window, line, part in self._checked_lines(windows):
            watermark_ms = part.timeline.watermark_ms[line]
            counts = (watermark_ms >= windows.end_ms[window]) & (watermark_ms < limit_ms[window])
            behind |= any_of(behind.size, window[counts])
        return behind

    def highest(self, windows: KeyWindows, limit_ms: Numbers) -> Numbers:
        """Return the highest time of a line in each window with W before the limit, or NEVER_MS."""
        highest_ms = np.full(windows.key.size, NEVER_MS)
        for part in self.certain:
            begin, end = part.timeline.inside(windows, part.far_ms, part.near_ms)
            some = np.flatnonzero(begin < end)
            last_ms = part.timeline.at_ms[end[some] - 1]
            highest_ms[some] = np.maximum(highest_ms[some], last_ms)
        for window, line, part in self._checked_lines(windows):
            counts = part.timeline.watermark_ms[line] < limit_ms[window]
            np.maximum.at(highest_ms, window[counts], part.timeline.at_ms[line[counts]])
        return highest_ms

    def _checked_lines(self, windows: KeyWindows) -> Iterator[tuple[Numbers, Numbers, Lines]]:
        for part in self.checked:
            yield *part.timeline.pairs(windows, part.far_ms), part

    def _stretches(
        self, lines: pl.DataFrame, begin: Numbers, end: Numbers
    ) -> Iterator[pl.DataFrame]:
        """Yield blocks of lines that together make the ranges, with NUMBER of the range."""
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
                lines = merge_groups(self.aggregation, lines, np.arange(lines.height) // 2)


def layout_of(
    aggregation: Aggregation, keys: pl.DataFrame, lines: pl.DataFrame, number: Numbers, size_ms: int
) -> Layout:
    """Return the layout of lines, with the number of each line's key, for windows of one size."""
    every, order = in_order(lines, number)
    lines = lines[order]
    bound_ms = size_ms // _BOUND
    partials = lines.drop(*keys.columns, EVENT_TIME, WATERMARK)
    behind_ms = every.watermark_ms - every.at_ms
    slight = (behind_ms > 0) & (behind_ms <= bound_ms)

    def part(mask: Mask, far_ms: int, near_ms: int = 0) -> Lines:
        return Lines(every.where(mask), partials.filter(pl.Series(mask)), far_ms, near_ms)

    settled = part(behind_ms <= bound_ms, size_ms, bound_ms)
    recent = part(behind_ms == 0, bound_ms)
    checked = (part(slight, bound_ms), part(behind_ms > bound_ms, size_ms))
    return Layout(aggregation, keys, every, lines[ROWS].to_numpy(), (settled, recent), checked)


def in_order(lines: pl.DataFrame, number: Numbers) -> tuple[Timeline, Numbers]:
    """Sort lines, or rows, by key and time; return the timeline and the sort order."""
    order = np.lexsort((lines[EVENT_TIME].to_numpy(), number))
    columns = (lines[name].to_numpy()[order] for name in (EVENT_TIME, WATERMARK))
    return Timeline(number[order], *columns), order


def without(lines: Layout, new: Layout) -> Timeline:
    """Return the lines without the rows of ``new``, which are among them."""
    names = ("key", EVENT_TIME, WATERMARK)
    counted = [
        pl.DataFrame(
            [each.every.key, each.every.at_ms, each.every.watermark_ms], schema=names
        ).with_columns(pl.Series(ROWS, sign * each.rows))
        for each, sign in ((lines, 1), (new, -1))
    ]
    left = pl.concat(counted).group_by(names).agg(pl.col(ROWS).sum()).filter(pl.col(ROWS) > 0)
    return in_order(left, left["key"].to_numpy())[0]


def rows_of(partials: pl.DataFrame, size: int) -> Numbers:
    """Return the number of rows of each of ``size`` windows, from their merged partials."""
    rows = np.zeros(size, np.int64)
    rows[partials[NUMBER].to_numpy()] = partials[ROWS].to_numpy()
    return rows


def _numbered(partials: pl.DataFrame, number: Numbers) -> pl.DataFrame:
    return partials.hstack([pl.Series(NUMBER, number, pl.Int64())])
