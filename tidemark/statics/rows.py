"""Reads all rows of a static table from a file."""

import itertools
from collections.abc import Sequence
from functools import partial

import msgspec
import polars as pl

from tidemark.errors import ConfigurationError
from tidemark.files.content import open_content
from tidemark.files.table_lines import fields_of, table_records
from tidemark.plan.physical import SourcePlan
from tidemark.plan.static_table import CSV, FIELDS, POSTGRESQL, StaticTable
from tidemark.serde.formats.source_format import CsvFormat
from tidemark.statics.sql import query_rows
from tidemark.statics.versions import StaticRows


def read_rows(source: SourcePlan) -> StaticRows:
    """Return all rows that a static table has now.

    Raises:
        ConfigurationError: the file or database is missing, or is not what the address says.
        InfrastructureError: the database does not answer.
    """
    table = source.static
    assert table is not None
    if table.is_query:
        rows = query_rows(table, _what(source), partial(_require_columns, source))
        return _numbered(rows, "query")
    if table.kind == CSV:
        return _csv_rows(source, table)
    return _numbered(_parquet_rows(source, table), table.path.name)


def require_files(sources: Sequence[SourcePlan]) -> None:
    """Raise ConfigurationError if the file of a static table is missing."""
    for source in sources:
        table = source.static
        if table is not None and table.kind != POSTGRESQL and not table.path.is_file():
            raise ConfigurationError(
                f"{_what(source)}: there is no such file in {table.path.absolute().parent}; every "
                "process of ingest reads it"
            )


def _what(source: SourcePlan) -> str:
    return f"static table {source.name} from {source.static}"


def _numbered(rows: Sequence[bytes], name: str) -> StaticRows:
    return StaticRows(rows, range(1, len(rows) + 1), name)


def _csv_rows(source: SourcePlan, table: StaticTable) -> StaticRows:
    """Return the lines of a CSV file, each with the header before it."""
    form = CsvFormat(None, table.delimiter)
    with open_content(str(table.path), _what(source)) as content:
        lines = (line.removesuffix(b"\n") for line in content)
        header = next(lines, b"")
        _require_columns(source, fields_of(header, form))
        records = list(table_records(itertools.chain([header], lines), form))
    heights = [record.count(b"\n") for record in records]
    starts = list(itertools.accumulate(heights, initial=2))
    kept = [at for at, record in enumerate(records) if record.partition(b"\n")[2].strip()]
    return StaticRows([records[at] for at in kept], [starts[at] for at in kept], table.path.name)


def _require_columns(source: SourcePlan, there: Sequence[str]) -> None:
    """Raise ConfigurationError if rows do not have each column of the schema, once."""
    own = {field.name for field in FIELDS}
    for each in source.schema.fields:
        name = each.place[0]
        if each.name in own or there.count(name) == 1:
            continue
        fault = f"several columns have the name {name!r}"
        if name not in there:
            fault = f"there is no column {name!r}"
        shown = f"the columns are {', '.join(map(repr, there))}"
        remedy = shown if there else "the columns have no names: the first line must name them"
        raise ConfigurationError(f"{_what(source)}: {fault}; {remedy}")


def _parquet_rows(source: SourcePlan, table: StaticTable) -> list[bytes]:
    """Return the rows of a Parquet file as JSON, with the columns of the schema."""
    try:
        names = list(pl.read_parquet_schema(table.path))
        _require_columns(source, names)
        places = {each.place[0] for each in source.schema.fields}
        frame = pl.read_parquet(table.path, columns=[name for name in names if name in places])
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ConfigurationError(f"{_what(source)}: {error}") from None
    encode = msgspec.json.Encoder().encode
    return list(map(encode, frame.iter_rows(named=True)))
