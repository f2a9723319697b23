"""What a plan carries of a source's time, and how it is shown."""

from typing import Any

import pytest

from tidemark import Pipeline, bounded, col, count, from_expression, monotonic, punctuated, tumbling
from tidemark.plan.explain import render_text
from tidemark.plan.physical import Plan


def build(**options: Any) -> Plan:
    pipeline = Pipeline("game")
    settings = {"event_time": "at", "watermark": bounded("2s"), **options}
    moves = pipeline.source("moves", schema={"k": str, "at": int, "done": bool}, **settings)
    moves.key_by("k").window(tumbling("10s")).aggregate(n=count()).to("out")
    return pipeline.plan()


def test_the_clock_advances_by_silence_only_where_all_its_sources_may():
    pipeline = Pipeline("game")
    schema = {"k": str, "at": int}
    settings: dict[str, Any] = {"schema": schema, "event_time": "at", "watermark": monotonic()}
    one = pipeline.source("one", **settings)
    two = pipeline.source("two", **settings, when_silent="wait")
    for name, stream in {"one": one, "two": two, "both": one.union(two)}.items():
        stream.key_by("k").window(tumbling("10s")).aggregate(n=count()).to(name)

    operators = {plan.operator.name: plan.operator for plan in pipeline.plan().operators}
    assert {name: each.clocks().advances for name, each in operators.items()} == {
        "one": True,
        "two": False,
        "both": False,
    }


@pytest.mark.parametrize(
    "options",
    [
        {"min_time": "2000-01-01T00:00:00Z"},
        {"when_silent": "wait"},
        {"watermark": punctuated(when=col("done"))},
        {"watermark": from_expression(col("at"))},
        {"event_time": col("at") + 1},
        {"event_time": col("at") + 2},
    ],
)
def test_the_fingerprint_knows_every_option_of_time(options: dict[str, Any]):
    assert build(**options).fingerprint == build(**options).fingerprint != build().fingerprint


def test_alignment_changes_no_result_and_no_fingerprint():
    assert build(max_drift="5m").fingerprint == build().fingerprint


def test_the_options_of_time_are_shown():
    plan = build(
        event_time=col("at") + 1,
        watermark=punctuated(when=col("done")),
        min_time="2000-01-01T01:00:00+01:00",
        when_silent="wait",
        max_drift="5m",
    )

    assert (
        'event time [(col("at")) + (dyn int: 1)], watermark punctuated(col("done")), '
        "idle after 10s, waits when silent, min time 2000-01-01T00:00:00Z, max drift 5m"
    ) in render_text(plan)
    assert 'watermark from_expression(col("at"))' in render_text(
        build(watermark=from_expression(col("at")))
    )
    assert "watermark monotonic()" in render_text(build(watermark=monotonic()))
