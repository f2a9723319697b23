"""Sessions with a gap of each row's own: how they are written, and which rows die of it."""

import json

import polars as pl
import pytest

from tidemark import Pipeline, PipelineError, col, count, monotonic, session
from tidemark.core.windows.window import Session
from tidemark.local.run import LocalRun


def visits(gap, **options):
    pipeline = Pipeline("p", partitions=1)
    schema = {"user": str, "at": int, "gap": int, "wide": float}
    source = pipeline.source("visits", schema=schema, event_time="at", watermark=monotonic())
    sessions = source.key_by("user").window(session(gap, **options))
    sessions.aggregate(n=count()).to("out")
    return pipeline.plan()


def ran(plan, *rows):
    lines = [json.dumps({"user": "a", "at": at, "gap": gap}).encode() for at, gap in rows]
    run = LocalRun(plan)
    list(run.run({"visits": lines}))
    panes = run.published["out"].last("panes")
    shown = [] if panes.is_empty() else panes.select("start", "end", "n").rows()
    return shown, [f"{d.offset} {d.stage}: {d.reason}" for d in run.dead_letters]


def test_a_column_is_the_gap_of_each_row():
    assert ran(visits("gap"), (0, 10), (5, 30), (40, 1)) == ([(0, 35, 2), (40, 41, 1)], [])


def test_an_expression_is_the_gap_of_each_row_and_is_kept_as_a_column():
    plan = visits(col("gap") * 10)
    assert ran(plan, (0, 1), (5, 3), (40, 1)) == ([(0, 35, 2), (40, 50, 1)], [])
    (operator,) = plan.operators
    assert operator.operator.inputs[0].columns["session_gap_ms"] == pl.Int64
    assert operator.operator.body.windows == Session(86_400_000, "session_gap_ms")
    assert operator.description == "n=count() in session(session_gap_ms, max 1d), strict"


def test_a_row_without_a_gap_that_fits_is_a_dead_letter_and_moves_time():
    rows = ((0, 10), (1, None), (2, 0), (3, -5), (4, 60_001), (70_000, 60_000))
    panes, dead = ran(visits("gap", max_gap="1m"), *rows)
    assert panes == [(0, 10, 1), (70_000, 130_000, 1)]
    assert dead == [
        '1 session(col("gap")): session gap is null',
        '2 session(col("gap")): session gap of 0 ms is not longer than 0',
        '3 session(col("gap")): session gap of -5 ms is not longer than 0',
        '4 session(col("gap")): session gap of 60001 ms is longer than 1m',
    ]


@pytest.mark.parametrize(
    ("gap", "message"),
    [
        ("10 parsecs", "session.gap.: '10 parsecs' is not a duration: the stream has no column"),
        ("wide", "session.*: the gap is Float64, not Int64"),
        (col("wide") * 2, "session.*: the gap is Float64, not Int64"),
        (col("gap").max(), "looks at other rows"),
        ("-5s", "'-5s' is not longer than 0"),
    ],
)
def test_what_is_no_gap_is_refused(gap, message):
    with pytest.raises(PipelineError, match=message):
        visits(gap)


def test_the_name_of_the_gap_must_be_free():
    pipeline = Pipeline("p")
    schema = {"user": str, "at": int, "session_gap_ms": int}
    source = pipeline.source("visits", schema=schema, event_time="at", watermark=monotonic())
    keyed = source.key_by("user")
    keyed.window(session("session_gap_ms"))
    with pytest.raises(PipelineError, match="already; pass its name as gap"):
        keyed.window(session(col("session_gap_ms") + 1))
