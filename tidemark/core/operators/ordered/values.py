"""Values of a row that depend on the rows of its key before it: ``prev``, ``diff``, ``cum_sum``.

Frozen values; docs/semantics.md, "Values of the rows before".
"""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from tidemark.core.aggregates.sums import Sum
from tidemark.core.rows.expression import require_column
from tidemark.errors import PipelineError

_Columns = Mapping[str, pl.DataType]


@dataclass(frozen=True)
class Prev:
    """The value of a column in the row before."""

    column: str

    def __str__(self) -> str:
        return f'prev("{self.column}")'

    def type(self, name: str, columns: _Columns) -> pl.DataType:
        """Return the type of the column; raise PipelineError if there is no such column."""
        require_column(self.column, columns, f"scan({name}={self})")
        return columns[self.column]


@dataclass(frozen=True)
class Diff:
    """The value of a column, less its value in the row before; of datetimes in ms."""

    column: str

    def __str__(self) -> str:
        return f'diff("{self.column}")'

    def type(self, name: str, columns: _Columns) -> pl.DataType:
        """Return Int64 for integers and datetimes, Float64 for floats, else the Decimal itself.

        Raises:
            PipelineError: there is no such column, or its values have no difference.
        """
        what = f"scan({name}={self})"
        require_column(self.column, columns, what)
        found = columns[self.column]
        if isinstance(found, pl.Datetime) or _is_integer(found):
            return pl.Int64()
        if found.is_float():
            return pl.Float64()
        raise PipelineError(
            f'{what}: column "{self.column}" is {found}, but diff needs integers, floats or '
            "datetimes; cast it before"
        )


@dataclass(frozen=True)
class CumSum:
    """The exact sum of the values of a column up to this row; null where the value is null."""

    column: str

    def __str__(self) -> str:
        return f'cum_sum("{self.column}")'

    def type(self, name: str, columns: _Columns) -> pl.DataType:
        """Return the type of the sum: Int64, Float64 or Decimal.

        Raises:
            PipelineError: there is no such column, or it does not have numbers or Booleans.
        """
        require_column(self.column, columns, f"scan({name}={self})")
        try:
            return Sum(self.column).type(name, columns)
        except PipelineError as error:
            raise PipelineError(
                f'scan({name}={self}): column "{self.column}" is {columns[self.column]}, but '
                "cum_sum needs numbers or Booleans"
            ) from error


RowValue = Prev | Diff | CumSum


def prev(column: str) -> Prev:
    """Return the value of a column in the row of the key before this one, null for the first."""
    return Prev(_named(column, "prev"))


def diff(column: str) -> Diff:
    """Return the value of a column less its value in the row before; of datetimes in ms."""
    return Diff(_named(column, "diff"))


def cum_sum(column: str) -> CumSum:
    """Return the exact sum of a column over the rows of the key up to this one."""
    return CumSum(_named(column, "cum_sum"))


def _named(column: object, function: str) -> str:
    if not isinstance(column, str):
        raise PipelineError(
            f"{function}(...) takes the name of a column, not {type(column).__name__}"
        )
    return column


def _is_integer(dtype: pl.DataType) -> bool:
    return dtype.is_integer() and dtype not in (pl.Int128(), pl.UInt128())


def differences(values: pl.Series, before: pl.Series) -> pl.Series:
    """Return values less those before them; Int128 where one of integers is beyond Int64."""
    if values.dtype.is_float():
        return values.cast(pl.Float64) - before.cast(pl.Float64)
    if isinstance(values.dtype, pl.Datetime):
        values, before = values.dt.epoch("ms"), before.dt.epoch("ms")
    wide = values.cast(pl.Int128) - before.cast(pl.Int128)
    narrow = wide.cast(pl.Int64, strict=False)
    return narrow if narrow.null_count() == wide.null_count() else wide
