"""Running sums, extremes and choices of runs of lines: a run is a group of contiguous lines.

NumPy computes them, because polars takes ten times as long if runs are many and small.  Extremes
double their reach in each pass: each line is merged with the line 1, 2, 4 ... before it, never
beyond the begin of its run.  So the number of passes is logarithmic in the length of the longest
run.  A choice takes one pass: ranks are small, so those of a later run can be made greater.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

Integers = npt.NDArray[np.integer[Any]]
Numbers = npt.NDArray[np.int64]


class Runs:
    """Runs of lines, numbered from 0 in order."""

    def __init__(self, group: Numbers) -> None:
        """Find the bounds of runs; ``group``: for each line, the number of its run."""
        place = np.arange(group.size)
        self.first = np.searchsorted(group, group)
        self.rank = place - self.first
        self._longest = int(self.rank.max(initial=-1)) + 1

    def sums(self, numbers: pl.Series) -> pl.Series:
        """Return for each line the sum of its run so far, Int64; null counts as 0.

        The sum of each run must fit 64 bits; the sum of all runs may overflow.
        """
        values = numbers.cast(pl.Int64).fill_null(0) if numbers.null_count() else numbers
        return pl.Series(numbers.name, self._sums(values.to_numpy()))

    def _sums(self, values: Numbers) -> Numbers:
        total = np.add.accumulate(values)
        sums: Numbers = total - (total - values)[self.first]
        return sums

    def highest(self, values: pl.Series) -> pl.Series:
        """Return for each line the greatest integer or time of its run so far, or null."""
        return self._extreme(values, np.maximum, least=True)

    def lowest(self, values: pl.Series) -> pl.Series:
        """Return for each line the least integer or time of its run so far, or null."""
        return self._extreme(values, np.minimum, least=False)

    def chosen(self, order: Numbers) -> Numbers:
        """Return for each line that line of its run so far which comes first in ``order``.

        ``order``: the places of all lines.
        """
        rank = np.empty_like(order)
        rank[order[::-1]] = np.arange(order.size)
        above = self.first * order.size  # more than all ranks of the runs before
        highest: Numbers = np.maximum.accumulate(above + rank) - above
        return order[order.size - 1 - highest]

    def most(self, order: Numbers, line: Numbers, count: int) -> tuple[Numbers, Numbers]:
        """Return for each line those ``count`` items of its run so far that come first in an order.

        ``order``: the places of all items.  ``line``: the line of each item, ascending; a line may
        have no item or several.  Returns items and the line that each is returned for, by line and
        in order.

        Each pass finds the highest rank so far.  It leaves to the next pass the ranks that those
        highest ones displace, and those that displace none.
        """
        rank = np.empty_like(order)  # 0: no item
        rank[order[::-1]] = np.arange(1, order.size + 1)
        first = self.first[line]
        above = first * (order.size + 1)  # more than all ranks of the runs before
        begins = np.flatnonzero(np.diff(first, prepend=-1))
        at = np.arange(self.first.size)
        last = np.searchsorted(line, at, "right") - 1
        at = np.flatnonzero(np.append(first, -1)[last] == self.first)
        last = last[at]
        items, lines = [line[:0]], [line[:0]]
        while at.size and len(items) <= count:
            highest = np.maximum.accumulate(above + rank) - above
            known = np.flatnonzero(highest[last])
            at, last = at[known], last[known]
            items.append(order[order.size - highest[last]])
            lines.append(at)
            before = np.append(0, highest[:-1])
            before[begins] = 0
            rank = np.minimum(rank, before)
        by_line = np.argsort(np.concatenate(lines), kind="stable")
        return np.concatenate(items)[by_line], np.concatenate(lines)[by_line]

    def _extreme(self, values: pl.Series, of_two: np.ufunc, *, least: bool) -> pl.Series:
        """Return running extremes; ``least``: null is replaced by the least value of the type."""
        found = values if values.dtype.is_integer() else values.to_physical()
        if values.null_count():
            bounds = np.iinfo(found.head(0).to_numpy().dtype)
            found = found.fill_null(bounds.min if least else bounds.max)
        extremes = pl.Series(values.name, self._passes(found.to_numpy(), of_two))
        if values.null_count():
            known = self._sums(values.is_not_null().to_numpy().astype(np.int64))
            extremes = extremes.set(pl.Series(known == 0), None)
        return extremes if extremes.dtype == values.dtype else extremes.cast(values.dtype)

    def _passes(self, values: Integers, of_two: np.ufunc) -> Integers:
        back = 1
        while back < self._longest:
            at = np.flatnonzero(self.rank >= back)
            further = of_two(values[at], values[at - back])
            values = values.copy()
            values[at] = further
            back *= 2
        return values
