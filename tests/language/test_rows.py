"""``to`` on streams as users write it: rows without a window."""

import json
import re
from datetime import time

import polars as pl
import pytest

from tests.support.mistakes import moves, refused
from tidemark import Pipeline, bounded, col, count, tumbling
from tidemark import max as largest
from tidemark.commands.schemas import result_schemas
from tidemark.core.rows.expression import METADATA
from tidemark.plan.changes import signature_changes
from tidemark.plan.compile import compile_plan
from tidemark.plan.explain import render_mermaid, render_text
from tidemark.runtime.client.generations import result_columns
from tidemark.testing import InProcess


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.to("a b"), "to(name): 'a b' is not a legal topic name"),
        (lambda s: s.to("a", format="xml"), "to('a'): format 'xml' is not one of"),
        (lambda s: s.key_by("player").to("a", format="xml"), "to('a'): format 'xml' is not one"),
        (
            lambda s: s.with_columns(_sub_row=col("at")).to("a"),
            "to('a'): column '_sub_row' clashes with a field of every row; rename or drop it with",
        ),
        (
            lambda s: s.with_columns(_event_time_ms=col("at")).key_by("player").to("a"),
            "to('a'): column '_event_time_ms' clashes with a field of every row",
        ),
        (
            lambda s: s.with_columns(retracted=col("at")).to("a"),
            "to('a'): column 'retracted' clashes with a field of every row",
        ),
        (
            lambda s: s.with_columns(end_of_input=col("vip")).key_by("player").to("a"),
            "to('a'): column 'end_of_input' clashes with a field of every row",
        ),
        (
            lambda s: s.with_columns(end_of_input=col("at")).distinct_by("player", within="1m"),
            "distinct_by: column 'end_of_input' clashes with a field of every row",
        ),
        (
            lambda s: s.select(big=col("at").cast(pl.UInt64)).to("a", format="avro"),
            "Avro results cannot hold UInt64",
        ),
        (
            lambda s: s.select(times=pl.concat_list(pl.lit(time(12)))).to("a"),
            "to('a'): column 'times' is List(Time), which results cannot hold; cast it",
        ),
    ],
)
def test_a_mistake_is_refused_at_once(build, message):
    with refused(message):
        build(moves())


def test_two_outputs_may_not_have_one_name():
    stream = moves()
    stream.to("a")
    with refused("to('a'): the pipeline already has topic 'game.a'"):
        stream.key_by("player").to("a")


def test_fields_of_rows_that_are_metadata_are_names_that_no_column_can_have():
    assert {"_topic", "_partition", "_offset"} <= METADATA.keys()


def build(format="json"):  # noqa: A002
    pipeline = Pipeline("shop", partitions=4)
    orders = pipeline.source(
        "orders",
        schema={"at": int, "user": str, "items": list[str], "note": bytes},
        event_time="at",
        watermark=bounded("1s"),
    )
    items = orders.filter(col("user") != "nobody").explode("items")
    items.to("items", format=format)
    orders.key_by("user").to("by-user", format=format)
    orders.key_by("user").window(tumbling("1m")).aggregate(n=count()).to("counts")
    return pipeline


ORDERS = (
    {"at": 5_000, "user": "ann", "items": ["a", "b"], "note": "bm8="},
    {"at": 9_000, "user": "nobody", "items": ["c"], "note": "bm8="},
    {"at": 1_000, "user": "bob", "items": [], "note": "bm8="},
    {"at": 2_000, "user": "bob", "items": ["d"], "note": "bm8="},  # a minute late or not: no matter
)


@pytest.mark.parametrize("format", ["json", "avro"])
def test_each_row_is_published_with_its_place_and_time(format):  # noqa: A002
    with InProcess(build(format), raw_partitions=2) as run:
        run.send("orders", *ORDERS, partition=1)
        common = {"_topic": "orders", "_partition": 1}
        run.expect_published(
            "items",
            {"items": "a", "_offset": 0, "_sub_row": 0, "_event_time_ms": 5_000, **common},
            {"items": "b", "_offset": 0, "_sub_row": 1, "_event_time_ms": 5_000, **common},
            {"items": "d", "_offset": 3, "_sub_row": 0, "_event_time_ms": 2_000, **common},
        )
        found = run.published("by-user")
        assert {row["note"] for row in found} == {"bm8="}
        assert sorted(row["_offset"] for row in found) == [0, 1, 2, 3]
        assert run.late("items") == []
        run.crash("windowing")
        run.send("orders", *ORDERS[:1], partition=1)
        run.restart("windowing")
        assert [row["_offset"] for row in run.published("items")] == [0, 0, 3, 4, 4]


