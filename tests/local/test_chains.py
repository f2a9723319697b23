"""Chains of operators in one process: docs/semantics.md, "Chains"."""

import json

import polars as pl
import pytest

from tests.support.clicks import LINES, MINUTE, click, clicks
from tests.support.local_results import by_topic, finished
from tests.support.mistakes import refused
from tidemark import (
    Pipeline,
    bounded,
    col,
    count,
    count_window,
    hopping,
    on_close,
    processing_time,
    same,
    session,
    top_k,
    tumbling,
)
from tidemark import every as each_time
from tidemark import sum as total
from tidemark.local.view import summary
from tidemark.plan.explain import render_mermaid, render_text
from tidemark.testing import InProcess


def top_pipeline(partitions=2):
    pipeline = Pipeline("game", partitions)
    counts = clicks(pipeline).key_by("user").window(MINUTE).aggregate(n=count())
    counts.to("counts")
    hour = counts.filter(col("n") > 1).key_by().window(tumbling("1h"))
    hour.aggregate(top=top_k("user", 2, by="n"), n=total("n")).to("top")
    return pipeline


def results(pipeline, lines, seed=None):
    return by_topic(finished(pipeline.plan(), {"clicks": lines}, seed)[1])


def test_the_top_of_an_hour_is_made_of_counts_a_minute():
    (first,) = results(top_pipeline(), LINES)["game.top"]
    assert first == {
        "start": 0,
        "end": 3_600_000,
        "revision": 3,
        "timing": "on_time",
        "final": True,
        "top": [{"value": "ann", "by": 3}, {"value": "bob", "by": 2}],
        "n": 7,
    }


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_neither_cuts_nor_partitions_change_the_results(seed):
    lines = [click(f"u{n * n % 7}", n * n % 97 + n) for n in range(2000)]
    wanted = results(top_pipeline(), lines)
    assert results(top_pipeline(), lines, seed) == wanted
    assert results(top_pipeline(1), lines, seed) == wanted
    assert results(top_pipeline(4), lines) == wanted


def test_a_row_of_a_stage_that_wakes_behind_other_sources_is_late_and_not_lost():
    pipeline = Pipeline("p", 1)

    def source(topic):
        schema, delay = {"key": str, "at": int}, bounded("0s")
        return pipeline.source(
            topic, schema=schema, event_time="at", watermark=delay, idle_after="5s"
        )

    slow, fast = source("slow"), source("fast")
    counts = slow.key_by("key").window(tumbling("10s")).aggregate(n=count())
    both = counts.select("key").union(fast.select("key"))
    both.key_by("key").window(tumbling("10s")).aggregate(n=count()).to("out")
    run = InProcess(pipeline)
    run.send("slow", {"key": "x", "at": 3_000})
    run.idle("slow", "9s")
    run.send("fast", {"key": "x", "at": 100_000})
    run.send("slow", {"key": "x", "at": 21_000}, {"key": "x", "at": 60_000})
    run.send("fast", {"key": "x", "at": 200_000})
    (late,) = run._topics["p.out.late"]
    assert (late["start"], late["end"]) == (20_000, 30_000)


def test_a_stage_hands_on_a_window_once_whatever_is_published():
    pipeline = Pipeline("game", 2)
    early = on_close(early=each_time(rows=1))
    windows = (
        clicks(pipeline)
        .key_by("user")
        .window(MINUTE, allowed_lateness="1m", trigger=early, accumulation="discarding")
    )
    counts = windows.aggregate(n=count())
    counts.to("counts")
    counts.key_by("user").window(tumbling("1h")).aggregate(n=total("n"), rows=count()).to("hours")
    hours = {(each["user"], each["start"]): each for each in results(pipeline, LINES)["game.hours"]}
    assert (hours["ann", 0]["n"], hours["ann", 0]["rows"]) == (5, 2)


def test_the_columns_of_a_stage_are_key_bounds_and_values():
    pipeline = Pipeline("game", 1)
    counts = clicks(pipeline).key_by("user").window(MINUTE).aggregate(n=count())
    assert list(counts.columns) == ["user", "start", "end", "n"]
    assert counts.columns["start"] == pl.Datetime("ms", "UTC")
    minutes = counts.select("n", minute=col("start")).key_by("minute").window(tumbling("1m"))
    minutes.aggregate(users=count(), n=total("n")).to("minutes")
    first, *_ = results(pipeline, LINES)["game.minutes"]
    assert (first["users"], first["n"]) == (3, 6)
    assert first["minute"] == "1970-01-01T00:00:00.000Z"


