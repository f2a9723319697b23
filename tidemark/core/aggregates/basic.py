"""Aggregates that count or choose: count, min, max, first, last.

Nulls are skipped, as in SQL.  If all values are null, the result is null.  See docs/semantics.md,
"Aggregates".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import polars as pl

from tidemark.core.aggregates import exact_sum
from tidemark.core.aggregates.aggregate import ROWS, Columns
from tidemark.core.aggregates.parts import (
    additive,
    counter_column,
    counter_of,
    running_additive,
)
from tidemark.core.aggregates.runs import Runs
from tidemark.core.rows.expression import require_column
from tidemark.core.time.segment import ARRIVAL, EVENT_TIME, OFFSET, SOURCE, SUB_ROW
from tidemark.errors import PipelineError

NULLS = "nulls"
"""Counter part: the number of rows whose value is null."""


@dataclass(frozen=True)
class ColumnFunction:
    """Base of the aggregates of one column: the column's name, its type, and the error messages."""

    column: str

    @property
    def function_name(self) -> str:
        """The name of the function that users write."""
        return type(self).__name__.lower()

    def __str__(self) -> str:
        return f'{self.function_name}("{self.column}")'

    @property
    def skips_nulls_of(self) -> tuple[str, ...]:
        """The column: rows where it is null do not count."""
        return (self.column,)

    def input_type(self, name: str, columns: Columns, column: str | None = None) -> pl.DataType:
        """Return the type of the aggregate's column, or of ``column`` if given.

        Raises:
            PipelineError: ``column`` is not a column of the stream.
        """
        column = self.column if column is None else column
        if not isinstance(column, str):
            given = type(column).__name__
            raise PipelineError(
                f"{name}={self.function_name}(...) takes the name of a column, not {given}"
            )
        require_column(column, columns, f"{name}={self}")
        return columns[column]

    def unsuitable(
        self, name: str, columns: Columns, needs: str, column: str | None = None
    ) -> PipelineError:
        """Return the error for a column whose type does not suit the aggregate."""
        column = self.column if column is None else column
        return PipelineError(
            f'{name}={self}: column "{column}" is {columns[column]}, '
            f"but {self.function_name} needs {needs}"
        )


