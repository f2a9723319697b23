"""The words of ``aggregate(...)``: constructors named as in SQL, shadowing builtins on purpose.

Nothing else lives here, so no builtin of the same name can be meant.
"""

from tidemark.core.aggregate import Aggregate
from tidemark.core.aggregate_kinds import Count, CountValues, First, Last, Max, Min
from tidemark.core.aggregate_sums import Mean, Sum

__all__ = ["count", "first", "last", "max", "mean", "min", "sum"]


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
