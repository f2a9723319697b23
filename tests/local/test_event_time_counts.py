"""Count windows in order of event time from records to results: the timeline of the page."""

import json

import polars as pl
import pytest

from tidemark import Pipeline, bounded, collect, count, count_window
from tidemark.local.run import Cuts, LocalRun

TIMES = [20, 10, 15, 31, 12, 50]


def run(partitions: int = 1, seed: int | None = None) -> LocalRun:
    pipeline = Pipeline("counts", partitions=partitions)
    schema = {"k": str, "ts": int}
    rows = pipeline.source("in", schema=schema, event_time="ts", watermark=bounded("10ms"))
    pairs = rows.key_by("k").window(count_window(2, order="event_time"))
    pairs.aggregate(n=count(), times=collect("ts")).to("pairs")
    made = LocalRun(pipeline.plan(), Cuts(seed))
    lines = [json.dumps({"k": key, "ts": ts}).encode() for ts in TIMES for key in ("a", "b")]
    list(made.run({"in": lines}))
    return made


def shown(made: LocalRun) -> list[object]:
    panes = made.published["pairs"].every("panes")
    return sorted(panes.select("k", "window", "start", "end", "times", "final").rows(), key=repr)


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_windows_count_the_rows_in_order_of_event_time(partitions, seed):
    made = run(partitions, seed)

    assert shown(made) == [
        (key, number, start, end, times, True)
        for key in ("a", "b")
        for number, start, end, times in ((0, 10, 16, [10, 15]), (1, 20, 32, [20, 31]))
    ]
    late = made.published["pairs"].every("late").select("ts", "start", "end")
    assert late.sort(pl.all()).rows() == [(12, 12, 13)] * 2


def test_the_plan_waits_for_one_millisecond_and_names_the_order():
    (operator,) = run().plan.operators

    assert operator.description.endswith('in count_window(2, order="event_time")')
    assert operator.operator.horizon_ms == 1