def test_a_row_of_a_stage_that_an_operator_refuses_is_a_dead_letter():
    pipeline = Pipeline("game", 1)
    counts = clicks(pipeline).key_by("user").window(MINUTE).aggregate(n=count())
    named = counts.with_columns(who=col("user").replace("eve", None))
    named.key_by("who").window(MINUTE).aggregate(n=total("n")).to("named")
    found = results(pipeline, LINES)
    (letter,) = found["game.dead-letters"]
    assert letter["topic"] == "op:user.tumbling-1m.n"
    assert letter["reason"] == "key_by(who): null key"
    assert [each["who"] for each in found["game.named"]] == ["ann", "bob", "ann", "ann"]


def test_a_row_of_a_stage_that_one_reader_refuses_is_dead_for_all_readers():
    pipeline = Pipeline("game", 1)
    counts = clicks(pipeline).key_by("user").window(MINUTE).aggregate(n=count())
    counts.to("counts")
    counts.filter(col("n") > 0).to("rows")
    named = counts.with_columns(who=col("user").replace("eve", None))
    named.key_by("who").window(MINUTE).aggregate(n=total("n")).to("named")
    found = results(pipeline, LINES)
    assert len(found["game.dead-letters"]) == 1
    users = {
        topic: {each["user"] for each in found[f"game.{topic}"]} for topic in ("counts", "rows")
    }
    assert users == {"counts": {"ann", "bob", "eve"}, "rows": {"ann", "bob"}}


def test_several_operators_read_one_stage_and_stages_may_be_united():
    pipeline = Pipeline("game", 2)
    counts = clicks(pipeline).key_by("user").window(MINUTE).aggregate(n=count())
    groups = counts.select("n", group=col("user"))
    others = counts.filter(col("n") > 1).select("n", group=col("user"))
    for name, stream in (("all", groups), ("both", groups.union(others))):
        stream.key_by("group").window(tumbling("1h")).aggregate(n=total("n")).to(name)
    plan = pipeline.plan()
    assert [each.name for each in plan.operators] == ["user.tumbling-1m.n", "all", "both"]
    found = results(pipeline, LINES)
    assert [each["n"] for each in found["game.all"]] == [5, 2, 1, 1]
    assert [each["n"] for each in found["game.both"]] == [10, 4, 1, 1]


def test_a_dead_letter_shows_a_value_that_is_named_reason():
    pipeline = Pipeline("game", 1)
    counts = clicks(pipeline).key_by("user").window(MINUTE).aggregate(reason=count())
    named = counts.with_columns(who=col("user").replace("eve", None))
    named.key_by("who").window(MINUTE).aggregate(n=total("reason")).to("named")
    (letter,) = results(pipeline, LINES)["game.dead-letters"]
    assert letter["reason"] == "key_by(who): null key"
    assert json.loads(letter["value"])["reason"] == 1


def test_counts_have_the_results_that_operators_after_a_stage_refuse():
    pipeline = Pipeline("game", 1)
    counts = clicks(pipeline).key_by("user").window(MINUTE).aggregate(n=count())
    named = counts.with_columns(who=col("user").replace("eve", None))
    named.key_by("who").window(MINUTE).aggregate(n=total("n")).to("named")
    run, _ = finished(pipeline.plan(), {"clicks": LINES})
    first, *_ = (line for line in summary(run) if line.startswith("user.tumbling-1m.n"))
    assert first.endswith("; 1 panes failed")


@pytest.mark.parametrize(
    ("windowed", "message"),
    [
        (
            lambda s: s.key_by("user").window(count_window(2)),
            "windows in order of arrival, and running aggregates, end at no time",
        ),
        (lambda s: s.key_by("user"), "windows in order of arrival, and running aggregates"),
        (
            lambda s: s.key_by("user").window(processing_time(MINUTE)),
            "windows of processing time do not end in event time",
        ),
        (
            lambda s: s.key_by("user").window(session("1m"), lateness="after_merging"),
            'sessions with lateness="after_merging" accept rows of any age',
        ),
        (
            lambda s: s.key_by("user").window(MINUTE, empty=True),
            "empty=True publishes windows long after their end",
        ),
    ],
)
def test_results_that_never_become_final_are_only_published(windowed, message):
    counts = windowed(clicks(Pipeline("game"))).aggregate(n=count())
    with refused(message):
        counts.filter(col("n") > 1)
    with refused(message):
        counts.key_by("user")
    counts.to("counts")


