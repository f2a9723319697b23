"""Quantiles: exact from all values, or approximate from counts of buckets.

The quantile q of n sorted values lies at position (n - 1) q, counted from 0.  Between two values it
is interpolated in doubles.  See docs/semantics.md, "Aggregates".

The sketch counts values by *bucket*: the sign, the exponent and the next six bits of the value as a
double.  Each power of two has 64 equal buckets, so a bucket's middle is at most 1/128 off any value
in it.  Buckets are computed from bits, without a logarithm, and counts add up.  So the result does
not depend on order or cuts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.aggregates.aggregate import Columns
from tidemark.core.aggregates.basic import ColumnFunction
from tidemark.core.aggregates.exact_sum import Floats, Integers
from tidemark.core.aggregates.lists import (
    concatenated,
    flattened,
    single_item_lists,
    structs,
    summed_counts,
)
from tidemark.errors import PipelineError

_LOW_BITS = 46
"""Low bits of a double that a bucket ignores."""

_INFINITE = 0x7FF << (52 - _LOW_BITS)


@dataclass(frozen=True)
class Quantile(ColumnFunction):
    """An exact quantile.  Part: ``values``, all values that are not null."""

    q: float = 0.5

    def __post_init__(self) -> None:
        if isinstance(self.q, bool) or not isinstance(self.q, int | float) or not 0 <= self.q <= 1:
            raise PipelineError(f'quantile("{self.column}"): q {self.q!r} is not between 0 and 1')

    def __str__(self) -> str:
        return f'quantile("{self.column}", {self.q})'

    @property
    def function_name(self) -> str:
        """The name of the function that users write."""
        return "quantile"

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Return Float64."""
        if not self.input_type(name, columns).is_numeric():
            raise self.unsuitable(name, columns, "numbers")
        return pl.Float64()

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Return each value as a list of one; decimals as doubles."""
        values = rows[self.column]
        if values.dtype.is_decimal():
            values = values.cast(pl.Float64)
        return [single_item_lists(values, f"{name}.values")]

    def merge(self, name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Concatenate the lists."""
        return [concatenated(f"{name}.values")]

    def value(self, name: str, partials: pl.DataFrame, _columns: Columns) -> pl.Series:
        """Return the quantile of each list, sorted first."""
        lists = partials[f"{name}.values"]
        index, flat = flattened(lists.list.sort())
        values = flat.to_numpy().astype(np.float64)
        ends = _ends(np.ones(index.size, np.int64), index, len(lists))
        return self._interpolated(values, np.arange(1, index.size + 1), ends, index)

    def _interpolated(
        self, values: Floats, reached: Integers, ends: Integers, index: Integers
    ) -> pl.Series:
        """Return the quantile of each list; null for an empty list.

        ``values``: of all lists, each list sorted; ``index``: the list of each value.
        ``reached``: the running count up to each value, over all lists; ``ends``: the running count
        at the end of each list.
        """
        first = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
        n = _without_nan(values, reached, first, ends, index)
        some = ends > first
        position = (n - 1) * float(self.q)
        low = np.floor(position).astype(np.int64)
        high = np.minimum(low + 1, n - 1)
        found = np.full(n.size, np.nan)
        below, above = (
            values[np.searchsorted(reached, (first + rank)[some], "right")] for rank in (low, high)
        )
        found[some] = _between(below, above, (position - low)[some])
        quantiles = pl.Series(found)
        if some.all():
            return quantiles
        return pl.select(pl.when(pl.Series(some)).then(quantiles)).to_series()


class Median(Quantile):
    """The quantile 0.5."""

    def __str__(self) -> str:
        return f'median("{self.column}")'

    @property
    def function_name(self) -> str:
        """The name of the function that users write."""
        return "median"


@dataclass(frozen=True)
class ApproximateQuantile(Quantile):
    """A quantile from a sketch.  Part: ``buckets``, structs of bucket (as ``value``) and count."""

    def __str__(self) -> str:
        return f'quantile("{self.column}", {self.q}, approximate=True)'

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Return the bucket of each value with count 1, as a list of one."""
        values = rows[self.column]
        doubles = values.cast(pl.Float64).fill_null(0.0).to_numpy()
        counted = pl.DataFrame(
            {"value": _buckets(doubles), "count": np.ones(doubles.size, np.int64)}
        )
        return [single_item_lists(structs(counted, values), f"{name}.buckets")]

    def merge(self, name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Concatenate the lists."""
        return [concatenated(f"{name}.buckets")]

    def compact(self, name: str, partials: pl.DataFrame) -> list[pl.Series]:
        """Return the buckets with their counts added up."""
        return [summed_counts(partials[f"{name}.buckets"])]

    def value(self, name: str, partials: pl.DataFrame, _columns: Columns) -> pl.Series:
        """Return the quantile, interpolated between the middles of buckets."""
        lists = partials[f"{name}.buckets"]
        index, flat = flattened(lists)
        count = flat.struct.field("count").to_numpy()
        middles = _middles(flat.struct.field("value").to_numpy())
        reached = np.cumsum(count)
        return self._interpolated(middles, reached, _ends(count, index, len(lists)), index)


def _ends(count: Integers, index: Integers, lists: int) -> Integers:
    """Return the running count at the end of each list."""
    reached = np.concatenate((np.zeros(1, np.int64), np.cumsum(count)))
    return reached[np.searchsorted(index, np.arange(lists), "right")]


def _without_nan(
    values: Floats, reached: Integers, first: Integers, ends: Integers, index: Integers
) -> Integers:
    """Return the number of values of each list; NaNs, which are last, count only if alone."""
    n = ends - first
    nan = np.isnan(values)
    if not nan.any():
        return n
    numbers = np.zeros_like(n)
    np.maximum.at(numbers, index[~nan], (reached - first[index])[~nan])
    return np.where(numbers > 0, numbers, n)


def _between(below: Floats, above: Floats, share: Floats) -> Floats:
    """Return interpolated values, never outside both bounds, and exact if both are equal."""
    with np.errstate(invalid="ignore"):
        between = below * (1.0 - share) + above * share
        between = np.clip(between, below, above)
    found: Floats = np.where((share == 0) | (below == above), below, between) + 0.0
    return found


def _buckets(values: Floats) -> npt.NDArray[np.int32]:
    values = np.where(np.isnan(values), np.nan, values)
    size = np.abs(values).view(np.int64) >> _LOW_BITS
    return np.where(values < 0, -size, size).astype(np.int32)


def _middles(buckets: npt.NDArray[np.int32]) -> Floats:
    """Return the middle of each bucket; the buckets of zero and of infinity hold one value each."""
    size = np.abs(buckets).astype(np.int64)
    alone = (size == 0) | (size == _INFINITE)
    bits = (size << _LOW_BITS) + np.where(alone, 0, 1 << (_LOW_BITS - 1))
    middle = bits.view(np.float64)
    return np.where(buckets < 0, -middle, middle)
