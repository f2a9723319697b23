"""Windows in order of arrival as users write them: what is built, refused and printed."""

import builtins
import json
from typing import Any

import polars as pl
import pytest

from tests.support.local_results import by_topic, finished
from tests.support.mistakes import moves, refused
from tidemark import (
    Pipeline,
    col,
    collect,
    count,
    count_window,
    delta,
    every,
    global_window,
    max,  # noqa: A004
    on_close,
    on_final,
    on_update,
    punctuation,
    sum,  # noqa: A004
)
from tidemark.core.operators.ports import APPEND
from tidemark.runtime.keyed.encoders import encoder_of


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: count_window(0), "count_window(size): 0 is not a positive number of rows"),
        (lambda: count_window("10s"), "count_window(size): '10s' is not a positive number of rows"),  # type: ignore[arg-type]  # the mistake under test
        (lambda: count_window(5, 0), "count_window(slide): 0 is not a positive number of rows"),
        (lambda: count_window(5, 6), "count_window(slide): 6 is more than the size 5"),
        (lambda: count_window(5, order="time"), "count_window(order): 'time' is not one of ("),  # type: ignore[arg-type]  # the mistake under test
        (lambda: delta("score", -1), "delta(threshold): -1 is not a number from 0"),
        (lambda: delta("score", float("nan")), "delta(threshold): nan is not a number from 0"),
        (lambda: delta(col("score"), 1), "is not a column name"),  # type: ignore[arg-type]  # the mistake under test
        (lambda: punctuation(when="score"), "punctuation(when): 'score' is a str"),  # type: ignore[arg-type]  # the mistake under test
        (lambda: every(rows=0), "every(rows): 0 is not a positive integer"),
    ],
)
def test_a_window_that_means_nothing_is_refused(build, message):
    with refused(message):
        build()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda k: k.window(delta("scores", 1)), "the stream has no column 'scores'"),
        (lambda k: k.window(delta("player", 1)), "column 'player' is String, not integers or"),
        (lambda k: k.window(punctuation(when=col("score"))), "gives Int64, not one Boolean"),
        (
            lambda k: k.window(punctuation(when=col("score") > col("score").mean())),
            "looks at other rows",
        ),
        (lambda k: k.window(global_window()), "global_window() never closes; pass a trigger"),
        (
            lambda k: k.window(global_window(), trigger=on_final()),
            "global_window() never closes; pass a trigger",
        ),
        (
            lambda k: k.window(count_window(2), allowed_lateness="1s"),
            "windows by rows or by processing time do not wait for late rows",
        ),
        (
            lambda k: k.window(count_window(2), lateness="strict"),
            "windows by rows or by processing time do not wait for late rows",
        ),
        (
            lambda k: k.window(
                count_window(2, order="event_time"), trigger=every(processing_time="1s")
            ),
            'count_window(2, order="event_time") has panes by rows and event time only',
        ),
        (lambda k: k.window(count_window(2), trigger=on_update), "is not a trigger"),
        (lambda k: k.window(count_window(2)).aggregate(window=count()), "'window' clashes with"),
        (
            lambda k: k.window(global_window(), trigger=every(rows=1), accumulation="both"),
            "window(accumulation): 'both' is not one of",
        ),
        (lambda k: k.aggregate(), "aggregate(): no aggregates"),
        (lambda k: k.aggregate(n=sum("scores")), "no column 'scores'; did you mean"),
    ],
)
def test_a_mistake_is_named_where_it_is_made(build, message):
    keyed = moves().key_by("player")
    with refused(message):
        build(keyed)


def arriving():
    pipeline = Pipeline("game")
    keyed = moves(pipeline).key_by("player")
    best = {"n": count(), "best": max("score")}
    keyed.window(count_window(2)).aggregate(**best).to("pairs")
    keyed.window(count_window(3, 1), trigger=on_update()).aggregate(**best).to("last-3")
    keyed.window(delta("speed", 2.5)).aggregate(**best).to("bursts")
    keyed.window(delta("score", 2.5)).aggregate(**best).to("levels")
    keyed.window(punctuation(when=col("score") == 0)).aggregate(**best).to("games", format="avro")
    keyed.window(global_window(), trigger=every(rows=3)).aggregate(**best).to("thirds")
    keyed.aggregate(total=sum("score")).to("totals")
    return pipeline


