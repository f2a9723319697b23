"""Sinks to test, and what a reader finds in each."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import polars as pl

from tests.sinks.receiver import Receiver
from tidemark.core.operators.rows import EVENT_TIME_MS
from tidemark.core.rows.schema import INSTANT
from tidemark.partition import Partition
from tidemark.sinks.databases.duck import DuckSink
from tidemark.sinks.databases.sqlite import SqliteSink
from tidemark.sinks.lines import LinesSink
from tidemark.sinks.parquet import ParquetSink
from tidemark.sinks.rows import decode
from tidemark.sinks.sink import Batch, Move, Sink
from tidemark.sinks.table import Table
from tidemark.sinks.webhook import WebhookSink

Row = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """A kind of sink: how to open it, to read a table of it, and to run SQL where there is any."""

    open: Callable[[], Sink]
    rows: Callable[[Table], list[Row]]
    run: Callable[[str], list[tuple[Any, ...]]] | None = None


def sqlite_place(folder: Path) -> Place:
    path = folder / "results.db"

    def run(statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(path)) as db, db:
            return db.execute(statement).fetchall()

    return Place(lambda: SqliteSink(path), partial(database_rows, run), run)


def duck_place(folder: Path) -> Place:
    path = folder / "results.duckdb"

    def run(statement: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(path) as db:
            return db.execute(statement).fetchall()

    return Place(lambda: DuckSink(path), partial(database_rows, run), run)


def parquet_place(folder: Path) -> Place:
    def rows(table: Table) -> list[Row]:
        files = sorted((folder / table.name).glob("*.parquet"), key=_begin)
        frames = [pl.read_parquet(path) for path in files]
        return plain(_held(pl.concat(frames), table), table) if frames else []

    return Place(lambda: ParquetSink(folder), rows)


def lines_place(folder: Path) -> Place:
    def rows(table: Table) -> list[Row]:
        files = sorted(folder.glob(f"{table.name}-*.jsonl"))
        return records_held(table, [v for path in files for v in path.read_bytes().splitlines()])

    return Place(lambda: LinesSink(folder), rows)


_numbers = count()


@cache
def _receiver() -> Receiver:
    return Receiver()


def webhook_place(_folder: Path) -> Place:
    receiver, path = _receiver(), f"/{next(_numbers)}"

    def rows(table: Table) -> list[Row]:
        records = receiver.records(path, table.topic)
        return records_held(table, [msgspec.json.encode(each["value"]) for each in records])

    return Place(lambda: WebhookSink(receiver.url + path), rows)


PLACES: dict[str, Callable[[Path], Place]] = {
    "sqlite": sqlite_place,
    "duckdb": duck_place,
    "parquet": parquet_place,
    "jsonl": lines_place,
    "webhook": webhook_place,
}


CASES = [(name, "json") for name in PLACES]
CASES += [(name, "avro") for name in PLACES if name not in ("jsonl", "webhook")]  # take only JSON
"""Kinds of sinks, each with a format of the topics that it takes."""


def deliver(place: Place, table: Table, keys: list[bytes], values: list[bytes]) -> list[Row]:
    """Return what a sink holds of the messages of a topic."""
    decoded = decode(table, values)
    assert decoded.bad == []
    sink = place.open()
    sink.prepare([table])
    at, move = Partition(table.topic, 0), Move(None, len(values), "AAAA")
    offsets = list(range(len(values)))
    sink.write([Batch(table, at, move, decoded.rows, offsets, keys, values)])
    sink.close()
    return place.rows(table)


def in_columns(rows: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Return published rows with the columns of their table, in which times are instants."""
    time = pl.from_epoch(EVENT_TIME_MS, "ms").dt.replace_time_zone("UTC").cast(INSTANT)
    return rows.with_columns(time.alias("_event_time")).select(list(table.columns))


def database_rows(run: Callable[[str], list[tuple[Any, ...]]], table: Table) -> list[Row]:
    """Return the rows of a table in a database."""
    names = list(table.columns)
    columns = ", ".join(f'"{name}"' for name in names)
    found = run(f'SELECT {columns} FROM "{table.name}"')
    return plain([dict(zip(names, values, strict=True)) for values in found], table)


def records_held(table: Table, values: Sequence[bytes]) -> list[Row]:
    """Return the rows that count of all records ever written."""
    return plain(_held(decode(table, values).rows, table), table)


def _begin(path: Path) -> tuple[int, int]:
    partition, begin, _ = path.stem.split("-")
    return int(partition), int(begin)


def _held(rows: pl.DataFrame, table: Table) -> list[Row]:
    """Return what counts of all panes ever written: the last of each key, but those withdrawn."""
    held: dict[tuple[Any, ...], Row] = {}
    for row in rows.iter_rows(named=True):
        if row.pop("retracted", False):  # rows that are no panes are never withdrawn
            window = tuple(row[name] for name in table.window)
            held = {k: r for k, r in held.items() if tuple(r[n] for n in table.window) != window}
        else:
            held[tuple(row[name] for name in table.key)] = row
    return list(held.values())


def plain(rows: Sequence[Row], table: Table) -> list[Row]:
    """Return rows as every sink should give them back, in the order of their keys."""
    made = [
        {name: _value(row[name], dtype) for name, dtype in table.columns.items()} for row in rows
    ]
    return sorted(made, key=lambda row: tuple(str(row[name]) for name in sorted(table.key)))


def _value(value: Any, dtype: pl.DataType) -> Any:
    if value is None:
        return None
    if dtype.is_nested():
        return json.loads(value) if isinstance(value, str) else value
    if dtype == INSTANT:
        return (datetime.fromisoformat(value) if isinstance(value, str) else value).astimezone(UTC)
    if dtype == pl.Date:
        return date.fromisoformat(value) if isinstance(value, str) else value
    if dtype == pl.Boolean:
        return bool(value)
    return Decimal(value) if isinstance(dtype, pl.Decimal) else value
