"""Aggregates that count or choose: count, min, max, first, last.

Nulls are skipped, as in SQL; where all values are null, so is the result.  See docs/semantics.md,
"Aggregates".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import polars as pl

from tidemark.core.aggregates import exact_sum
from tidemark.core.aggregates.aggregate import (
    ROWS,
    Columns,
    additive,
    counter_column,
    counter_of,
    running_additive,
)
from tidemark.core.aggregates.runs import Runs
from tidemark.core.time.segment import ARRIVAL, EVENT_TIME, OFFSET, SOURCE, SUB_ROW
from tidemark.errors import PipelineError

NULLS = "nulls"
"""Counter part: rows whose value was null."""


@dataclass(frozen=True)
class ColumnFunction:
    """What the aggregates of a column share: its name, and how to complain about it."""

    column: str

    @property
    def function_name(self) -> str:
        """The function that users write."""
        return type(self).__name__.lower()

    def __str__(self) -> str:
        return f'{self.function_name}("{self.column}")'

    def input_type(self, name: str, columns: Columns, column: str | None = None) -> pl.DataType:
        """Return the type of the column, or of another one that the aggregate needs."""
        column = self.column if column is None else column
        if not isinstance(column, str):
            given = type(column).__name__
            raise PipelineError(
                f"{name}={self.function_name}(...) takes the name of a column, not {given}"
            )
        if column not in columns:
            known = ", ".join(columns)
            raise PipelineError(f'{name}={self}: no column "{column}"; there are {known}')
        return columns[column]

    def unsuitable(
        self, name: str, columns: Columns, needs: str, column: str | None = None
    ) -> PipelineError:
        """Say that a column's type cannot be aggregated so."""
        column = self.column if column is None else column
        return PipelineError(
            f'{name}={self}: column "{column}" is {columns[column]}, '
            f"but {self.function_name} needs {needs}"
        )


