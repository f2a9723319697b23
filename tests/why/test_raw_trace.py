"""A record that gives no row: the operator that filters it, or its dead letter."""

import json

import polars as pl
import pytest

from tidemark import Pipeline, bounded, col, count, tumbling
from tidemark.errors import ConfigurationError
from tidemark.plan.physical import Plan
from tidemark.serde.records import RecordBatch
from tidemark.why.keys import typed_key
from tidemark.why.raw_trace import RawFate, RawTrace


def plan() -> Plan:
    pipeline = Pipeline("p")
    source = pipeline.source(
        "t",
        schema={"id": int, "at": int, "v": int},
        event_time="at",
        watermark=bounded("2s"),
    )
    kept = source.filter(col("v") > 0).with_columns(k=col("id") * 10).filter(col("k") != 50)
    kept.key_by("k").window(tumbling("10s")).aggregate(n=count()).to("out")
    source.filter(col("v") < 0).key_by("id").window(tumbling("10s")).aggregate(n=count()).to(
        "other"
    )
    return pipeline.plan()


def fates(key: str, *records: bytes, operator: str = "out") -> list[RawFate]:
    found = plan()
    chosen = next(each for each in found.operators if each.name == operator)
    log = found.log_of(chosen)
    trace = RawTrace(found, chosen.operator.streams, typed_key(key, log.key), key, (1_000, 2_000))
    return list(trace.take(RecordBatch.of_values("t", 0, 7, records, 0)))


def record(id_: int, v: int, at: int = 1_500) -> bytes:
    return json.dumps({"id": id_, "at": at, "v": v}).encode()


def test_the_filter_is_named_as_the_plan_names_it():
    (kept, filtered) = fates("50", record(5, 1), record(4, 1)), fates("40", record(4, 1))
    assert [(each.offset, each.event_time_ms, each.dead) for each in kept] == [(7, 1_500, None)]
    assert "filter" in kept[0].filtered_by
    assert "50" in kept[0].filtered_by
    assert [(each.offset, each.filtered_by) for each in filtered] == [(7, "")]


def test_a_filter_before_another_operator_and_of_another_stream_is_told_apart():
    (by_first,) = fates("5", record(5, 1), operator="other")
    assert "filter" in by_first.filtered_by
    assert fates("5", record(5, -1), operator="other")[0].filtered_by == ""


def test_records_of_other_times_and_keys_are_no_answer():
    assert fates("40", record(4, 1, at=999), record(4, 1, at=2_000), record(3, 1)) == []


def test_a_dead_letter_with_the_key_is_named_with_its_reason():
    (dead,) = fates("40", b'{"id": 40, "at": "x", "v": 1}', b"no")
    assert dead.dead is not None
    assert (dead.offset, dead.dead.stage) == (7, "parse")


@pytest.mark.parametrize(
    ("text", "types", "expected"),
    [
        ("x", {"a": "String"}, ["x"]),
        ("7", {"a": "String"}, ["7"]),
        ("7", {"a": "Int64"}, [7]),
        ('["x", 7]', {"a": "String", "b": "Int64"}, ["x", 7]),
        ("[null, true]", {"a": "String", "b": "Boolean"}, [None, True]),
    ],
)
def test_a_key_is_typed_as_its_columns(text, types, expected):
    columns = {name: getattr(pl, dtype)() for name, dtype in types.items()}
    key = typed_key(text, columns)
    assert key.row(0) == tuple(expected)
    assert key.schema == columns


@pytest.mark.parametrize("text", ["x", "[1", "[1]", '[1, "x"]', "{}"])
def test_a_text_that_is_no_key_is_refused_with_the_columns(text):
    with pytest.raises(ConfigurationError, match="--key"):
        typed_key(text, {"a": pl.String(), "b": pl.Int64()})
