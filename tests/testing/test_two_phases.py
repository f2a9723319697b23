"""Aggregates of all rows in two phases publish what one task does, whatever the rows and cuts.

docs/semantics.md, "One key in two phases".
"""

from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tidemark import (
    Pipeline,
    bounded,
    calendar,
    col,
    count,
    count_distinct,
    first,
    hopping,
    last,
    latest,
    max_by,
    mean,
    min_by,
    on_close,
    on_final,
    quantile,
    stddev,
    top_k,
    tumbling,
    value_counts,
    variance,
)
from tidemark import max as greatest
from tidemark import min as least
from tidemark import sum as total
from tidemark.local.run import Cuts, LocalRun
from tidemark.testing import InProcess

SECOND = 1000
AGGREGATES = {
    "n": count(),
    "known": count("x"),
    "few": count(where=col("v") > 2),
    "v_sum": total("v"),
    "x_sum": total("x"),
    "some": total("x", where=col("v") != 3),
    "x_min": least("x"),
    "u_max": greatest("u"),
    "x_mean": mean("x"),
    "x_var": variance("x"),
    "v_dev": stddev("v"),
    "users": count_distinct("u", approximate=True),
    "mid": quantile("x", 0.5, approximate=True),
    "top": top_k("u", 2, by="v"),
    "tied": top_k("u", 2, by="v", ties=True, ranks=True),
    "first_u": first("u"),
    "last_x": last("x"),
    "low": min_by("u", by="x"),
    "high": max_by("x", by="v"),
    "newest": latest("u", "v"),
    "counts": value_counts("u", limit=3),
}
WINDOWS = st.sampled_from(
    (tumbling("10s"), tumbling("3s", "1s"), hopping("10s", "4s"), hopping("6s", "2s"))
)
LATENESS = st.sampled_from(("0s", "4s", "15s"))


def build(windows: Any, lateness: str, partitions: int, values: dict[str, Any]) -> Pipeline:
    pipeline = Pipeline("p", partitions)
    schema = {"u": str, "v": int, "x": float | None, "at": int}
    rows = pipeline.source("rows", schema=schema, event_time="at", watermark=bounded("2s"))
    trigger = on_close() if lateness == "0s" else on_final()
    keyed = rows.key_by().window(windows, allowed_lateness=lateness, trigger=trigger)
    keyed.aggregate(**values).to("out")
    return pipeline


def in_one_task() -> Any:
    return mock.patch("tidemark.plan.operators.stages.is_in_two_phases", return_value=False)


ROWS = st.tuples(
    st.sampled_from("abcd"),
    st.integers(0, 5),
    st.sampled_from((None, 0.1, 0.2, 1e16, -1e16, 3.5, float("nan"))),
    st.integers(-9, 6),
)
ACTIONS = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 2), st.lists(ROWS, min_size=1, max_size=6)),
    st.tuples(st.just("idle"), st.integers(0, 2), st.integers(10, 30)),
    st.tuples(st.just("crash"), st.just(0), st.just(0)),
)


def driven(pipeline: Pipeline, raw_partitions: int, actions: Any) -> InProcess:
    """Return a run after actions, and silence that closes all windows."""
    run = InProcess(pipeline, raw_partitions=raw_partitions)
    now = 0
    for action, at, what in actions:
        if action == "send":
            records = []
            for u, v, x, step in what:
                now += step
                text = "NaN" if x != x else x
                records.append({"u": u, "v": v, "x": text, "at": now * SECOND})
            run.send("rows", *records, partition=at % raw_partitions)
        elif action == "idle":
            run.idle("rows", f"{what}s", partition=at % raw_partitions)
        else:
            run.crash("windowing")
            run.restart("windowing")
    for partition in range(raw_partitions):
        run.idle("rows", "1h", partition=partition)
    return run


NAMES = st.lists(st.sampled_from([*AGGREGATES]), min_size=1, max_size=3, unique=True)


@fewer(4)
@given(
    WINDOWS | st.just(calendar("day", "UTC")),
    LATENESS,
    st.sampled_from((2, 4)),
    st.integers(1, 3),
    NAMES,
    st.lists(ACTIONS, min_size=1, max_size=12),
)
def test_two_phases_publish_what_one_task_does(
    windows, lateness, partitions, raw_partitions, names, actions
):
    values = {name: AGGREGATES[name] for name in names}
    run = driven(build(windows, lateness, partitions, values), raw_partitions, actions)
    assert [each.results.topic for each in run.plan.operators] == ["", "p.out"]
    with in_one_task():
        wanted = driven(build(windows, lateness, partitions, values), raw_partitions, actions)
    assert repr(run.published("out")) == repr(wanted.published("out"))
    found, expected = (sorted(map(repr, each.late("out"))) for each in (run, wanted))
    assert found == expected
    assert run.dead_letters() == wanted.dead_letters()


