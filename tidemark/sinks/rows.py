"""Decodes records of a topic to rows of its table.

A batch is decoded as a whole.  If that fails, records that are no JSON objects are left out first,
and halving finds the others that do not fit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import polars as pl

from tidemark.core.operators.ports import ROW
from tidemark.core.rows.leaf_values import holds
from tidemark.core.rows.schema import INSTANT
from tidemark.core.rows.time_text import times_as_text
from tidemark.core.windows.pane import RETRACTED
from tidemark.errors import StateError
from tidemark.sinks.table import Table

_FEW = 32  # records that are decoded one by one rather than by halving
_SMALL = (pl.Int8, pl.Int16, pl.UInt8, pl.UInt16)  # read_ndjson panics on these
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
    bad: dict[int, str] = {}
    indices: Sequence[int] = range(len(values))
    try:
        rows = _rows(table, values)
    except _TEXTS:
        bad = dict(_no_objects(table, values))
        parts = list(_parts(table, values, [each for each in indices if each not in bad], bad))
        rows = pl.concat([_rows(table, ()), *(part for _, part in parts)])
        indices = [each for found, _ in parts for each in found]
    for name in table.key:
        missing = rows[name].is_null()
        if missing.any():
            bad |= {indices[row]: f"column {name} is null" for row in missing.arg_true()}
            indices = [indices[row] for row in (~missing).arg_true()]
            rows = rows.filter(~missing)
    return DecodedRows(rows, indices, sorted(bad.items()))


def _no_objects(table: Table, values: Sequence[bytes | None]) -> Iterator[tuple[int, str]]:
    """Yield index and reason of records that have no value, or are no JSON objects."""
    decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
    for index, value in enumerate(values):
        if value is None:
            yield index, "a record without a value"
        elif table.avro is None:
            try:
                value.decode()  # names the byte that is not UTF-8; other decoders do not
                decoder.decode(value)
            except (UnicodeDecodeError, msgspec.DecodeError) as error:
                yield index, str(error)


def _parts(
    table: Table, values: Sequence[bytes | None], indices: Sequence[int], bad: dict[int, str]
) -> Iterator[tuple[Sequence[int], pl.DataFrame]]:
    """Yield indices and rows of records that fit; adds the others to ``bad``."""
    if not indices:
        return
    try:
        yield indices, _rows(table, [values[index] for index in indices])
    except _TEXTS as error:
        if len(indices) == 1:
            bad[indices[0]] = " ".join(str(error).split())
            return
        size = 1 if len(indices) <= _FEW else (len(indices) + 1) // 2
        for first in range(0, len(indices), size):
            yield from _parts(table, values, indices[first : first + size], bad)


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
    if table.raw_row is not None:
        records = records.with_columns(times_as_text(records.select(ROW)))
    rows = records.select(_column(table, name, dtype) for name, dtype in table.columns.items())
    if table.has_panes:
        rows = rows.hstack([records[RETRACTED].fill_null(value=False)])
    return rows


def _record_schema(table: Table) -> dict[str, pl.DataType]:
    """Return the members of a table's records and their types in the record."""
    schema: dict[str, pl.DataType] = {}
    for name, dtype in table.columns.items():
        wider = name in table.instants or dtype in _SMALL
        schema[table.member(name)] = pl.Int64() if wider else dtype
    if table.raw_row is not None:
        schema[ROW] = table.raw_row
    if table.has_panes:
        schema[RETRACTED] = pl.Boolean()
    return schema


def _json(values: Sequence[bytes], schema: dict[str, pl.DataType]) -> pl.DataFrame:
    text = b"\n".join(values)
    if not text:
        return pl.DataFrame(schema=schema)
    # read_ndjson is faster, but knows no decimals.
    if any(holds(dtype, _is_decimal) for dtype in schema.values()):
        return _json_with_decimals(values, schema)
    return pl.read_ndjson(text, schema=schema)


def _json_with_decimals(values: Sequence[bytes], schema: dict[str, pl.DataType]) -> pl.DataFrame:
    """Decode with a slower parser; it reads an integer that is too long as null, hence Int128."""
    wide = {n: pl.Int128() if dtype == pl.Int64 else dtype for n, dtype in schema.items()}
    lines = pl.Series(values, dtype=pl.Binary).cast(pl.String)
    return lines.str.json_decode(pl.Struct(wide)).struct.unnest().cast(pl.Schema(schema))


def _is_decimal(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.Decimal)


def _avro(table: Table, values: Sequence[bytes], schema: dict[str, pl.DataType]) -> pl.DataFrame:
    assert table.avro is not None
    return pl.DataFrame([table.avro.decode(value) for value in values], schema=schema)


def _column(table: Table, name: str, dtype: pl.DataType) -> pl.Expr:
    """Return a column of the table, from the members of its records."""
    member = pl.col(table.member(name))
    if dtype == INSTANT:
        return member.cast(INSTANT).alias(name)
    if table.member(name) == ROW and table.raw_row is not None:
        return member.struct.json_encode().alias(name)
    return member.cast(dtype).alias(name)
