"""The words of ``aggregate(...)``: constructors named as in SQL, shadowing builtins on purpose.

Nothing else lives here, so no builtin of the same name can be meant.
"""

from tidemark.core.aggregate import Aggregate
from tidemark.core.aggregate_by import MaxBy, MinBy
from tidemark.core.aggregate_kinds import Count, CountValues, First, Last, Max, Min
from tidemark.core.aggregate_lists import Collect, CollectOrder, CountDistinct
from tidemark.core.aggregate_sums import Mean, Sum
from tidemark.core.aggregate_variance import StdDev, Variance

__all__ = [
    "collect",
    "count",
    "count_distinct",
    "first",
    "last",
    "max",
    "max_by",
    "mean",
    "min",
    "min_by",
    "stddev",
    "sum",
    "variance",
]


def count(column: str | None = None) -> Aggregate:
    """Count rows; with a column, only those where it is not null."""
    return Count() if column is None else CountValues(column)


def sum(column: str) -> Aggregate:  # noqa: A001
    """Add up exactly: integers never overflow, floats are rounded once; of Booleans, count true."""
    return Sum(column)


def min(column: str) -> Aggregate:  # noqa: A001
    """Take the least value; NaN only where there is nothing else."""
    return Min(column)


def max(column: str) -> Aggregate:  # noqa: A001
    """Take the greatest value; NaN only where there is nothing else."""
    return Max(column)


def mean(column: str) -> Aggregate:
    """Divide the exact sum by the number of values."""
    return Mean(column)


def first(column: str) -> Aggregate:
    """Take the first value by event time; ties go by source, offset, and place in the record."""
    return First(column)


def last(column: str) -> Aggregate:
    """Take the last value by event time; ties go by source, offset, and place in the record."""
    return Last(column)


def variance(column: str, *, sample: bool = True) -> Aggregate:
    """Take the exact variance, rounded once; ``sample=False``: of a whole population."""
    return Variance(column, int(sample))


def stddev(column: str, *, sample: bool = True) -> Aggregate:
    """Take the square root of the exact variance, rounded once."""
    return StdDev(column, int(sample))


def min_by(column: str, by: str) -> Aggregate:
    """Take the value of the row with the least ``by``; of several, that of the first row."""
    return MinBy(column, by)


def max_by(column: str, by: str) -> Aggregate:
    """Take the value of the row with the greatest ``by``; of several, that of the first row."""
    return MaxBy(column, by)


def count_distinct(column: str) -> Aggregate:
    """Count different values."""
    return CountDistinct(column)


def collect(column: str, *, order: CollectOrder = "event_time") -> Aggregate:
    """List the values by event time (ties as in ``first``), or by ``order="arrival"``: by the log.

    Every value is held until the window is gone.
    """
    return Collect(column, order)
