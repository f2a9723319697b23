"""The functions that users pass to ``aggregate(...)``, named as in SQL.

They shadow builtins on purpose.  This module holds nothing else, so it never means the builtin.

``where``, of every aggregate: only the rows for which this expression is true count.
"""

import polars as pl

from tidemark.core.aggregates.aggregate import AggregateFunction
from tidemark.core.aggregates.basic import Count, CountValues, First, Last, Max, Min, RowOrder
from tidemark.core.aggregates.chosen_row import Latest, MaxBy, MinBy
from tidemark.core.aggregates.distinct import ApproximateCountDistinct
from tidemark.core.aggregates.filtered import filtered
from tidemark.core.aggregates.lists import Collect, CountDistinct
from tidemark.core.aggregates.quantiles import ApproximateQuantile, Median, Quantile
from tidemark.core.aggregates.sums import Mean, Sum
from tidemark.core.aggregates.top import Largest, MostFrequent, ValueCounts
from tidemark.core.aggregates.variance import StdDev, Variance
from tidemark.core.rows.options import require_boolean

__all__ = [
    "collect",
    "count",
    "count_distinct",
    "first",
    "last",
    "latest",
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
    "value_counts",
    "variance",
]


def count(column: str | None = None, *, where: pl.Expr | None = None) -> AggregateFunction:
    """Count rows; with ``column``, only the rows where it is not null."""
    return filtered(Count() if column is None else CountValues(column), where)


def sum(column: str, *, where: pl.Expr | None = None) -> AggregateFunction:  # noqa: A001
    """Add up exactly: integers never overflow, floats are rounded once, true counts as 1."""
    return filtered(Sum(column), where)


def min(column: str, *, where: pl.Expr | None = None) -> AggregateFunction:  # noqa: A001
    """Return the least value; NaN only if all values are NaN."""
    return filtered(Min(column), where)


def max(column: str, *, where: pl.Expr | None = None) -> AggregateFunction:  # noqa: A001
    """Return the greatest value; NaN only if all values are NaN."""
    return filtered(Max(column), where)


def mean(column: str, *, where: pl.Expr | None = None) -> AggregateFunction:
    """Return the exact sum divided by the number of values."""
    return filtered(Mean(column), where)


def first(
    column: str, *, order: RowOrder = "event_time", where: pl.Expr | None = None
) -> AggregateFunction:
    """Return the first value by event time, or with ``order="arrival"`` by place in the log.

    Rows with the same event time are ordered by source, offset and position in the record.
    """
    return filtered(First(column, order), where)


def last(
    column: str, *, order: RowOrder = "event_time", where: pl.Expr | None = None
) -> AggregateFunction:
    """Return the last value by event time, or with ``order="arrival"``; ties as in ``first``."""
    return filtered(Last(column, order), where)


def latest(
    *columns: str, order: RowOrder = "event_time", where: pl.Expr | None = None
) -> AggregateFunction:
    """Return the last row, nulls too, as a struct of ``columns``, or of all columns.

    The last row is that by event time, or with ``order="arrival"``; ties as in ``first``.
    """
    return filtered(Latest(columns, order), where)


def variance(
    column: str, *, sample: bool = True, where: pl.Expr | None = None
) -> AggregateFunction:
    """Return the exact sample variance, rounded once; ``sample=False``: population variance."""
    require_boolean(sample, "variance(sample)")
    return filtered(Variance(column, int(sample)), where)


def stddev(column: str, *, sample: bool = True, where: pl.Expr | None = None) -> AggregateFunction:
    """Return the square root of the exact variance, rounded once; ``sample`` as in ``variance``."""
    require_boolean(sample, "stddev(sample)")
    return filtered(StdDev(column, int(sample)), where)


def min_by(column: str, by: str, *, where: pl.Expr | None = None) -> AggregateFunction:
    """Return the value of the row with the least ``by``; of equal ones, the first row's."""
    return filtered(MinBy(column, by), where)


def max_by(column: str, by: str, *, where: pl.Expr | None = None) -> AggregateFunction:
    """Return the value of the row with the greatest ``by``; of equal ones, the first row's."""
    return filtered(MaxBy(column, by), where)


def count_distinct(
    column: str, *, approximate: bool = False, where: pl.Expr | None = None
) -> AggregateFunction:
    """Count distinct values, exactly, or with a standard error of 1.6 % in at most 16 KiB."""
    require_boolean(approximate, "count_distinct(approximate)")
    return filtered(
        ApproximateCountDistinct(column) if approximate else CountDistinct(column), where
    )


def median(column: str, *, where: pl.Expr | None = None) -> AggregateFunction:
    """Return the middle value, interpolated if there are two; every value is kept in state."""
    return filtered(Median(column), where)


def quantile(
    column: str, q: float, *, approximate: bool = False, where: pl.Expr | None = None
) -> AggregateFunction:
    """Return the value with a share ``q`` of the others below it, interpolated between two values.

    Every value is kept in state.  With ``approximate=True`` only counts are kept, and the result is
    off by at most 1/128 of its size.
    """
    require_boolean(approximate, "quantile(approximate)")
    return filtered(ApproximateQuantile(column, q) if approximate else Quantile(column, q), where)


def top_k(
    column: str,
    k: int,
    by: str | None = None,
    *,
    ties: bool = False,
    ranks: bool = False,
    where: pl.Expr | None = None,
) -> AggregateFunction:
    """Return the k most frequent values with counts, or the k values with the largest ``by``.

    ``ties``: also the values that tie with the k-th, at most 10,000 in all.  ``ranks``: each with
    its rank, from 1; values that tie have one rank with ``ties``, else the next one each.
    """
    require_boolean(ties, "top_k(ties)")
    require_boolean(ranks, "top_k(ranks)")
    if by is None:
        return filtered(MostFrequent(column, k, ties=ties, ranks=ranks), where)
    return filtered(Largest(column, k, by, ties=ties, ranks=ranks), where)


def value_counts(
    column: str, *, limit: int = 1_000, where: pl.Expr | None = None
) -> AggregateFunction:
    """Return all values with counts, the most frequent first; null beyond ``limit`` values.

    State holds at most ``limit`` values and one more.  ``top_k`` lists the most frequent only.
    """
    return filtered(ValueCounts(column, limit), where)


def collect(
    column: str, *, order: RowOrder = "event_time", where: pl.Expr | None = None
) -> AggregateFunction:
    """Return all values as a list, by event time (ties as in ``first``) or ``order="arrival"``.

    Every value is kept in state until the window is dropped.
    """
    return filtered(Collect(column, order), where)