def test_plans_describe_the_windows_and_leave_them_to_the_windowing_service():
    plan = arriving().plan()
    assert plan.services() == ("ingest", "windowing")
    assert [each.description.partition(" in ")[2] for each in plan.operators] == [
        "count_window(2)",
        "count_window(3, 1), every row",
        "delta(speed, 2.5)",
        "delta(score, 2)",
        'punctuation([(col("score")) == (dyn int: 0)])',
        "global_window(), every 3 rows",
        "global_window(), every row",
    ]
    assert plan.horizon_ms == 2_000


def test_a_discarding_global_window_is_cut_by_its_trigger():
    pipeline = Pipeline("game")
    keyed = moves(pipeline).key_by("player")
    for name, trigger in (("rows", every(rows=2)), ("steps", every(event_time="10s"))):
        windows = keyed.window(global_window(), trigger=trigger, accumulation="discarding")
        windows.aggregate(n=count()).to(name)
    assert [each.description for each in pipeline.plan().operators] == [
        "n=count() in count_window(2)",
        "n=count() in global_window(), every 10s of event time, discarding",
    ]
    written = results(pipeline, [move(at, 1) for at in (0, 9_000, 11_000, 12_000, 35_000)])
    assert [pane["n"] for pane in written["rows"]] == [2, 2]
    assert [pane["n"] for pane in written["steps"]] == [3, 2]


def test_other_discarding_windows_are_those_of_their_own_with_panes_of_what_is_new():
    pipeline = Pipeline("game")
    keyed = moves(pipeline).key_by("player")
    for name, window, trigger in (
        ("fours", count_window(4), every(rows=3)),
        ("near", delta("score", 5), every(rows=2)),
        ("clock", global_window(), every(processing_time="1s")),
        ("closed", count_window(2), on_close()),
    ):
        windows = keyed.window(window, trigger=trigger, accumulation="discarding")
        windows.aggregate(values=collect("score", order="arrival"), n=count()).to(name)
    plan = pipeline.plan()
    assert [
        (each.description.partition(" in ")[2], each.results.port.mode == APPEND)
        for each in plan.operators
    ] == [
        ("count_window(4), every 3 rows, discarding", True),
        ("delta(score, 5), every 2 rows, discarding", True),
        ("global_window(), every 1s of processing time, discarding", True),
        ("count_window(2)", False),
    ]
    written = results(pipeline, timeline())
    shown = {
        name: [(p["window"], p["revision"], p["final"], p["values"], p["n"]) for p in panes]
        for name, panes in written.items()
    }
    assert shown["fours"] == [(0, 3, False, [1, 2, 9], 3), (0, 4, True, [], 1)]
    assert shown["near"] == [
        (0, 2, False, [1, 2], 2),
        (0, 2, True, [], 0),
        (1, 2, False, [9], 2),
        (1, 3, True, [8], 1),
    ]


def test_triggers_go_with_windows_that_rows_close():
    pipeline = Pipeline("game")
    keyed = moves(pipeline).key_by("player")
    keyed.window(count_window(3), trigger=on_close(every(rows=2))).aggregate(n=count()).to("a")
    keyed.window(count_window(3), trigger=on_final()).aggregate(n=count()).to("b")
    keyed.window(global_window(), trigger=every(processing_time="1s")).aggregate(n=count()).to("c")
    assert [each.description for each in pipeline.plan().operators] == [
        "n=count() in count_window(3), on close, early every 2 rows",
        "n=count() in count_window(3), on final",
        "n=count() in global_window(), every 1s of processing time",
    ]
    written = results(pipeline, [move(at, 1) for at in range(4)])
    assert [pane["n"] for pane in written["a"]] == [2, 3]
    assert [pane["n"] for pane in written["b"]] == [3]