@fewer(4)
@given(WINDOWS, LATENESS, NAMES, st.lists(ROWS, min_size=1, max_size=60), st.integers(0, 99))
def test_neither_cuts_nor_partitions_change_the_results(windows, lateness, names, rows, seed):
    values = {name: AGGREGATES[name] for name in names}
    now, lines = 1000, []
    for u, v, x, step in rows:
        now += step
        text = b"null" if x is None or x != x else repr(x).encode()
        lines.append(b'{"u":"%s","v":%d,"x":%s,"at":%d}' % (u.encode(), v, text, now * SECOND))
    found, partials = [], []
    for partitions, cuts in ((1, None), (2, seed), (4, seed + 1)):
        run = LocalRun(build(windows, lateness, partitions, values).plan(), Cuts(cuts))
        list(run.run({"rows": lines}))
        panes = run.published["out"].last("panes").drop("end_of_input")
        first_phase = run.published[run.plan.operators[0].name]
        found.append((panes.rows(), first_phase.tally.late))
        partials.append(first_phase.every("panes").drop("end_of_input").rows())
    assert repr(found[0]) == repr(found[1]) == repr(found[2])
    assert repr(partials[1]) == repr(partials[2])  # of one raw partition, so of the same rows


def test_the_timeline_of_the_docs():
    pipeline = Pipeline("p", 2)
    rows = pipeline.source(
        "t", schema={"v": int, "at": int}, event_time="at", unit="s", watermark=bounded("0s")
    )
    rows.key_by().window(tumbling("10s")).aggregate(sum=total("v")).to("out")
    run = InProcess(pipeline, raw_partitions=2)
    for partition, at, v in ((0, 1, 3), (0, 4, 5), (1, 2, 1), (1, 11, 0)):
        run.send("t", {"at": at, "v": v}, partition=partition)
    assert run.published("out") == []
    run.send("t", {"at": 12, "v": 0}, partition=0)
    (pane,) = run.published("out")
    assert (pane["start"], pane["revision"], pane["sum"]) == (0, 3, 9)


def test_a_row_that_where_refuses_is_a_dead_letter_of_the_output():
    pipeline = Pipeline("p", 2)
    schema = {"u": str, "at": int}
    rows = pipeline.source("t", schema=schema, event_time="at", watermark=bounded("0s"))
    fits = col("u").str.to_integer() > 1
    rows.key_by().window(tumbling("1s")).aggregate(n=count(where=fits)).to("out")
    run = InProcess(pipeline)
    run.send("t", {"u": "2", "at": 1}, {"u": "x", "at": 2}, {"u": "3", "at": 3})
    run.idle("t", "1m")
    assert [each["n"] for each in run.published("out")] == [2]
    (letter,) = run.dead_letters()
    assert letter["stage"] == "out"
    assert "n=count()" in letter["reason"]


@pytest.mark.parametrize("on_stage", [False, True])
def test_results_of_two_phases_feed_other_operators(on_stage):
    pipeline = Pipeline("p", 3)
    schema = {"u": str, "v": int, "at": int}
    rows = pipeline.source("rows", schema=schema, event_time="at", watermark=bounded("2s"))
    if on_stage:
        rows = rows.key_by("u").window(tumbling("1s")).aggregate(v=total("v"))
    sums = rows.key_by().window(tumbling("10s")).aggregate(v=total("v"))
    sums.key_by().window(tumbling("1m")).aggregate(best=greatest("v"), v=total("v")).to("out")
    run = InProcess(pipeline, raw_partitions=2)
    records = [{"u": "abc"[n % 3], "v": n, "at": n * SECOND} for n in range(80)]
    for begin in range(0, 80, 20):
        for partition in range(2):
            run.send("rows", *records[begin + partition : begin + 20 : 2], partition=partition)
    for partition in range(2):
        run.idle("rows", "1h", partition=partition)
    assert [(each["best"], each["v"]) for each in run.published("out")] == [
        (sum(range(50, 60)), sum(range(60))),
        (sum(range(70, 80)), sum(range(60, 80))),
    ]
