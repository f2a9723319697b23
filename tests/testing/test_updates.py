"""Chains of results that replace each other: what stands at the end is what final results give.

docs/semantics.md, "Every result".
"""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.chain import Result, results
from tests.support.random_chains import (
    ACTIONS,
    DAYS,
    HOUR,
    SECOND,
    WINDOWS,
    build,
    happen,
    raw_rows,
    updating,
)
from tidemark import (
    Pipeline,
    PipelineError,
    bounded,
    col,
    count,
    count_window,
    every,
    first,
    on_close,
    on_update,
    processing_time,
    session,
    tumbling,
)
from tidemark import max as biggest
from tidemark import sum as total
from tidemark.language.keyed import KeyedStream
from tidemark.testing import InProcess


@given(
    st.one_of(
        st.tuples(st.just(SECOND), updating(WINDOWS, SECOND)),
        st.tuples(st.just(5 * HOUR), updating(DAYS, 5 * HOUR)),
    ),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 2),
    st.lists(ACTIONS, min_size=1, max_size=12),
)
def test_what_stands_at_the_end_is_what_final_results_give(
    chain, partitions, raw_partitions, actions
):
    unit_ms, stages = chain
    run = InProcess(build(stages, partitions, unit_ms), raw_partitions=raw_partitions)
    happen(run, actions, unit_ms)
    found = [
        Result(p.get("key"), p["start"], p["end"], p["n"], p["total"]) for p in run.panes("out")
    ]
    assert sorted(found, key=repr) == sorted(results(stages, raw_rows(run)), key=repr)
    highest: dict[tuple[object, int], int] = {}
    for pane in run.published("out") if stages[-2].after == "every" else ():
        window = pane.get("key"), pane["start"]
        assert pane["revision"] > highest.get(window, 0), pane
        highest[window] = pane["revision"]
    first = run.plan.operators[0]
    for topic, values in run._topics.items():
        assert not values or not topic.endswith(".late") or topic == f"chain.{first.name}.late"
    assert run.dead_letters() == []


def sent(pipeline: Pipeline, *rows: tuple[str, int, int]) -> InProcess:
    """Send rows (key, seconds, value), each alone, to a pipeline that reads ``rows``."""
    run = InProcess(pipeline)
    for key, at_s, value in rows:
        run.send("rows", {"key": key, "value": value, "at": at_s * SECOND})
    return run


def pipeline_of(bound: str = "0s") -> tuple[Pipeline, KeyedStream]:
    pipeline = Pipeline("updates", 1)
    schema = {"key": str, "value": int, "at": int}
    rows = pipeline.source("rows", schema=schema, event_time="at", watermark=bounded(bound))
    return pipeline, rows.key_by("key")


def test_the_timeline_of_the_docs():
    pipeline, keyed = pipeline_of()
    counts = keyed.window(tumbling("10s"), allowed_lateness="20s").aggregate(n=count())
    counts.updates().key_by().window(tumbling("20s")).aggregate(keys=count(), most=biggest("n")).to(
        "out"
    )
    rows = [("a", 1, 0), ("b", 2, 0), ("a", 12, 0), ("a", 5, 0), ("a", 22, 0), ("b", 3, 0)]
    run = sent(pipeline, *rows, ("b", 4, 0), ("a", 70, 0))
    first = [(p["keys"], p["most"], p["revision"]) for p in run.published("out") if not p["start"]]
    assert first == [(3, 2, 5), (3, 2, 7), (3, 3, 9)]


def test_a_row_goes_away_where_its_values_had_sent_it():
    """The count moves from one key to another, and leaves nothing behind."""
    pipeline, keyed = pipeline_of()
    counts = keyed.window(tumbling("10s"), allowed_lateness="20s").aggregate(n=count())
    by_count = counts.updates().filter(col("n") < 3).key_by("n").window(tumbling("20s"))
    by_count.aggregate(keys=count()).to("out")
    run = sent(pipeline, ("a", 1, 0), ("b", 2, 0), ("a", 25, 0), ("b", 3, 0))
    found = [(p["n"], p.get("keys"), p.get("retracted", False)) for p in run.published("out")]
    assert found == [(1, 2, False), (1, 1, False), (2, 1, False)]
    run.send("rows", *({"key": "b", "value": 0, "at": 3 * SECOND} for _ in "12"))
    assert [(p["n"], p["keys"]) for p in run.panes("out")] == [(1, 1)]
    retracted = run.published("out")[-1]
    assert (retracted["n"], retracted["retracted"], retracted["revision"]) == (2, True, 3)


