"""The words of ``aggregate(...)``: constructors named as in SQL, shadowing builtins on purpose.

Nothing else lives here, so no builtin of the same name can be meant.
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
    """Count rows; with a column, only those where it is not null."""
    return Count() if column is None else CountValues(column)


def sum(column: str) -> AggregateFunction:  # noqa: A001
    """Add up exactly: integers never overflow, floats are rounded once; of Booleans, count true."""
    return Sum(column)


def min(column: str) -> AggregateFunction:  # noqa: A001
    """Take the least value; NaN only where there is nothing else."""
    return Min(column)


def max(column: str) -> AggregateFunction:  # noqa: A001
    """Take the greatest value; NaN only where there is nothing else."""
    return Max(column)


def mean(column: str) -> AggregateFunction:
    """Divide the exact sum by the number of values."""
    return Mean(column)


def first(column: str, *, order: RowOrder = "event_time") -> AggregateFunction:
    """Take the first value by event time, or by ``order="arrival"``: by the log.

    Of one event time the source decides, then offset and place in the record.
    """
    return First(column, order)


def last(column: str, *, order: RowOrder = "event_time") -> AggregateFunction:
    """Take the last value by event time, or by ``order="arrival"``; ties as in ``first``."""
    return Last(column, order)


def variance(column: str, *, sample: bool = True) -> AggregateFunction:
    """Take the exact variance, rounded once; ``sample=False``: of a whole population."""
    require_boolean(sample, "variance(sample)")
    return Variance(column, int(sample))


def stddev(column: str, *, sample: bool = True) -> AggregateFunction:
    """Take the square root of the exact variance, rounded once."""
    require_boolean(sample, "stddev(sample)")
    return StdDev(column, int(sample))


def min_by(column: str, by: str) -> AggregateFunction:
    """Take the value of the row with the least ``by``; of several, that of the first row."""
    return MinBy(column, by)


def max_by(column: str, by: str) -> AggregateFunction:
    """Take the value of the row with the greatest ``by``; of several, that of the first row."""
    return MaxBy(column, by)


def count_distinct(column: str, *, approximate: bool = False) -> AggregateFunction:
    """Count different values, exactly, or with a standard error of 1.6 % in at most 16 KiB."""
    require_boolean(approximate, "count_distinct(approximate)")
    return ApproximateCountDistinct(column) if approximate else CountDistinct(column)


def median(column: str) -> AggregateFunction:
    """Take the value in the middle, or between the two in the middle; every value is held."""
    return Median(column)


def quantile(column: str, q: float, *, approximate: bool = False) -> AggregateFunction:
    """Take the value with a share ``q`` of the others below it, interpolated between two.

    Every value is held; with ``approximate=True`` only counts, and it is at most 1/128 off.
    """
    require_boolean(approximate, "quantile(approximate)")
    return ApproximateQuantile(column, q) if approximate else Quantile(column, q)


def top_k(column: str, k: int, by: str | None = None) -> AggregateFunction:
    """List the k most frequent values with their counts, or those with the largest ``by``."""
    return MostFrequent(column, k) if by is None else Largest(column, k, by)


def collect(column: str, *, order: RowOrder = "event_time") -> AggregateFunction:
    """List the values by event time (ties as in ``first``), or by ``order="arrival"``: by the log.

    Every value is held until the window is gone.
    """
    return Collect(column, order)
