"""Which stages a replay reads from the logs, and which it cannot take from there."""

from typing import Any

import pytest

from tidemark import Pipeline, bounded, col, count, tumbling
from tidemark import sum as total
from tidemark.plan.physical import Plan
from tidemark.plan.placement import placed
from tidemark.plan.program import Program, program_of
from tidemark.runtime.client.generations import Generation, Key
from tidemark.spark.read.recorded_stages import changes_of_stages

MINUTE = "user.tumbling-1m.n-s"


def build(
    least: int = 0, value: str = "score", lateness: str = "0s", passed: int = 0, hour: str = "1h"
) -> Pipeline:
    pipeline = Pipeline("game", 1)
    schema = {"user": str, "score": int, "bonus": int, "at": int}
    clicks: Any = pipeline.source("clicks", schema=schema, event_time="at", watermark=bounded("0s"))
    clicks = clicks.filter(col("score") > passed)
    minutes = clicks.key_by("user").window(tumbling("1m"), allowed_lateness=lateness)
    found = minutes.aggregate(n=count(), s=total(value)).filter(col("n") > least)
    tens = found.key_by("user").window(tumbling("10m")).aggregate(n=total("n"))
    hours = tens.key_by().window(tumbling(hour)).aggregate(n=total("n"))
    hours.to("hours")
    hours.key_by().window(tumbling("24h")).aggregate(n=total("n")).to("days")
    return pipeline


def recorded() -> tuple[Program, dict[Key, Generation]]:
    plan = build().plan()
    generations = {
        (each.name, number): Generation(
            each.name, number, signature=dict(each.state_signature), log=each.log
        )
        for each in plan.operators
        for number in range(1)
    }
    return program_of(plan), generations


def changed(plan: Plan) -> dict[str, str]:
    program, generations = recorded()
    return changes_of_stages(placed(plan, program, replays=True), program, generations)


def test_rows_of_the_same_program_come_from_the_logs():
    assert changed(build().plan()) == {}


def test_a_change_before_the_log_is_no_change_of_a_stage():
    assert changed(build(passed=3).plan()) == {}


@pytest.mark.parametrize(
    ("options", "stage", "why"),
    [
        ({"value": "bonus"}, MINUTE, "aggregates 'n=count()"),
        ({"lateness": "5s"}, MINUTE, "allowed lateness 5s"),
        ({"least": 2}, MINUTE, "the choice of rows was"),
        ({"hour": "2h"}, "all.tumbling-2h.n", "it is new"),
    ],
)
def test_a_changed_stage_is_found_with_those_after_it(options, stage, why):
    found = changed(build(**options).plan())
    stages = [each.operator for each in build(**options).plan().derived]
    assert list(found) == stages[stages.index(stage) :]
    assert why in found[stage]
    for before, after in zip(list(found)[:-1], list(found)[1:], strict=True):
        assert found[after].startswith(f"it reads results of {before}")
