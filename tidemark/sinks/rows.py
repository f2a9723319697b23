"""Decodes records of a topic to rows of its table.

A batch is decoded as a whole.  If that fails, its records are decoded one by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from tidemark.core.operators.ports import ROW
from tidemark.core.windows.pane import RETRACTED
from tidemark.errors import StateError
from tidemark.serde.json_records import instance
from tidemark.sinks.table import INSTANT, Table

_TEXTS = (pl.exceptions.PolarsError, StateError, UnicodeDecodeError)


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """Rows in the order of their records.

    ``rows``: the table's columns, for panes also RETRACTED.  ``good``: the index of each row's
    record.  ``bad``: index and reason of each record that does not fit the table.
    """

    rows: pl.DataFrame
    good: Sequence[int]
    bad: Sequence[tuple[int, str]]


def decode(table: Table, values: Sequence[bytes | None]) -> DecodedRows:
    """Return the rows of records of a table's topic."""
    try:
        return DecodedRows(_rows(table, values), range(len(values)), ())
    except _TEXTS:
        return _one_by_one(table, values)


def _one_by_one(table: Table, values: Sequence[bytes | None]) -> DecodedRows:
    rows, good, bad = [_rows(table, ())], [], []
    for index, value in enumerate(values):
        try:
            if value and not table.avro:
                value.decode()  # names the byte that is not UTF-8; polars does not
            rows.append(_rows(table, [value]))
            good.append(index)
        except _TEXTS as error:
            bad.append((index, " ".join(str(error).split())))
    return DecodedRows(pl.concat(rows), good, bad)


def _rows(table: Table, values: Sequence[bytes | None]) -> pl.DataFrame:
    """Return one row per record.

    Raises:
        StateError, PolarsError, UnicodeDecodeError: some value is not a record of the table.
    """
    if any(value is None for value in values):
        raise StateError("a record without a value")
    schema = _record_schema(table)
    present = [value for value in values if value is not None]
    records = _avro(table, present, schema) if table.avro else _json(present, schema)
    if records.height != len(values):
        raise StateError(f"{len(values)} records hold {records.height} objects")
    rows = records.select(_column(table, name, dtype) for name, dtype in table.columns.items())
    for name in table.key:
        if rows[name].null_count():
            raise StateError(f"column {name} is null")
    if table.has_panes:
        rows = rows.hstack([records[RETRACTED].fill_null(value=False)])
    return rows


def _record_schema(table: Table) -> dict[str, pl.DataType]:
    """Return the members of a table's records and their types in the record."""
    schema: dict[str, pl.DataType] = {}
    for name, dtype in table.columns.items():
        instant = name in table.instants
        schema[table.member(name)] = pl.Int64() if instant else dtype
    if table.raw_row is not None:
        schema[ROW] = table.raw_row
    if table.has_panes:
        schema[RETRACTED] = pl.Boolean()
    return schema


def _json(values: Sequence[bytes], schema: dict[str, pl.DataType]) -> pl.DataFrame:
    text = b"\n".join(values)
    if not text:
        return pl.DataFrame(schema=schema)
    if any(map(_holds_decimals, schema.values())):  # read_ndjson is faster, but knows no decimals
        return _json_with_decimals(values, schema)
    return pl.read_ndjson(text, schema=schema)


def _json_with_decimals(values: Sequence[bytes], schema: dict[str, pl.DataType]) -> pl.DataFrame:
    """Decode with a slower parser; it reads an integer that is too long as null, hence Int128."""
    wide = {n: pl.Int128() if dtype == pl.Int64 else dtype for n, dtype in schema.items()}
    lines = pl.Series(values, dtype=pl.Binary).cast(pl.String)
    return lines.str.json_decode(pl.Struct(wide)).struct.unnest().cast(pl.Schema(schema))


def _holds_decimals(dtype: pl.DataType) -> bool:
    if isinstance(dtype, pl.List):
        return _holds_decimals(instance(dtype.inner))
    if isinstance(dtype, pl.Struct):
        return any(_holds_decimals(instance(field.dtype)) for field in dtype.fields)
    return isinstance(dtype, pl.Decimal)


def _avro(table: Table, values: Sequence[bytes], schema: dict[str, pl.DataType]) -> pl.DataFrame:
    assert table.avro is not None
    return pl.DataFrame([table.avro.decode(value) for value in values], schema=schema)


def _column(table: Table, name: str, dtype: pl.DataType) -> pl.Expr:
    """Return a column of the table, from the members of its records."""
    member = pl.col(table.member(name))
    if dtype == INSTANT:
        return member.cast(INSTANT).alias(name)
    if name == ROW and table.raw_row is not None:
        return member.struct.json_encode().alias(name)
    return member.cast(dtype).alias(name)
