"""Aggregates that choose a row: min_by, max_by and latest.

See docs/semantics.md, "Aggregates".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import KEPT, Columns
from tidemark.core.aggregates.basic import (
    ORDER,
    By,
    ChoosingFunction,
    ColumnFunction,
    InRowOrder,
    RowOrder,
    order_columns,
)
from tidemark.core.aggregates.lists import is_scalar
from tidemark.core.rows.expression import require_column
from tidemark.errors import PipelineError

_NULL_RANK = 2
"""The rank of null, as ``rank_of`` returns it."""

_THERE, _ROW = "there", "row"
"""Fields of the part of latest: whether there is a row, and the row."""


@dataclass(frozen=True)
class _ExtremeBy(ColumnFunction, ChoosingFunction):
    """The value of the row with an extreme ``by``; rows whose ``by`` is null do not count.

    A NaN is chosen only if every ``by`` is NaN.  One part, named like the function: a struct of the
    order's fields, ``rank``, ``by`` and ``value``.
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

    def _by(self, part: pl.Expr) -> By:
        rank, by, *order = (part.struct.field(field) for field in ("rank", "by", *ORDER))
        rank = rank.fill_null(_NULL_RANK)  # of a partial without rows
        return [(rank, False), (by, self._descending), *((field, False) for field in order)]

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


@dataclass(frozen=True)
class Latest(InRowOrder, ChoosingFunction):
    """The last row by event time or by arrival: the columns ``names``, or all if it is empty.

    Part: ``latest``, structs of the order's fields, ``there`` and ``row``.
    Nulls in a row are values of it.
    """

    names: tuple[str, ...]
    order: RowOrder = "event_time"

    def __post_init__(self) -> None:
        self.require_order("latest(order):")
        if len(set(self.names)) < len(self.names):
            raise PipelineError(f"{self}: a column is named twice")

    def __str__(self) -> str:
        names = [f'"{name}"' for name in self.names]
        order = [f'order="{self.order}"'] if self.by_arrival else []
        return f"latest({', '.join([*names, *order])})"

    @property
    def function_name(self) -> str:
        """The name of the function that users write."""
        return "latest"

    @property
    def skips_nulls_of(self) -> tuple[str, ...]:
        """None: a row counts whatever is null in it."""
        return ()

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Return a struct of the columns.

        Raises:
            PipelineError: a column is not in the stream.
        """
        for column in self.names:
            require_column(column, columns, f"{name}={self}")
        return pl.Struct({column: columns[column] for column in self._of(columns)})

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Return each row with the fields that order it."""
        row = rows.select(self._of(rows.columns)).to_struct(_ROW)
        there = (
            rows[KEPT].is_not_null()
            if KEPT in rows.columns
            else pl.Series(np.ones(rows.height, np.bool_))
        )
        fields = order_columns(rows, self.fields).with_columns(there.alias(_THERE), row)
        return [fields.to_struct(f"{name}.latest")]

    def _by(self, part: pl.Expr) -> By:
        there = part.struct.field(_THERE).fill_null(value=False)
        return [(there, True), *((part.struct.field(field), True) for field in self.fields)]

    def value(self, name: str, partials: pl.DataFrame, columns: Columns) -> pl.Series:
        """Return the last rows; null for a group without rows."""
        part = partials[f"{name}.latest"]
        there = part.struct.field(_THERE).fill_null(value=False)
        row = part.struct.field(_ROW).struct.unnest().select(self._of(columns)).to_struct()
        return pl.select(pl.when(there).then(row)).to_series()

    def _of(self, columns: Columns | Sequence[str]) -> list[str]:
        """Return the names of the columns of the row; those of operators begin with "@"."""
        return [*self.names] or [column for column in columns if not column.startswith("@")]


def rank_of(by: pl.Series) -> pl.Series:
    """Return ranks, Int8, that put values before NaN and NaN before null."""
    rank = by.is_null().cast(pl.Int8) * _NULL_RANK
    return rank + by.is_nan().fill_null(value=False).cast(pl.Int8) if by.dtype.is_float() else rank


def comparable(values: pl.Series) -> pl.Series:
    """Return values with one sign of zero and one bit pattern of NaN."""
    if not values.dtype.is_float():
        return values
    zero = pl.lit(0.0, values.dtype)
    one_nan = values.fill_nan(float("nan"))
    return pl.select(pl.when(one_nan == 0).then(zero).otherwise(one_nan)).to_series()