@dataclass(frozen=True)
class Count:
    """Rows."""

    def __str__(self) -> str:
        return "count()"

    def type(self, _name: str, _columns: Columns) -> pl.DataType:
        """Int64."""
        return pl.Int64()

    def parts(self, _name: str, _rows: pl.DataFrame) -> list[pl.Series]:
        """Nothing: ROWS counts already."""
        return []

    def merge(self, _name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Nothing."""
        return []

    def running(self, _name: str, _partials: pl.DataFrame, _runs: Runs) -> list[pl.Series]:
        """Nothing."""
        return []

    def value(self, _name: str, partials: pl.DataFrame, _columns: Columns) -> pl.Series:
        """Rows folded."""
        return partials[ROWS]


@dataclass(frozen=True)
class CountValues(ColumnFunction):
    """Values that are not null.  Part: ``nulls``."""

    @property
    def function_name(self) -> str:
        """The function that users write."""
        return "count"

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Int64."""
        self.input_type(name, columns)
        return pl.Int64()

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Mark nulls, which are rarer than values."""
        return null_counter(name, rows[self.column])

    def merge(self, name: str, present: Sequence[str]) -> list[pl.Expr]:
        """Add up."""
        return additive(name, present)

    def running(self, name: str, partials: pl.DataFrame, runs: Runs) -> list[pl.Series]:
        """Add up, row by row."""
        return running_additive(name, partials, runs)

    def value(self, name: str, partials: pl.DataFrame, _columns: Columns) -> pl.Series:
        """Rows folded that were not null."""
        return pl.Series(values_counted(name, partials))


def null_counter(name: str, values: pl.Series) -> list[pl.Series]:
    """Make the part ``nulls``; none where there is no null."""
    if not values.null_count():
        return []
    return counter_column(name, NULLS, values.is_null().to_numpy())


def values_counted(name: str, partials: pl.DataFrame) -> exact_sum.Integers:
    """Count the values that are not null, for aggregates with the part ``nulls``."""
    return partials[ROWS].to_numpy() - counter_of(name, NULLS, partials)


@dataclass(frozen=True)
class _Extreme(ColumnFunction):
    """The least or greatest value.  One part, named like the function.

    NaN counts only where there is nothing else; text is compared by code points.
    """

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """That of the column."""
        found = self.input_type(name, columns)
        simple = (pl.String, pl.Boolean, pl.Decimal)
        if not (found.is_numeric() or found.is_temporal() or found in simple):
            raise self.unsuitable(name, columns, "numbers, strings, Booleans or times")
        return found

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Take the value itself."""
        return [rows[self.column].alias(f"{name}.{self.function_name}")]

    def running(self, name: str, partials: pl.DataFrame, runs: Runs) -> list[pl.Series] | None:
        """Take the extreme so far; of whole numbers up to 64 bits and of times only."""
        part = partials[f"{name}.{self.function_name}"]
        whole = part.dtype.is_integer() and part.dtype not in (pl.Int128, pl.UInt128)
        if not (whole or part.dtype.is_temporal()):
            return None
        return [self._so_far(part, runs)]

    def _so_far(self, part: pl.Series, runs: Runs) -> pl.Series:
        raise NotImplementedError

    def value(self, name: str, partials: pl.DataFrame, _columns: Columns) -> pl.Series:
        """Return the extreme; one bit pattern for zeros and one for NaNs, whichever came."""
        found = partials[f"{name}.{self.function_name}"]
        if not found.dtype.is_float():
            return found
        value = pl.col(found.name).fill_nan(float("nan"))
        zero = pl.lit(0.0, found.dtype)
        return found.to_frame().select(pl.when(value == 0).then(zero).otherwise(value)).to_series()


class Min(_Extreme):
    """The least value."""

    def merge(self, name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Take the least."""
        return [pl.col(f"{name}.min").min()]

    def _so_far(self, part: pl.Series, runs: Runs) -> pl.Series:
        return runs.lowest(part)


class Max(_Extreme):
    """The greatest value."""

    def merge(self, name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Take the greatest."""
        return [pl.col(f"{name}.max").max()]

    def _so_far(self, part: pl.Series, runs: Runs) -> pl.Series:
        return runs.highest(part)


RowOrder = Literal["event_time", "arrival"]

ORDER = {"time": EVENT_TIME, "source": SOURCE, "offset": OFFSET, "sub_row": SUB_ROW}
"""What rows are ordered by, as fields of a struct, and the columns that hold it."""

ARRIVAL_ORDER = {"arrival": ARRIVAL, "sub_row": SUB_ROW}
"""The same of the order of the log."""


@dataclass(frozen=True)
class OrderedFunction(ColumnFunction):
    """What hangs on the order of rows: of their event times, or of their arrival."""

    order: RowOrder = "event_time"

    def __post_init__(self) -> None:
        if self.order not in get_args(RowOrder):
            raise PipelineError(
                f'{self.function_name}("{self.column}"): order {self.order!r} is not one of '
                f"{get_args(RowOrder)}"
            )

    def __str__(self) -> str:
        order = "" if self.order == "event_time" else f', order="{self.order}"'
        return f'{self.function_name}("{self.column}"{order})'

    @property
    def by_arrival(self) -> bool:
        """Whether rows need an ARRIVAL column."""
        return self.order == "arrival"

    @property
    def fields(self) -> dict[str, str]:
        """What rows are ordered by."""
        return ARRIVAL_ORDER if self.by_arrival else ORDER


def order_columns(rows: pl.DataFrame, order: dict[str, str] = ORDER) -> pl.DataFrame:
    """Return what rows are ordered by, as fields of a struct; the source as text."""
    fields = pl.DataFrame({field: rows[column] for field, column in order.items()})
    if "source" in order and fields["source"].dtype != pl.String:
        fields = fields.with_columns(pl.col("source").cast(pl.String))
    return fields


class _FirstOrLast(OrderedFunction):
    """The value of the first or last row.

    One part, named like the function: a struct of the value and what it is ordered by.
    """

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """That of the column; any."""
        return self.input_type(name, columns)

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Take the value with its place in the order of rows."""
        fields = order_columns(rows, self.fields).with_columns(rows[self.column].alias("value"))
        return [fields.to_struct(f"{name}.{self.function_name}")]

    def value(self, name: str, partials: pl.DataFrame, _columns: Columns) -> pl.Series:
        """Return the chosen value."""
        return partials[f"{name}.{self.function_name}"].struct.field("value")

    def _ordered(self, part: pl.Expr, null_rank: pl.Expr) -> pl.Expr:
        return part.sort_by(null_rank, *(part.struct.field(field) for field in self.fields))


class First(_FirstOrLast):
    """The first value that is not null."""

    def merge(self, name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Take the first; rows with null rank last."""
        part = pl.col(f"{name}.first")
        return [self._ordered(part, part.struct.field("value").is_null()).first()]


class Last(_FirstOrLast):
    """The last value that is not null."""

    def merge(self, name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Take the last; rows with null rank first."""
        part = pl.col(f"{name}.last")
        return [self._ordered(part, part.struct.field("value").is_not_null()).last()]
