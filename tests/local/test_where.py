"""Aggregates of some rows from records to results: bad rows are dead letters, no cut shows."""

import json
from typing import Any

import polars as pl
import pytest

from tests.support.local_results import finished
from tidemark import (
    Pipeline,
    col,
    count,
    monotonic,
    session,
    sliding,
    sum,  # noqa: A004
    tumbling,
)
from tidemark.local.run import LocalRun

LARGE = col("v").str.to_integer() > 3
RECORDS = [
    {"k": "a", "ts": 1, "v": "4"},
    {"k": "a", "ts": 2, "v": "x"},
    {"k": "a", "ts": 3, "v": None},
    {"k": "a", "ts": 4, "v": "2"},
    {"k": "b", "ts": 5, "v": "y"},
    {"k": "a", "ts": 40, "v": "5"},
]


def pipeline(window: Any = None, where: pl.Expr = LARGE) -> Pipeline:
    made = Pipeline("some", partitions=1)
    schema = {"k": str, "ts": int, "v": str}
    rows = made.source("in", schema=schema, event_time="ts", watermark=monotonic())
    panes = rows.key_by("k").window(window or tumbling("10ms"))
    panes.aggregate(n=count(), large=count(where=where), last=sum("ts", where=where)).to("out")
    return made


def results(made: Pipeline, seed: int | None = None) -> tuple[LocalRun, str]:
    lines = [json.dumps(record).encode() for record in RECORDS]
    run, written = finished(made.plan(), {"in": lines}, seed)
    return run, written.decode()


def test_a_row_on_which_where_fails_is_in_no_window_and_a_dead_letter_with_the_reason():
    run, text = results(pipeline())

    panes = run.published["out"].every("panes").select("k", "start", "revision", "n", "large")
    assert panes.rows() == [("a", 0, 3, 3, 1), ("a", 40, 1, 1, 1)]
    dead = run.published["out"].every("dead")
    assert dead.select("k", "v").rows() == [("a", "x"), ("b", "y")]
    assert "large=count(): where: ComputeError: strict integer parsing failed" in text


@pytest.mark.parametrize("window", [tumbling("10ms"), session("10ms"), sliding("10ms")])
def test_no_cut_shows(window):
    _, whole = results(pipeline(window))
    for seed in range(5):
        assert results(pipeline(window), seed)[1] == whole


def test_another_where_is_another_state():
    (first,), (second,) = (
        made.plan().operators for made in (pipeline(), pipeline(where=col("v") == "4"))
    )

    assert first.state_signature["aggregates"] != second.state_signature["aggregates"]
    assert pipeline().plan().fingerprint != pipeline(where=col("v") == "4").plan().fingerprint
