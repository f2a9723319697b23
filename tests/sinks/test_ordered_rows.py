"""Rows in order of event time as every sink gets them, from topics in JSON and in Avro."""

import json
from typing import Any

import polars as pl
import pytest

from tests.sinks.places import CASES, PLACES, deliver, in_columns, plain
from tidemark import Pipeline, bounded, col, cum_sum, diff, prev
from tidemark.core.operators.ports import LATE, ROWS
from tidemark.core.operators.rows import IDENTITY
from tidemark.core.rows.schema import INSTANT
from tidemark.local.run import LocalRun
from tidemark.plan.logical import Format
from tidemark.runtime.keyed.encoders import encoder_of
from tidemark.sinks.table import tables_of

RECORDS = [
    {"id": "a", "sensor": "s", "at": 1_000, "v": 4, "tags": ["x", None], "box": {"w": 1.5}},
    {"id": "b", "sensor": "s", "at": 3_000, "v": None, "tags": [], "box": None},
    {"id": "a", "sensor": "s", "at": 2_000, "v": 9, "tags": None, "box": {"w": None}},
    {"id": "c", "sensor": "t", "at": 9_000, "v": -1, "tags": ["z"], "box": {"w": 2.0}},
    {"id": "d", "sensor": "s", "at": 500, "v": 7, "tags": ["late"], "box": {"w": 0.5}},
    {"id": "a", "sensor": "s", "at": 9_500, "v": 5, "tags": ["y"], "box": {"w": 3.25}},
    {"id": "e", "sensor": "t", "at": 90_000, "v": 0, "tags": ["end"], "box": {"w": 9.0}},
]

OFFSETS = {"once": [0, 1, 3, 5, 6], "scanned": [0, 1, 2, 3, 5, 6]}
"""Of the records that are published, in the order of their places."""


def build(format_: Format) -> Pipeline:
    pipeline = Pipeline("ordered", partitions=1)
    rows = pipeline.source(
        "moves",
        schema={
            "id": str, "sensor": str, "at": int, "v": int, "tags": list[str], "box": {"w": float},
        },
        event_time="at",
        watermark=bounded("1s"),
    ).with_columns(
        body=col("id").cast(pl.Binary),
        euros=col("v").cast(pl.Decimal(10, 2)),
        day=pl.from_epoch(col("at"), "ms").dt.date(),
        made=pl.from_epoch(col("at"), "ms").dt.replace_time_zone("UTC").cast(INSTANT),
    )  # fmt: skip
    rows.distinct_by("id", within="5s").to("once", format=format_)
    rows.key_by("sensor").scan(
        before=prev("v"),
        euros_before=prev("euros"),
        box_before=prev("box"),
        delta=diff("made"),
        total=cum_sum("euros"),
    ).to("scanned", format=format_)
    return pipeline


@pytest.mark.parametrize(("name", "format_"), CASES)
def test_rows_in_order_and_their_late_rows_reach_every_sink(tmp_path, name, format_):
    place = PLACES[name]
    plan = build(format_).plan()
    tables = {table.topic: table for table in tables_of(plan)}
    local = LocalRun(plan)
    list(local.run({"moves": [json.dumps(each).encode() for each in RECORDS]}))
    for operator in plan.operators:
        published = {each.port.name: each for each in operator.ports}
        rows, late = (local.published[operator.name].every(port) for port in (ROWS, LATE))
        table = tables[published[ROWS].topic]
        assert table.key == tuple(IDENTITY)
        held = deliver(place(tmp_path), table, *encoder_of(published[ROWS]).encode(rows))
        assert held == plain(in_columns(rows, table).to_dicts(), table)
        assert [row["_offset"] for row in held] == OFFSETS[operator.name]
        late_table = tables[published[LATE].topic]
        (row,) = deliver(place(tmp_path), late_table, *encoder_of(published[LATE]).encode(late))
        assert (row["raw_offset"], row["late_by_ms"]) == (4, 7_499)
        assert as_json(row["row"])["tags"] == ["late"]


def as_json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value
