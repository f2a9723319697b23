"""Running sums and extremes of runs of lines: a run is a group of contiguous lines.

NumPy computes them, because polars takes ten times as long if runs are many and small.  Extremes
double their reach in each pass: each line is merged with the line 1, 2, 4 ... before it, never
beyond the begin of its run.  So the number of passes is logarithmic in the length of the longest
run.
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