def test_a_result_has_no_columns_of_a_kafka_record():
    pipeline = Pipeline("game", 1)
    counts = clicks(pipeline).key_by("user").window(MINUTE).aggregate(n=count())
    late = counts.filter(col("_offset") > 3)
    late.key_by("user").window(MINUTE).aggregate(n=count()).to("out")
    with refused("'_offset' is of a Kafka record, and results of operators do not have it"):
        pipeline.plan()


def test_a_plan_shows_the_chain():
    plan = top_pipeline().plan()
    text = render_text(plan)
    assert "results of user.tumbling-1m.n  <- 5" in text
    assert "results of top.partials-03e52d3c  <- 10" in text
    assert "windowing  game.by-user.log, game.unkeyed.log, game.by-all.log  game.counts" in text
    assert "  game.counts, game.top, game.unkeyed.log, game.by-all.log  6, 1 per log" in text
    ingest = "ingest     clicks                                               game.by-user.log, "
    assert f"{ingest}game.dead" in text
    assert "game.user.tumbling-1m.n.progress      1           what each partition has" in text
    assert 'n1["results of user.tumbling-1m.n"]' in render_mermaid(plan)


def test_rows_of_a_stage_are_published_as_they_are():
    pipeline = Pipeline("game", 2)
    counts = clicks(pipeline).key_by("user").window(MINUTE).aggregate(n=count())
    counts.filter(col("n") > 1).select("user", "n").to("many")
    found = results(pipeline, LINES)["game.many"]
    assert sorted((each["_event_time_ms"], each["user"], each["n"]) for each in found) == [
        (59_999, "ann", 3),
        (59_999, "bob", 2),
        (119_999, "ann", 2),
    ]
    ids = [each["_id"] for each in found]
    assert len(set(ids)) == len(ids)
    assert all(each.startswith("user.tumbling-1m.n-") for each in ids)
    with refused("to('all'): key_by() has no column; leave it out"):
        counts.key_by().to("all")


def test_the_results_of_one_hopping_window_are_together_again():
    pipeline = Pipeline("game", 2)
    hops = clicks(pipeline).key_by("user").window(hopping("1m", "20s")).aggregate(n=count())
    best = hops.key_by().window(same()).aggregate(top=top_k("user", 1, by="n"), users=count())
    best.to("best")
    found = results(pipeline, LINES)["game.best"]
    assert {each["end"] - each["start"] for each in found} == {60_000}
    assert [(each["end"], each["users"]) for each in found[:4]] == [
        (20_000, 1),  # the others were late for it
        (40_000, 1),
        (60_000, 3),
        (80_000, 1),
    ]
    assert found[3]["top"] == [{"value": "ann", "by": 3}]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s, "rows of a source have no window; use it on a stream of aggregate()"),
        (
            lambda s: s.key_by("user").window(session("1m")).aggregate(n=count()),
            "session(1m) has other windows for each key",
        ),
        (
            lambda s: (
                s.key_by("user")
                .window(MINUTE)
                .aggregate(n=count())
                .union(s.key_by("user").window(tumbling("1h")).aggregate(n=count()))
            ),
            "the rows are results of different windows: tumbling(1h), tumbling(1m)",
        ),
    ],
)
def test_windows_that_are_not_shared_cannot_be_kept(build, message):
    with refused(f"window(same()): {message}"):
        build(clicks(Pipeline("game"))).key_by("user").window(same())


def test_time_waits_and_horizons_add_up_along_the_path():
    pipeline = Pipeline("game", 1)
    schema = {"user": str, "at": int}
    rows = pipeline.source(
        "clicks", schema=schema, event_time="at", watermark=bounded("5s"), when_silent="wait"
    )
    counts = rows.key_by("user").window(MINUTE, allowed_lateness="10s").aggregate(n=count())
    counts.key_by().window(tumbling("1h")).aggregate(n=total("n")).to("hours")
    plan = pipeline.plan()
    assert [each.operator.advances for each in plan.operators] == [False, False]
    assert [each.holds_ms for each in plan.derived] == [10_000]
    assert plan.horizon_ms == 5_000 + 60_000 + 10_000 + 3_600_000