def test_rows_without_a_key_have_a_log_that_keeps_partitions():
    plan = build().plan()
    items, by_user, _ = plan.operators
    assert plan.services() == ("ingest", "windowing")
    assert [log.topic for log in plan.logs] == ["shop.unkeyed.log", "shop.by-user.log"]
    assert (items.log, items.topics, items.changelog) == (
        "shop.unkeyed.log",
        ("shop.items",),
        "shop.items.changelog",
    )
    assert by_user.log == "shop.by-user.log"
    assert items.results.port.message_key == ("_topic", "_partition", "_offset", "_sub_row")
    assert by_user.results.port.message_key == ("user",)
    assert items.operator.horizon_ms == 0


def test_a_plan_shows_rows():
    text = render_text(build().plan())
    for line in ("partitions kept", "rows  <-", "to items (json)", "shop.unkeyed.log"):
        assert line in text
    assert "partitions kept" in render_mermaid(build().plan())


def test_the_schema_of_rows_has_the_columns_and_the_fields_of_every_row():
    schema = result_schemas(build().plan())["shop.items"]
    assert [field["name"] for field in schema["fields"]] == [
        *("at", "user", "items", "note"),
        *("_topic", "_partition", "_offset", "_sub_row", "_event_time_ms"),
    ]
    json.dumps(schema)


def test_state_of_windows_is_not_that_of_rows_under_one_name():
    stream = moves().key_by("player")
    stream.window(tumbling("1m")).aggregate(n=count()).to("a")
    stream.to("b")
    windows, rows = stream.dataflow.outputs[0], stream.dataflow.outputs[1]
    (a, b) = (each.state_signature for each in compile_plan(stream.dataflow).operators)
    assert windows.inputs == rows.inputs
    assert signature_changes(a, b) == (
        "aggregates 'n=count()' is now 'absent'; results 'absent' is now 'rows'; "
        "types 'n: Int64' is now 'absent'; windows 'tumbling(1m)' is now 'absent'"
    )


def test_the_record_of_a_generation_has_all_columns_of_rows():
    (items, *_) = build().plan().operators
    assert result_columns(items).keys() == items.results.port.columns.keys()
    assert result_columns(items)["note"] == "String"


def test_results_of_windows_that_are_filtered_are_rows_of_their_stage():
    pipeline = Pipeline("shop", partitions=2)
    moved = moves(pipeline).key_by("player").window(tumbling("1m")).aggregate(n=count())
    moved.filter(col("n") > 1).to("busy")
    with InProcess(pipeline) as run:
        run.send("moves", *({"player": p, "at": at} for p, at in (("a", 1), ("b", 2), ("a", 3))))
        run.send("moves", {"player": "a", "at": 90_000})
        (row,) = run.published("busy")
    assert row.keys() == {"player", "start", "end", "n", "_id", "_event_time_ms"}
    assert (row["player"], row["n"], row["_event_time_ms"]) == ("a", 2, 59_999)
    assert re.fullmatch(r"player\.tumbling-1m\.n-[0-9]+-0", row["_id"])


def test_rows_of_raw_records_and_of_results_in_one_stream_have_an_id():
    pipeline = Pipeline("shop", partitions=2)
    rows = moves(pipeline)
    moved = rows.key_by("player").window(tumbling("1m")).aggregate(at=largest("at"))
    both = rows.select("player", "at").union(moved.select("player", "at"))
    both.to("both")
    kept = both.distinct_by("player", within="10s")
    kept.to("kept")
    with refused("to('odd'): column '_id' clashes with a field of every row"):
        both.with_columns(_id=col("at")).to("odd")
    with InProcess(pipeline) as run:
        run.send("moves", {"player": "a", "at": 1_000}, {"player": "a", "at": 90_000})
        run.idle("moves", "1h")
        found = {row["_id"].rpartition("-")[0].rpartition("-")[0] for row in run.published("both")}
        assert found == {"moves/0", "player.tumbling-1m.at"}
        for name in ("both", "kept"):
            ids = [row["_id"] for row in run.published(name)]
            assert len(set(ids)) == len(ids) > 1