def test_marks_are_made_at_ingest_in_a_stream_of_their_own():
    plan = arriving().plan()
    plain, marked = plan.logs[0].streams
    assert set(marked.columns) - set(plain.columns) == {"@closes"}


def results(pipeline, lines, seed=None):
    _, written = finished(pipeline.plan(), {"moves": lines}, seed, every_pane=True)
    return {topic.removeprefix("game."): values for topic, values in by_topic(written).items()}


def lines():
    speeds = (1.0, 3.0, 9.0, None, 8.0)
    for n in range(60):
        yield move(1_000 * n, n % 7, "ab"[n % 2], speeds[n % 5])


def test_windows_in_order_of_arrival_run_without_kafka_whatever_the_cuts():
    written = results(arriving(), lines())
    assert [pane["window"] for pane in written["pairs"]] == sorted([*range(15)] * 2)
    assert written["pairs"][0] == {
        "player": "a", "window": 0, "start": 0, "end": 2_001, "revision": 2,
        "timing": "on_time", "final": True, "n": 2, "best": 2,
    }  # fmt: skip
    totals = written["totals"]
    assert len(totals) == 60
    assert totals[-1]["total"] == builtins.sum(n % 7 for n in range(1, 60, 2))
    assert (totals[-1]["revision"], totals[-1]["timing"], totals[-1]["final"]) == (
        30, "early", False,
    )  # fmt: skip
    assert results(arriving(), lines(), seed=3) == written


def test_the_key_of_a_message_is_the_key_and_the_number_of_the_window():
    plan = arriving().plan()
    for name in ("pairs", "games"):
        (operator,) = (each for each in plan.operators if each.operator.name == name)
        panes = pl.DataFrame(
            [("a", 7, 0, 11, 2, "on_time", True, False, 2, 5)],
            schema=["player", "window", "start", "end", "revision", "timing", "final", "retracted",
                    "n", "best"],
            orient="row",
        )  # fmt: skip
        encoder: Any = encoder_of(operator.results)
        keys, values = encoder.encode(panes)
        assert [*keys] == [b'["a",7]']
        shown = json.loads(values[0]) if name == "pairs" else encoder.avro.decode(values[0])
        assert (shown["player"], shown["window"], shown["start"]) == ("a", 7, 0)


def test_the_timeline_of_the_specification():
    """docs/semantics.md, "Windows in order of arrival"."""
    pipeline = Pipeline("game")
    keyed = moves(pipeline).key_by("player")
    totals = {"total": sum("score")}
    keyed.window(count_window(2)).aggregate(**totals).to("twos")
    keyed.window(count_window(4, 2)).aggregate(**totals).to("fours")
    keyed.window(punctuation(when=col("score") == 0)).aggregate(**totals).to("punctuation")
    keyed.window(delta("score", 5)).aggregate(**totals).to("delta")
    keyed.aggregate(**totals).to("rolling")
    written = results(pipeline, timeline())
    shown = {
        name: [f"#{p['window']} {p['start']}-{p['end']}" for p in panes]
        for name, panes in written.items()
    }
    assert shown["twos"] == ["#0 10-21", "#1 15-31", "#2 40-51"]
    assert shown["fours"] == ["#0 10-31", "#1 15-51"]
    assert shown["punctuation"] == ["#0 10-51"]
    assert shown["delta"] == ["#0 10-21", "#1 15-41"]
    assert [f"{p['total']} r{p['revision']}" for p in written["rolling"]] == [
        "1 r1", "3 r2", "12 r3", "12 r4", "20 r5", "20 r6",
    ]  # fmt: skip


def timeline():
    """Return the rows of the timeline of docs/semantics.md, "Windows in order of arrival"."""
    rows = zip((10, 20, 15, 30, 40, 50), (1, 2, 9, None, 8, 0), strict=True)
    return [move(at, score) for at, score in rows]


def move(at, score, player="a", speed=None):
    row = {"player": player, "at": at, "score": score, "speed": speed, "vip": None, "tags": None}
    return json.dumps(row).encode()
