"""The lines that some sliding windows look at, laid out so that each window's are found and merged.

See operator.py.  Lines lie in order of key and time; then a window is a stretch of them.  Whole
stretches are merged from blocks of 1, 2, 4 ... lines, each merged once, where every line counts:

* lines ahead count in every window that has them;
* lines behind by at most a *bound* count in every window that ends later than the bound after them.

So of each window the rest is judged line by line: lines slightly behind in its last stretch, as
long as the bound, and lines far behind in all of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS, Aggregation
from tidemark.core.operators.sliding.fold import Timeline, Windows, any_of
from tidemark.core.state.keyed_lines import Mask, Numbers
from tidemark.core.state.prefixes import merge_groups
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, WATERMARK

NUMBER = "@number"
"""Of merged partials: the place of their window."""

_BOUND = 16
"""The part of a window's size by which lines may be behind without being judged one by one."""


@dataclass(frozen=True)
class Lines:
    """Some lines and their partials; those in [end - far_ms, end - near_ms) concern a window."""

    timeline: Timeline
    partials: pl.DataFrame
    far_ms: int
    near_ms: int = 0


@dataclass(frozen=True)
class Layout:
    """Lines of some keys: those that surely count, and those to be judged.

    ``keys`` by number; ``every``: all lines, ``rows``: how many each is of.
    """

    aggregation: Aggregation
    keys: pl.DataFrame
    every: Timeline
    rows: Numbers
    certain: tuple[Lines, ...]
    judged: tuple[Lines, ...]

    def merged(
        self, windows: Windows, limit_ms: Numbers, from_ms: Numbers | None = None
    ) -> pl.DataFrame:
        """Return the merged partials of each window that holds a row, with its NUMBER.

        Lines count with W before the limit; with ``from_ms``, which is not before the windows'
        ends, also from that on.
        """
        parts: list[pl.DataFrame] = []
        for part in self.certain if from_ms is None else ():
            begin, end = part.timeline.inside(windows, part.far_ms, part.near_ms)
            parts += self._stretches(part.partials, begin, end)
        for window, line, part in self._judged(windows):
            watermark_ms = part.timeline.watermark_ms[line]
            counts = watermark_ms < limit_ms[window]
            if from_ms is not None:
                counts &= watermark_ms >= from_ms[window]
            parts.append(_numbered(part.partials[line[counts]], window[counts]))
        return self.aggregation.combine(parts, (NUMBER,))

    def behind(self, windows: Windows, limit_ms: Numbers) -> Mask:
        """Tell which windows hold a line that is behind, with W before the limit."""
        behind = np.zeros(windows.key.size, np.bool_)
        for window, line, part in self._judged(windows):
            watermark_ms = part.timeline.watermark_ms[line]
            counts = (watermark_ms >= windows.end_ms[window]) & (watermark_ms < limit_ms[window])
            behind |= any_of(behind.size, window[counts])
        return behind

    def highest(self, windows: Windows, limit_ms: Numbers) -> Numbers:
        """Return the last time in each window of a line with W before the limit, or NEVER_MS."""
        highest_ms = np.full(windows.key.size, NEVER_MS)
        for part in self.certain:
            begin, end = part.timeline.inside(windows, part.far_ms, part.near_ms)
            some = np.flatnonzero(begin < end)
            last_ms = part.timeline.at_ms[end[some] - 1]
            highest_ms[some] = np.maximum(highest_ms[some], last_ms)
        for window, line, part in self._judged(windows):
            counts = part.timeline.watermark_ms[line] < limit_ms[window]
            np.maximum.at(highest_ms, window[counts], part.timeline.at_ms[line[counts]])
        return highest_ms

    def _judged(self, windows: Windows) -> Iterator[tuple[Numbers, Numbers, Lines]]:
        for part in self.judged:
            yield *part.timeline.pairs(windows, part.far_ms), part

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
                lines = merge_groups(self.aggregation, lines, np.arange(lines.height) // 2)


def laid_out(
    aggregation: Aggregation, keys: pl.DataFrame, lines: pl.DataFrame, number: Numbers, size_ms: int
) -> Layout:
    """Lay out lines, whose keys have numbers, for windows of one size."""
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
    judged = (part(slight, bound_ms), part(behind_ms > bound_ms, size_ms))
    return Layout(aggregation, keys, every, lines[ROWS].to_numpy(), (settled, recent), judged)


def in_order(lines: pl.DataFrame, number: Numbers) -> tuple[Timeline, Numbers]:
    """Sort lines, or rows, by key and time; return their places in that order too."""
    order = np.lexsort((lines[EVENT_TIME].to_numpy(), number))
    columns = (lines[name].to_numpy()[order] for name in (EVENT_TIME, WATERMARK))
    return Timeline(number[order], *columns), order


def without(lines: Layout, new: Layout) -> Timeline:
    """Return the lines less the rows of ``new``, which are among them."""
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
    """Return how many rows each of ``size`` windows holds, of their merged partials."""
    rows = np.zeros(size, np.int64)
    rows[partials[NUMBER].to_numpy()] = partials[ROWS].to_numpy()
    return rows


def _numbered(partials: pl.DataFrame, number: Numbers) -> pl.DataFrame:
    return partials.hstack([pl.Series(NUMBER, number, pl.Int64())])
