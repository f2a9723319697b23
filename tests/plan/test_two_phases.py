"""Which aggregates of all rows have two phases: docs/semantics.md, "One key in two phases"."""

from typing import Any

import pytest

from tidemark import (
    Pipeline,
    bounded,
    col,
    collect,
    count,
    count_distinct,
    count_window,
    every,
    first,
    on_close,
    on_final,
    processing_time,
    session,
    sliding,
    top_k,
    tumbling,
)
from tidemark.plan.changes import changes
from tidemark.plan.explain import render_text
from tidemark.plan.physical import Plan
from tidemark.plan.placement import placed
from tidemark.plan.program import program_of

TEN = tumbling("10s")
VALUES = {"n": count()}


def plan_of(
    window: Any = TEN, values: Any = None, partitions: int = 2, key: tuple[str, ...] = (), **options
) -> Plan:
    pipeline = Pipeline("p", partitions)
    schema = {"u": str, "v": int, "at": int}
    rows: Any = pipeline.source("rows", schema=schema, event_time="at", watermark=bounded("2s"))
    rows.key_by(*key).window(window, **options).aggregate(**(values or VALUES)).to("out")
    return pipeline.plan()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"window": session("5s")}, "only tumbling, hopping and calendar"),
        ({"window": sliding("5s")}, "only tumbling, hopping and calendar"),
        ({"window": count_window(3)}, "only tumbling, hopping and calendar"),
        ({"window": processing_time(TEN)}, "only tumbling, hopping and calendar"),
        ({"empty": True}, "empty=True"),
        ({"allowed_lateness": "5s"}, "the trigger publishes windows before they are final"),
        ({"trigger": on_close(early=every(rows=3))}, "the trigger publishes windows before"),
        ({"accumulation": "discarding"}, "discarding panes"),
        ({"values": {"d": count_distinct("u")}}, 'd=count_distinct("u") needs all rows'),
        ({"values": {"all": collect("u")}}, 'all=collect("u") needs all rows'),
        ({"values": {"t": top_k("u", 2)}}, 't=top_k("u", 2) needs all rows'),
        ({"values": {"f": first("u", order="arrival")}}, 'f=first("u", order="arrival")'),
    ],
)
def test_one_task_takes_all_rows_and_the_plan_says_why(options, reason):
    plan = plan_of(**options)
    assert [each.name for each in plan.operators] == ["out"]
    assert f"; one task takes all rows: {reason}" in render_text(plan)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"trigger": on_final()},
        {"trigger": on_final(), "allowed_lateness": "5s"},
        {"values": {"n": count(where=col("v") > 1), "t": top_k("u", 2, by="v")}},
    ],
)
def test_each_partition_folds_its_rows_and_one_task_merges_partials(options):
    plan = plan_of(**options)
    partials, out = plan.operators
    assert partials.name.startswith("out.partials-")
    assert (partials.topics, out.topics) == (("p.out.late",), ("p.out",))
    assert (partials.log, out.log) == ("p.unkeyed.log", "p.by-all.log")
    assert "one task" not in render_text(plan)


def test_one_partition_and_a_key_need_no_second_phase():
    for plan in (plan_of(partitions=1), plan_of(key=("u",))):
        assert [each.name for each in plan.operators] == ["out"]
        assert "one task" not in render_text(plan)


def test_an_output_that_changes_gets_other_partials_and_needs_only_a_reset_of_its_own():
    before, after = plan_of(), plan_of(values={"n": count("v")})
    recorded = program_of(before)
    now = placed(after, recorded)
    assert changes(recorded, program_of(now)) == []
    assert now.operators[0].name != before.operators[0].name
    assert now.operators[1].state_signature != before.operators[1].state_signature


def test_silence_and_windows_count_once_along_the_two_phases():
    (one,), two = (plan_of(partitions=number).operators for number in (1, 2))
    plan = plan_of()
    assert plan.path_horizon_ms(two[1]) == one.operator.horizon_ms + 1
    assert plan.sources[0].longest_window_ms == 10_000
