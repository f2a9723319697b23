"""Panes as topics hold them, cut into the batches that sinks get."""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import polars as pl

from tidemark.core.operators.ports import RowTime
from tidemark.core.rows.schema import INSTANT
from tidemark.partition import Partition
from tidemark.sinks.rows import decode
from tidemark.sinks.sink import Batch, Move
from tidemark.sinks.table import Table

PANES = Table(
    topic="game.pops",
    name="pops",
    columns={
        "player": pl.String(),
        "window_start": INSTANT,
        "window_end": INSTANT,
        "revision": pl.Int64(),
        "timing": pl.String(),
        "final": pl.Boolean(),
        "pops": pl.Int64(),
        "mean": pl.Float64(),
        "euros": pl.Decimal(38, 2),
        "made": INSTANT,
        "day": pl.Date(),
        "names": pl.List(pl.String()),
        "top": pl.List(pl.Struct({"value": pl.String(), "count": pl.Int64()})),
    },
    key=("window_start", "player"),
    comment="Panes of game.pops",
    window=("window_start", "player"),
    record_key=("player",),
    members={"window_start": "start", "window_end": "end"},
    row_time=RowTime("end", -1),
    instants=frozenset({"window_start", "window_end"}),
)
ROWS = Table(
    topic="game.orders",
    name="orders",
    columns={
        "item": pl.String(),
        "hour": pl.Int8(),
        "size": pl.UInt16(),
        "_topic": pl.String(),
        "_partition": pl.Int32(),
        "_offset": pl.Int64(),
        "_sub_row": pl.Int32(),
        "_event_time": INSTANT,
    },
    key=("_topic", "_partition", "_offset", "_sub_row"),
    comment="Rows of game.orders",
    members={"_event_time": "_event_time_ms"},
    instants=frozenset({"_event_time"}),
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TOPIC_ID = "AAAA"

Record = dict[str, Any]


def pane(player: str, start: int, revision: int, pops: int | None = 1, **more: Any) -> Record:
    """Return a pane as its topic holds it."""
    return {
        "player": player,
        "start": start,
        "end": start + 60_000,
        "revision": revision,
        "timing": "on_time",
        "final": False,
        "pops": pops,
        "mean": 0.1,
        "euros": "-3.50",
        "made": "2026-01-02T03:04:05.678Z",
        "day": "2026-01-02",
        "names": ["a", None],
        "top": [{"value": "x", "count": 2}],
        **more,
    }


def order(offset: int, sub_row: int, **more: Any) -> Record:
    """Return a row of a stream as its topic holds it."""
    own = {"item": "a", "hour": -128, "size": 2**16 - 1, **more}
    place = {"_topic": "orders", "_partition": 3, "_offset": offset, "_sub_row": sub_row}
    return {**own, **place, "_event_time_ms": -1_500}


def order_row(record: Record) -> Record:
    """Return the row that a sink should hold for a row of a stream."""
    kept = {name: value for name, value in record.items() if name != "_event_time_ms"}
    return {**kept, "_event_time": EPOCH + timedelta(milliseconds=record["_event_time_ms"])}


def withdrawal(player: str, start: int, revision: int) -> Record:
    """Return a pane that withdraws what was published of a window."""
    kept = ("player", "start", "end", "revision", "timing", "final")
    whole = pane(player, start, revision)
    return {**{name: whole[name] for name in kept}, "retracted": True}


def row(record: Record) -> Record:
    """Return the row that a sink should hold for a pane."""
    euros = record["euros"]
    return {
        **{name: value for name, value in record.items() if name not in ("start", "end")},
        "window_start": EPOCH + timedelta(milliseconds=record["start"]),
        "window_end": EPOCH + timedelta(milliseconds=record["end"]),
        "euros": None if euros is None else Decimal(euros),
        "made": datetime.fromisoformat(record["made"]),
        "day": date.fromisoformat(record["day"]),
    }


def batch(
    records: Sequence[Record],
    first: int = 0,
    begin: int | None = None,
    number: int = 0,
    table: Table = PANES,
) -> Batch:
    """Return records of one partition as a batch; their offsets are from ``first`` on."""
    values = [msgspec.json.encode(record) for record in records]
    decoded = decode(table, values)
    assert not decoded.bad, decoded.bad
    end = first + len(records)
    offsets = range(first, end)
    keys = [b"[]"] * len(records)
    at = Partition(table.topic, number)
    return Batch(table, at, Move(begin, end, TOPIC_ID), decoded.rows, offsets, keys, values)


def batches(records: Sequence[Record], cuts: Sequence[int], number: int = 0) -> Iterator[Batch]:
    """Cut records of one partition into batches that follow each other."""
    bounds = [*sorted({cut for cut in cuts if 0 < cut < len(records)}), len(records)]
    first, begin = 0, None
    for end in bounds:
        yield batch(records[first:end], first, begin, number)
        first = begin = end


def held(records: Sequence[Record], key: Sequence[str] = ("player", "start")) -> list[Record]:
    """Return what is left of records by their meaning, one after the other."""
    left: dict[tuple[Any, ...], Record] = {}
    for record in records:
        if record.get("retracted"):
            window = (record["player"], record["start"])
            left = {k: r for k, r in left.items() if (r["player"], r["start"]) != window}
        else:
            left[tuple(record[name] for name in key)] = record
    rows = [row(record) for record in left.values()]
    return sorted(rows, key=lambda each: (each["player"], str(each["window_start"])))
