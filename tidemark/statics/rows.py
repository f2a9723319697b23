"""Reads all rows of a static table from a file."""

import itertools
from collections.abc import Sequence

import polars as pl

from tidemark.errors import ConfigurationError
from tidemark.files.content import open_content
from tidemark.files.table_lines import fields_of, table_records
from tidemark.plan.physical import SourcePlan
from tidemark.plan.static_table import CSV, POSTGRESQL, StaticTable
from tidemark.serde.formats.source_format import CsvFormat
from tidemark.statics.columns import StaticColumns
from tidemark.statics.sql import query_rows
from tidemark.statics.versions import StaticRows


def read_rows(source: SourcePlan) -> StaticRows:
    """Return all rows that a static table has now.

    Raises:
        ConfigurationError: the file or database is missing, or is not what the address says.
        InfrastructureError: the database does not answer.
    """
    table, columns = source.static, StaticColumns(source)
    assert table is not None
    if table.is_query:
        return _numbered(query_rows(table, columns), "query")
    if table.kind == CSV:
        return _csv_rows(table, columns)
    return _numbered(_parquet_rows(table, columns), table.path.name)


def require_files(sources: Sequence[SourcePlan]) -> None:
    """Raise ConfigurationError if the file of a static table is missing."""
    for source in sources:
        table = source.static
        if table is not None and table.kind != POSTGRESQL and not table.path.is_file():
            raise ConfigurationError(
                f"{StaticColumns(source).what}: there is no such file in "
                f"{table.path.absolute().parent}; every process of ingest reads it"
            )


def _numbered(rows: Sequence[bytes], name: str) -> StaticRows:
    return StaticRows(rows, range(1, len(rows) + 1), name)


def _csv_rows(table: StaticTable, columns: StaticColumns) -> StaticRows:
    """Return the lines of a CSV file, each with the header before it."""
    form = CsvFormat(None, table.delimiter)
    with open_content(str(table.path), columns.what) as content:
        lines = (line.removesuffix(b"\n") for line in content)
        header = next(lines, b"")
        columns.chosen(fields_of(header, form))
        records = list(table_records(itertools.chain([header], lines), form))
    heights = [record.count(b"\n") for record in records]
    starts = list(itertools.accumulate(heights, initial=2))
    kept = [at for at, record in enumerate(records) if record.partition(b"\n")[2].strip()]
    return StaticRows([records[at] for at in kept], [starts[at] for at in kept], table.path.name)


def _parquet_rows(table: StaticTable, columns: StaticColumns) -> list[bytes]:
    try:
        names = columns.chosen(list(pl.read_parquet_schema(table.path)))
        frame = pl.read_parquet(table.path, columns=names)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ConfigurationError(f"{columns.what}: {error}") from None
    return columns.objects(frame.columns, frame.iter_rows())