def test_a_session_that_grows_leaves_the_window_that_it_was_in():
    """Its earlier pane is withdrawn while the window downstream accepts that, not at its end."""
    pipeline, keyed = pipeline_of()
    sessions = keyed.window(session("10s"), allowed_lateness="5s").aggregate(n=count())
    sessions.updates().key_by("key").window(tumbling("10s")).aggregate(n=total("n")).to("out")
    run = sent(pipeline, ("a", 0, 0), ("z", 12, 0), ("a", 9, 0), ("z", 18, 0), ("z", 60, 0))
    mine = [(p["start"], p["n"]) for p in run.panes("out") if p["key"] == "a"]
    assert mine == [(10 * SECOND, 2)]


def test_sessions_of_results_split_when_one_is_withdrawn():
    """Revisions grow all the same, so that a sink replaces the long session by the short one."""
    pipeline, keyed = pipeline_of()
    counts = keyed.window(tumbling("5s"), allowed_lateness="40s").aggregate(n=count())
    few = counts.updates().filter(col("n") < 2).key_by("key")
    few.window(session("6s")).aggregate(n=count()).to("out")
    run = sent(pipeline, ("a", 0, 0), ("a", 5, 0), ("a", 10, 0), ("z", 30, 0), ("a", 6, 0))
    mine = [p for p in run.published("out") if p["key"] == "a"]
    found = [(p["start"], p["end"], p["revision"], p.get("n")) for p in mine]
    assert found == [(4999, 20999, 3, 3), (4999, 10999, 4, 1), (14999, 20999, 1, 1)]


def test_a_refused_row_is_one_dead_letter_and_none_when_it_is_withdrawn():
    pipeline, keyed = pipeline_of()
    counts = keyed.window(tumbling("10s"), allowed_lateness="20s").aggregate(n=count())
    named = counts.updates().with_columns(who=pl.when(col("n") > 1).then(col("key")))
    named.key_by("who").window(tumbling("20s")).aggregate(m=count()).to("out")
    run = sent(pipeline, ("a", 1, 0), ("a", 11, 0), ("a", 2, 0), ("z", 90, 0))
    assert len(run.dead_letters()) == 2  # [0, 10) with one row, and [10, 20)
    assert [(p["who"], p["m"]) for p in run.panes("out")] == [("a", 1)]


WITHOUT_UPDATES = [
    (count_window(3), {}, "order of arrival"),
    (processing_time(tumbling("5s")), {}, "processing time"),
    (session("5s"), {"lateness": "after_merging"}, "after_merging"),
    (tumbling("5s"), {"empty": True}, "empty=True"),
    (tumbling("5s"), {"accumulation": "discarding"}, "discarding"),
]
"""Windows that neither publish nor read results that replace each other; with the reason."""


@pytest.mark.parametrize(
    ("windows", "options", "reason"),
    [
        *WITHOUT_UPDATES,
        (tumbling("5s"), {"trigger": every(processing_time="1s")}, "processing time"),
        (session("5s"), {"trigger": every(rows=2)}, "other bounds"),
        (session("5s"), {"trigger": on_close(early=on_update())}, "other bounds"),
    ],
)
def test_updates_of_panes_that_do_not_replace_each_other_are_refused(windows, options, reason):
    _, keyed = pipeline_of()
    results = keyed.window(windows, **options).aggregate(n=count())
    with pytest.raises(PipelineError, match=rf"updates\(\): .*{reason}"):
        results.updates()


@pytest.mark.parametrize(
    ("windows", "options", "reason"),
    [
        *WITHOUT_UPDATES,
        (tumbling("5s"), {"trigger": every(rows=2)}, "counts rows"),
        (tumbling("5s"), {"trigger": on_close(early=every(rows=2))}, "counts rows"),
    ],
)
def test_windows_that_cannot_take_back_a_row_are_refused(windows, options, reason):
    _, keyed = pipeline_of()
    rows = keyed.window(tumbling("5s")).aggregate(n=count()).updates()
    with pytest.raises(PipelineError, match=f"updates.*{reason}"):
        rows.key_by("key").window(windows, **options)


def test_rows_that_replace_each_other_are_only_read_by_windows():
    _, keyed = pipeline_of()
    results = keyed.window(tumbling("5s")).aggregate(n=count())
    rows = results.updates()
    for publish in (rows.to, rows.key_by("key").to):
        with pytest.raises(PipelineError, match=r"to\('x'\): rows of updates\(\)"):
            publish("x")
    with pytest.raises(PipelineError, match=r"union: rows of updates\(\)"):
        rows.union(results)
    with pytest.raises(PipelineError, match=r"distinct_by: rows of updates\(\)"):
        rows.key_by("key").distinct_by("n", within="1h")
    with pytest.raises(PipelineError, match=r"updates\(\) .*order of arrival"):
        rows.key_by("key").aggregate(n=count())
    windows = rows.key_by("key").window(tumbling("5s"))
    with pytest.raises(PipelineError, match=r"aggregate: rows of updates\(\)"):
        windows.aggregate(first=first("n", order="arrival"))
    assert rows.filter(col("n") > 1).union(rows.filter(col("n") < 2)).columns == rows.columns
