"""Static tables as users declare them: ``Pipeline.static``."""

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

import polars as pl

from tidemark.core.rows.expression import require_column
from tidemark.core.rows.schema import Schema
from tidemark.core.time.assigners import ColumnTime
from tidemark.core.time.duration import Duration, positive_ms
from tidemark.core.time.watermark import Punctuated
from tidemark.errors import PipelineError
from tidemark.language.formats import fitted, from_text
from tidemark.language.joins.tables import Table
from tidemark.language.mistake import caller
from tidemark.language.schema import schema_of
from tidemark.language.stream import Stream
from tidemark.plan.dataflow import Dataflow
from tidemark.plan.logical import Node, Source
from tidemark.plan.names import require_topic
from tidemark.plan.static_table import (
    CSV,
    DELETED,
    FIELDS,
    KEEP_MS,
    VALID_FROM,
    StaticTable,
    usual_delimiter,
)

_DELIMITERS = (",", ";", "\t", "|")
_IDLE_AFTER_MS = 1_000
_ADDRESSES = (
    "a path that ends with .csv, .tsv or .parquet, sqlite:PATH or "
    "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
)


def static_table(
    dataflow: Dataflow,
    name: str,
    address: str | PathLike[str],
    *,
    key: str | Sequence[str],
    schema: Mapping[str, Any] | type,
    query: str | None,
    delimiter: str | None,
    reload: Duration | None,
) -> Table:
    """Return a static table; see ``Pipeline.static``."""
    what = f"static({name!r})"
    topic = require_topic(f"{dataflow.name}.{require_topic(name, what)}.static", what)
    if topic in dataflow.topics():
        raise PipelineError(
            f"{what}: the pipeline already has topic {topic!r}; use the existing table, or choose "
            "another name"
        )
    names = (key,) if isinstance(key, str) else tuple(key)
    columns = schema_of(schema, f"{what} schema")
    for each in names:
        require_column(each, columns, f"{what}: key")
    reload_ms = None if reload is None else positive_ms(reload, f"{what}: reload")
    text = _text(address, f"{what}: address")
    own = usual_delimiter(text) if delimiter is None else delimiter
    table = StaticTable(text, names, query, own, reload_ms)
    _require_rows(table, what, has_delimiter=delimiter is not None)
    columns = Schema((*columns.fields, *FIELDS))
    if table.kind == CSV:
        _, columns = fitted(table.format, columns, what)
    else:
        columns = Schema(tuple(map(from_text, columns.fields)))
    source = Source(
        (topic,),
        columns,
        ColumnTime(VALID_FROM, "ms", None),
        Punctuated(pl.lit(value=False)),
        _IDLE_AFTER_MS,
        declared_at=caller(),
        format=table.format,
        static=table,
    )
    node = Node(dict(columns), source=source)
    dataflow.add_source(node)
    return Table(Stream(dataflow, node).key_by(*names), KEEP_MS, pl.col(DELETED))


def _text(address: object, what: str) -> str:
    if isinstance(address, PathLike):
        address = fspath(address)
    if not isinstance(address, str) or not address:
        raise PipelineError(f"{what}: {address!r} is not a text; write {_ADDRESSES}")
    return address


def _require_rows(table: StaticTable, what: str, *, has_delimiter: bool) -> None:
    """Raise PipelineError if the address does not say where rows are, or a query is missing."""
    if table.kind is None:
        raise PipelineError(f"{what}: {str(table)!r} is not {_ADDRESSES}")
    if table.is_query and not table.query:
        raise PipelineError(
            f"{what}: {table} is a database; pass query='SELECT ...', which returns the rows"
        )
    if table.query is not None and not table.is_query:
        raise PipelineError(f"{what}: query is of a database; {table} is a file")
    if has_delimiter and table.kind != CSV:
        raise PipelineError(f"{what}: delimiter is of CSV; {table} is not CSV")
    if table.delimiter not in _DELIMITERS:
        raise PipelineError(f"{what}: delimiter {table.delimiter!r} is not one of {_DELIMITERS}")
