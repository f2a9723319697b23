"""The operators of a stateless graph: filter, compute columns, call Python, explode.

Each operator is a frozen value and a function of one row; ``columns`` are its input value columns.
If a Python function fails on a row, the operator reports that row.  If an expression fails, ``run``
raises, because polars does not say for which row.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from tidemark.core.rows.expression import Columns, error_text, evaluate, expression_text
from tidemark.core.rows.python_value import conform
from tidemark.core.rows.row_size import MAX_RECORD_BYTES, item_counts, row_bytes, too_large
from tidemark.core.rows.stateless import RECORD, StepOutput, non_value_columns, with_metadata

RowFunction = Callable[[dict[str, Any]], Mapping[str, Any]]
"""A Python function from a row to a row, both dicts of columns."""

RowsFunction = Callable[[dict[str, Any]], Iterable[Mapping[str, Any]]]
"""A Python function from a row to any number of rows, all dicts of columns."""

_KEEP = "@keep"


@dataclass(frozen=True)
class Filter:
    """Keep the rows for which the predicate is true; null is not true."""

    columns: Columns
    predicate: pl.Expr
    label: str

    @property
    def expressions(self) -> tuple[pl.Expr, ...]:
        """The predicate."""
        return (self.predicate,)

    def run(self, rows: pl.DataFrame) -> StepOutput:
        """Return the rows for which the predicate is true."""
        keep = _results(rows, self.columns, [self.predicate.alias(_KEEP)], {_KEEP: pl.Boolean()})
        return StepOutput(rows.filter(keep[_KEEP]))


@dataclass(frozen=True)
class WithColumns:
    """Add or replace the columns ``types`` by expressions."""

    columns: Columns
    expressions: tuple[pl.Expr, ...]
    types: Columns

    @property
    def label(self) -> str:
        """The name in errors and plans."""
        return f"with_columns({_assigned(self.expressions)})"

    def run(self, rows: pl.DataFrame) -> StepOutput:
        """Return the rows with the columns added or replaced."""
        values = _results(rows, self.columns, self.expressions, self.types)
        return StepOutput(rows.with_columns(values))


@dataclass(frozen=True)
class Select:
    """Replace all columns by ``types``, made by expressions."""

    columns: Columns
    expressions: tuple[pl.Expr, ...]
    types: Columns

    @property
    def label(self) -> str:
        """The name in errors and plans."""
        return f"select({_assigned(self.expressions)})"

    def run(self, rows: pl.DataFrame) -> StepOutput:
        """Return the rows with only these value columns."""
        values = _results(rows, self.columns, self.expressions, self.types)
        return StepOutput(non_value_columns(rows, self.columns).hstack(values))


@dataclass(frozen=True)
class Explode:
    """Make one row per item of a list column; an empty or null list gives no row."""

    columns: Columns
    column: str

    @property
    def label(self) -> str:
        """The name in errors and plans."""
        return f"explode({self.column})"

    @property
    def expressions(self) -> tuple[pl.Expr, ...]:
        """No expressions."""
        return ()

    def run(self, rows: pl.DataFrame) -> StepOutput:
        """Return each row once per item; report rows that would exceed MAX_RECORD_BYTES."""
        items = rows[self.column]
        others = row_bytes((rows[n] for n in self.columns if n != self.column), rows.height)
        sizes = others * item_counts(items) + row_bytes([items], rows.height)
        bad = []
        if sizes.max(initial=0) > MAX_RECORD_BYTES:
            fits = sizes <= MAX_RECORD_BYTES
            large = zip(rows[RECORD].filter(~fits), sizes[~fits].tolist(), strict=True)
            bad = [(record, too_large(size)) for record, size in large]
            rows = rows.filter(fits)
        return StepOutput(rows.explode(self.column, empty_as_null=False, keep_nulls=False), bad)


@dataclass(frozen=True)
class Apply:
    """Add or replace the columns ``types`` by a Python function of a row."""

    columns: Columns
    function: RowFunction
    types: Columns

    @property
    def label(self) -> str:
        """The name in errors and plans."""
        return f"apply({_name(self.function)})"

    @property
    def expressions(self) -> tuple[pl.Expr, ...]:
        """No expressions: the function gets the value columns."""
        return ()

    def run(self, rows: pl.DataFrame) -> StepOutput:
        """Call the function on every row; report the rows on which it fails."""
        good, results, bad = [], [], []
        for position, (record, row) in enumerate(_python_rows(rows, self.columns)):
            try:
                results.append(conform(self.function(row), self.types))
                good.append(position)
            except MemoryError:  # which says nothing about the row
                raise
            except Exception as error:  # noqa: BLE001 - a user's function may raise anything
                bad.append((record, error_text(error)))
        values = pl.DataFrame(results, schema=dict(self.types), orient="row")
        return StepOutput(rows[good].with_columns(values), bad)


@dataclass(frozen=True)
class FlatMap:
    """Replace each row by the rows that a Python function returns, with the columns ``types``."""

    columns: Columns
    function: RowsFunction
    types: Columns

    @property
    def label(self) -> str:
        """The name in errors and plans."""
        return f"flat_map({_name(self.function)})"

    @property
    def expressions(self) -> tuple[pl.Expr, ...]:
        """No expressions: the function gets the value columns."""
        return ()

    def run(self, rows: pl.DataFrame) -> StepOutput:
        """Call the function on every row; a row on which it fails gives no rows and is reported."""
        origins: list[int] = []
        results: list[tuple[Any, ...]] = []
        bad = []
        for position, (record, row) in enumerate(_python_rows(rows, self.columns)):
            try:
                fresh = [conform(item, self.types) for item in _items(self.function(row))]
            except MemoryError:  # which says nothing about the row
                raise
            except Exception as error:  # noqa: BLE001 - a user's function may raise anything
                bad.append((record, error_text(error)))
                continue
            results.extend(fresh)
            origins.extend([position] * len(fresh))
        values = pl.DataFrame(results, schema=dict(self.types), orient="row")
        return StepOutput(non_value_columns(rows, self.columns)[origins].hstack(values), bad)


def _results(
    rows: pl.DataFrame, columns: Columns, expressions: Iterable[pl.Expr], types: Columns
) -> pl.DataFrame:
    """Return the columns ``types`` that expressions make.

    Raises:
        TypeError: a column has another type.
    """
    used = list(expressions)
    seen = with_metadata(rows, columns, used)
    values = evaluate(used, list(types), seen)
    for name, dtype in types.items():
        if values.schema[name] != dtype:
            raise TypeError(f"column {name!r} became {values.schema[name]}, not {dtype}")
    return values


def _python_rows(rows: pl.DataFrame, columns: Columns) -> Iterable[tuple[int, dict[str, Any]]]:
    return zip(rows[RECORD], rows.select(*columns).iter_rows(named=True), strict=True)


def _items(rows: object) -> Iterable[object]:
    if isinstance(rows, Mapping | str | bytes) or not isinstance(rows, Iterable):
        raise TypeError(f"returned a {type(rows).__name__}, not an iterable of dicts")
    return rows


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _assigned(expressions: Iterable[pl.Expr]) -> str:
    return ", ".join(expression_text(expression) for expression in expressions)
