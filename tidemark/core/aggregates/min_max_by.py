"""Aggregates that choose a value by another column: min_by and max_by.

One part, named like the function: a struct of the order's fields, ``rank``, ``by`` and ``value``.
If ``by`` is equal, the first row by (event time, source, offset, sub_row) is chosen.  See
docs/semantics.md, "Aggregates".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from tidemark.core.aggregates.aggregate import Columns
from tidemark.core.aggregates.basic import ORDER, ColumnFunction, order_columns
from tidemark.core.aggregates.lists import is_scalar


@dataclass(frozen=True)
class _ExtremeBy(ColumnFunction):
    """The value of the row with an extreme ``by``; rows whose ``by`` is null do not count.

    A NaN is chosen only if every ``by`` is NaN.
    """

    by: str

    _descending = False

    def __str__(self) -> str:
        return f'{self.function_name}("{self.column}", by="{self.by}")'

    @property
    def skips_nulls_of(self) -> tuple[str, ...]:
        """``by``: rows where it is null do not count."""
        return (self.by,)

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Return the column's type, which may be any."""
        if not is_scalar(self.input_type(name, columns, self.by)):
            needs = "numbers, strings, Booleans or times"
            raise self.unsuitable(name, columns, needs, self.by)
        return self.input_type(name, columns)

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Return each value with ``by`` and the order of its row; null where ``by`` is null."""
        by = comparable(rows[self.by])
        value, rank = rows[self.column], rank_of(by)
        if by.null_count():
            value = pl.select(pl.when(by.is_not_null()).then(value)).to_series()
        fields = order_columns(rows).with_columns(rank=rank, by=by, value=value)
        return [fields.to_struct(f"{name}.{self.function_name}")]

    def merge(self, name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Return the first by rank, ``by`` and order."""
        part = pl.col(f"{name}.{self.function_name}")
        keys = [part.struct.field(field) for field in ("rank", "by", *ORDER)]
        descending = [False, self._descending, *(False for _ in ORDER)]
        return [part.sort_by(keys, descending=descending).first()]

    def value(self, name: str, partials: pl.DataFrame, _columns: Columns) -> pl.Series:
        """Return the chosen value."""
        return partials[f"{name}.{self.function_name}"].struct.field("value")


class MinBy(_ExtremeBy):
    """The value of the row with the least ``by``."""

    @property
    def function_name(self) -> str:
        """The name of the function that users write."""
        return "min_by"


class MaxBy(_ExtremeBy):
    """The value of the row with the greatest ``by``."""

    _descending = True

    @property
    def function_name(self) -> str:
        """The name of the function that users write."""
        return "max_by"


def rank_of(by: pl.Series) -> pl.Series:
    """Return ranks, Int8, that put values before NaN and NaN before null."""
    rank = by.is_null().cast(pl.Int8) * 2
    return rank + by.is_nan().fill_null(value=False).cast(pl.Int8) if by.dtype.is_float() else rank


def comparable(values: pl.Series) -> pl.Series:
    """Return values with one sign of zero and one bit pattern of NaN."""
    if not values.dtype.is_float():
        return values
    zero = pl.lit(0.0, values.dtype)
    one_nan = values.fill_nan(float("nan"))
    return pl.select(pl.when(one_nan == 0).then(zero).otherwise(one_nan)).to_series()
