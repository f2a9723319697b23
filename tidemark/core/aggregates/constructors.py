"""The functions that users pass to ``aggregate(...)``, named as in SQL.

They shadow builtins on purpose.  This module holds nothing else, so it never means the builtin.
"""

from tidemark.core.aggregates.aggregate import AggregateFunction
from tidemark.core.aggregates.basic import Count, CountValues, First, Last, Max, Min, RowOrder
from tidemark.core.aggregates.distinct import ApproximateCountDistinct
from tidemark.core.aggregates.lists import Collect, CountDistinct
from tidemark.core.aggregates.min_max_by import MaxBy, MinBy
from tidemark.core.aggregates.quantiles import ApproximateQuantile, Median, Quantile
from tidemark.core.aggregates.sums import Mean, Sum
from tidemark.core.aggregates.top import Largest, MostFrequent
from tidemark.core.aggregates.variance import StdDev, Variance
from tidemark.core.rows.options import require_boolean

__all__ = [
    "collect",
    "count",
    "count_distinct",
    "first",
    "last",
    "max",
    "max_by",
    "mean",
    "median",
    "min",
    "min_by",
    "quantile",
    "stddev",
    "sum",
    "top_k",
    "variance",
]


def count(column: str | None = None) -> AggregateFunction:
    """Count rows; with ``column``, only the rows where it is not null."""
    return Count() if column is None else CountValues(column)


def sum(column: str) -> AggregateFunction:  # noqa: A001
    """Add up exactly: integers never overflow, floats are rounded once, true counts as 1."""
    return Sum(column)


def min(column: str) -> AggregateFunction:  # noqa: A001
    """Return the least value; NaN only if all values are NaN."""
    return Min(column)


def max(column: str) -> AggregateFunction:  # noqa: A001
    """Return the greatest value; NaN only if all values are NaN."""
    return Max(column)


def mean(column: str) -> AggregateFunction:
    """Return the exact sum divided by the number of values."""
    return Mean(column)


def first(column: str, *, order: RowOrder = "event_time") -> AggregateFunction:
    """Return the first value by event time, or with ``order="arrival"`` by place in the log.

    Rows with the same event time are ordered by source, offset and position in the record.
    """
    return First(column, order)


def last(column: str, *, order: RowOrder = "event_time") -> AggregateFunction:
    """Return the last value by event time, or with ``order="arrival"``; ties as in ``first``."""
    return Last(column, order)


def variance(column: str, *, sample: bool = True) -> AggregateFunction:
    """Return the exact sample variance, rounded once; ``sample=False``: population variance."""
    require_boolean(sample, "variance(sample)")
    return Variance(column, int(sample))


def stddev(column: str, *, sample: bool = True) -> AggregateFunction:
    """Return the square root of the exact variance, rounded once; ``sample`` as in ``variance``."""
    require_boolean(sample, "stddev(sample)")
    return StdDev(column, int(sample))


def min_by(column: str, by: str) -> AggregateFunction:
    """Return the value of the row with the least ``by``; of equal ones, the first row's."""
    return MinBy(column, by)


def max_by(column: str, by: str) -> AggregateFunction:
    """Return the value of the row with the greatest ``by``; of equal ones, the first row's."""
    return MaxBy(column, by)


def count_distinct(column: str, *, approximate: bool = False) -> AggregateFunction:
    """Count distinct values, exactly, or with a standard error of 1.6 % in at most 16 KiB."""
    require_boolean(approximate, "count_distinct(approximate)")
    return ApproximateCountDistinct(column) if approximate else CountDistinct(column)


def median(column: str) -> AggregateFunction:
    """Return the middle value, interpolated if there are two; every value is kept in state."""
    return Median(column)


def quantile(column: str, q: float, *, approximate: bool = False) -> AggregateFunction:
    """Return the value with a share ``q`` of the others below it, interpolated between two values.

    Every value is kept in state.  With ``approximate=True`` only counts are kept, and the result is
    off by at most 1/128 of its size.
    """
    require_boolean(approximate, "quantile(approximate)")
    return ApproximateQuantile(column, q) if approximate else Quantile(column, q)


def top_k(column: str, k: int, by: str | None = None) -> AggregateFunction:
    """Return the k most frequent values with counts, or the k values with the largest ``by``."""
    return MostFrequent(column, k) if by is None else Largest(column, k, by)


def collect(column: str, *, order: RowOrder = "event_time") -> AggregateFunction:
    """Return all values as a list, by event time (ties as in ``first``) or ``order="arrival"``.

    Every value is kept in state until the window is dropped.
    """
    return Collect(column, order)
