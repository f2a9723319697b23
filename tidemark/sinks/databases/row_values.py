"""The values of rows as databases take them: finds those that do not fit, and makes texts."""

from collections.abc import Iterator, Mapping
from datetime import date
from itertools import chain

import polars as pl
import polars.selectors as cs

from tidemark.core.rows.schema import INSTANT
from tidemark.core.rows.time_text import times_as_text
from tidemark.sinks.databases.conversion import Conversion
from tidemark.sinks.databases.sql import Dialect
from tidemark.sinks.table import Table

_DAY_MS = 86_400_000
_FIRST_DAY, _LAST_DAY = ((day - date(1970, 1, 1)).days for day in (date.min, date.max))
_NUL_IN_JSON = r"(^|[^\\])(\\\\)*\\u0000"


def unfit(
    dialect: Dialect, table: Table, rows: pl.DataFrame, conversions: Mapping[str, Conversion]
) -> dict[int, str]:
    """Return index and reason of each row with a value that the database cannot hold."""
    texts = rows if dialect.nul else json_texts(rows)
    found: dict[int, str] = {}
    for name in table.columns:
        own = conversions[name].problems if name in conversions else ()
        for reason, bad in chain(_unfit(dialect, pl.col(name), rows.schema[name]), own):
            for index in texts.select(bad).to_series().arg_true():
                found.setdefault(index, f"column {name}: {reason}")
    return dict(sorted(found.items()))


def _unfit(dialect: Dialect, column: pl.Expr, dtype: pl.DataType) -> Iterator[tuple[str, pl.Expr]]:
    """Yield each reason, and which rows have it."""
    if dtype == INSTANT:
        yield "not a time of the years 1 to 9999", ~_in_years(column)
    if dtype == pl.Date:
        days = column.cast(pl.Int32)
        yield "not a day of the years 1 to 9999", (days < _FIRST_DAY) | (days > _LAST_DAY)
    if dialect.nul:
        return
    if dtype == pl.String:
        yield "a text with the character NUL", column.str.contains("\0", literal=True)
    if dtype.is_nested():
        yield "a text with the character NUL", column.str.contains(_NUL_IN_JSON)


def _in_years(instant: pl.Expr) -> pl.Expr:
    ms = instant.cast(pl.Int64)
    return ms.is_between(_FIRST_DAY * _DAY_MS, (_LAST_DAY + 1) * _DAY_MS - 1)


def fitted(dialect: Dialect, table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows; of dead letters, with each value in a form that the database can hold.

    A raw record may hold anything, and its letter must not be refused in turn.  A text with NUL is
    in base64, and a time that is not of the years 1 to 9999 is null.
    """
    if not table.raw_keys:
        return rows
    time = pl.col("record_time")
    rows = rows.with_columns(pl.when(_in_years(time)).then(time))
    if dialect.nul:
        return rows
    for part in ("key", "value"):
        text = pl.col(part)
        nul = text.str.contains("\0", literal=True)
        encoded = text.cast(pl.Binary).bin.encode("base64")
        rows = rows.with_columns(
            pl.when(nul).then(encoded).otherwise(text).alias(part),
            pl.when(nul)
            .then(pl.lit("base64"))
            .otherwise(pl.col(f"{part}_encoding"))
            .alias(f"{part}_encoding"),
        )
    return rows.with_columns(pl.col("reason").str.replace_all("\0", "\\0", literal=True))


def json_texts(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with lists and structs as JSON texts."""
    nested = times_as_text(rows.select(cs.nested()))
    return rows.with_columns(nested).with_columns(
        pl.when(pl.col(name).is_not_null()).then(_json_text(name, dtype)).alias(name)
        for name, dtype in rows.schema.items()
        if dtype.is_nested()
    )


def _json_text(name: str, dtype: pl.DataType) -> pl.Expr:
    if isinstance(dtype, pl.Struct):
        return pl.col(name).struct.json_encode()
    # Polars encodes only structs as JSON: wrap the list in one, and strip the wrapper again.
    held = pl.struct(pl.col(name).alias("v")).struct.json_encode()
    return held.str.strip_prefix('{"v":').str.strip_suffix("}")


def instants(rows: pl.DataFrame, form: str) -> pl.DataFrame:
    """Return rows with instants as texts; ``form``: a strftime format.

    Many panes share few windows, so each distinct instant is formatted once.
    """
    texts = []
    for column in rows.get_columns():
        if column.dtype == INSTANT:
            instants = column.unique()
            texts.append(column.replace_strict(instants, instants.dt.strftime(form)))
    return rows.with_columns(texts)