@dataclass(frozen=True)
class Count:
    """The number of rows.  No parts: ROWS is the count."""

    def __str__(self) -> str:
        return "count()"

    @property
    def skips_nulls_of(self) -> tuple[str, ...]:
        """None: all rows count."""
        return ()

    def type(self, _name: str, _columns: Columns) -> pl.DataType:
        """Return Int64."""
        return pl.Int64()

    def parts(self, _name: str, _rows: pl.DataFrame) -> list[pl.Series]:
        """Return no parts."""
        return []

    def merge(self, _name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Return no parts."""
        return []

    def running(self, _name: str, _partials: pl.DataFrame, _runs: Runs) -> list[pl.Series]:
        """Return no parts."""
        return []

    def value(self, _name: str, partials: pl.DataFrame, _columns: Columns) -> pl.Series:
        """Return the number of rows folded."""
        return partials[ROWS]


@dataclass(frozen=True)
class CountValues(ColumnFunction):
    """The number of values that are not null.  Part: ``nulls``."""

    @property
    def function_name(self) -> str:
        """The name of the function that users write."""
        return "count"

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Return Int64."""
        self.input_type(name, columns)
        return pl.Int64()

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Count nulls rather than values, because nulls are rarer."""
        return null_counter(name, rows[self.column])

    def merge(self, name: str, present: Sequence[str]) -> list[pl.Expr]:
        """Add up the counters."""
        return additive(name, present)

    def running(self, name: str, partials: pl.DataFrame, runs: Runs) -> list[pl.Series]:
        """Return running sums of the counters."""
        return running_additive(name, partials, runs)

    def value(self, name: str, partials: pl.DataFrame, _columns: Columns) -> pl.Series:
        """Return the number of rows folded whose value is not null."""
        return pl.Series(values_counted(name, partials))


def null_counter(name: str, values: pl.Series) -> list[pl.Series]:
    """Return the part ``nulls``; no column if no value is null."""
    if not values.null_count():
        return []
    return counter_column(name, NULLS, values.is_null().to_numpy())


def values_counted(name: str, partials: pl.DataFrame) -> exact_sum.Integers:
    """Return the number of values that are not null, for aggregates with the part ``nulls``."""
    return partials[ROWS].to_numpy() - counter_of(name, NULLS, partials)


@dataclass(frozen=True)
class _Extreme(ColumnFunction):
    """The least or greatest value.  One part, named like the function.

    NaN is the result only if all values are NaN.  Text is compared by code points.
    """

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Return the column's type."""
        found = self.input_type(name, columns)
        simple = (pl.String, pl.Boolean, pl.Decimal)
        if not (found.is_numeric() or found.is_temporal() or found in simple):
            raise self.unsuitable(name, columns, "numbers, strings, Booleans or times")
        return found

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Return the values themselves."""
        return [rows[self.column].alias(f"{name}.{self.function_name}")]

    def running(self, name: str, partials: pl.DataFrame, runs: Runs) -> list[pl.Series]:
        """Return the running extreme."""
        part = partials[f"{name}.{self.function_name}"]
        whole = part.dtype.is_integer() and part.dtype not in (pl.Int128, pl.UInt128)
        if whole or part.dtype.is_temporal():
            return [self._so_far(part, runs)]
        column = pl.col(part.name)
        nan = [(column.is_nan(), False)] if part.dtype.is_float() else []
        by = [(column.is_null(), False), *nan, (column, self._descending)]
        return [chosen_so_far(partials, part.name, by, runs)]

    _descending = False
    """Whether the greatest value is the extreme."""

    def _so_far(self, part: pl.Series, runs: Runs) -> pl.Series:
        raise NotImplementedError

    def value(self, name: str, partials: pl.DataFrame, _columns: Columns) -> pl.Series:
        """Return the extreme, with one bit pattern for all zeros and one for all NaNs."""
        found = partials[f"{name}.{self.function_name}"]
        if not found.dtype.is_float():
            return found
        value = pl.col(found.name).fill_nan(float("nan"))
        zero = pl.lit(0.0, found.dtype)
        return found.to_frame().select(pl.when(value == 0).then(zero).otherwise(value)).to_series()


class Min(_Extreme):
    """The least value."""

    def merge(self, name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Return the least value of a group."""
        return [pl.col(f"{name}.min").min()]

    def _so_far(self, part: pl.Series, runs: Runs) -> pl.Series:
        return runs.lowest(part)


class Max(_Extreme):
    """The greatest value."""

    _descending = True

    def merge(self, name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Return the greatest value of a group."""
        return [pl.col(f"{name}.max").max()]

    def _so_far(self, part: pl.Series, runs: Runs) -> pl.Series:
        return runs.highest(part)


RowOrder = Literal["event_time", "arrival"]

ORDER = {"time": EVENT_TIME, "source": SOURCE, "offset": OFFSET, "sub_row": SUB_ROW}
"""The order of rows by event time: fields of a struct, and the row columns that hold them."""

ARRIVAL_ORDER = {"arrival": ARRIVAL, "sub_row": SUB_ROW}
"""The order of rows by arrival, that is by their place in the log."""


class InRowOrder:
    """Base of the aggregates that depend on the order of rows: by event time, or by arrival."""

    order: RowOrder

    @property
    def by_arrival(self) -> bool:
        """Whether rows need the column ARRIVAL."""
        return self.order == "arrival"

    @property
    def fields(self) -> dict[str, str]:
        """The fields that rows are ordered by, with their row columns."""
        return ARRIVAL_ORDER if self.by_arrival else ORDER

    def require_order(self, what: str) -> None:
        """Raise PipelineError if the order is not known; ``what``: the option, for the error."""
        if self.order not in get_args(RowOrder):
            raise PipelineError(f"{what} {self.order!r} is not one of {get_args(RowOrder)}")


@dataclass(frozen=True)
class OrderedFunction(InRowOrder, ColumnFunction):
    """Base of the aggregates of one column that depend on the order of rows."""

    order: RowOrder = "event_time"

    def __post_init__(self) -> None:
        self.require_order(f'{self.function_name}("{self.column}"): order')

    def __str__(self) -> str:
        order = "" if self.order == "event_time" else f', order="{self.order}"'
        return f'{self.function_name}("{self.column}"{order})'


def order_columns(rows: pl.DataFrame, order: dict[str, str] = ORDER) -> pl.DataFrame:
    """Return the columns that rows are ordered by, named by field; the source as String."""
    fields = pl.DataFrame({field: rows[column] for field, column in order.items()})
    if "source" in order and fields["source"].dtype != pl.String:
        fields = fields.with_columns(pl.col("source").cast(pl.String))
    return fields


By = list[tuple[pl.Expr, bool]]
"""What lines are sorted by, each ascending or, if true, descending; no two lines are equal."""


class ChoosingFunction:
    """Base of the aggregates that choose a row.  One part, named like the function: structs."""

    @property
    def function_name(self) -> str:
        """The name of the function that users write, and of the part."""
        raise NotImplementedError

    def _by(self, part: pl.Expr) -> By:
        """Return what the rows of a group are sorted by; the first one is chosen."""
        raise NotImplementedError

    def merge(self, name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Return the chosen row of a group."""
        part = pl.col(f"{name}.{self.function_name}")
        keys, descending = zip(*self._by(part), strict=True)
        return [part.sort_by(keys, descending=descending).first()]

    def running(self, name: str, partials: pl.DataFrame, runs: Runs) -> list[pl.Series]:
        """Return the row chosen of each run so far."""
        part = f"{name}.{self.function_name}"
        return [chosen_so_far(partials, part, self._by(pl.col(part)), runs)]


def chosen_so_far(partials: pl.DataFrame, column: str, by: By, runs: Runs) -> pl.Series:
    """Return for each line the value of the first line by ``by`` of its run so far."""
    keys, descending = zip(*by, strict=True)
    order = partials.select(pl.arg_sort_by(keys, descending=descending)).to_series()
    return partials[column][runs.chosen(order.cast(pl.Int64).to_numpy())]


class _FirstOrLast(OrderedFunction, ChoosingFunction):
    """The value of the first or last row.

    One part, named like the function: a struct of the order's fields and ``value``.
    """

    _descending = False
    """Whether the last row is chosen."""

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Return the column's type, which may be any."""
        return self.input_type(name, columns)

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Return each value with the fields that order its row."""
        fields = order_columns(rows, self.fields).with_columns(rows[self.column].alias("value"))
        return [fields.to_struct(f"{name}.{self.function_name}")]

    def value(self, name: str, partials: pl.DataFrame, _columns: Columns) -> pl.Series:
        """Return the chosen value."""
        return partials[f"{name}.{self.function_name}"].struct.field("value")

    def _by(self, part: pl.Expr) -> By:
        order = [(part.struct.field(field), self._descending) for field in self.fields]
        return [(part.struct.field("value").is_null(), False), *order]


class First(_FirstOrLast):
    """The first value that is not null."""


class Last(_FirstOrLast):
    """The last value that is not null."""

    _descending = True
