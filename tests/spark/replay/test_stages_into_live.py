"""Hand-overs of late rows, updates and joins, on logs that ingest has filled after a reset."""

from typing import Any

import pytest

from tests.kafka.pipelines.chains import stages
from tests.kafka.support.chains import Panes, in_parts, moves, panes, produced
from tests.kafka.support.stack import Stack, wait_until
from tests.spark.support.live import caught_up
from tidemark.commands.replay_view import diff_lines
from tidemark.core.operators.ports import PANES
from tidemark.local.run import LocalRun
from tidemark.runtime.client.recorded_program import replayed_plan
from tidemark.runtime.keyed.fresh_start import Scope
from tidemark.runtime.keyed.reset import Reset
from tidemark.spark.replay.jobs import ReplayInput, diff, into_live

OUTPUTS = ("again", "sums", "pairs")
CHANGED: dict[str, Any] = {"least": 3}


def in_process(values: list[bytes], name: str) -> dict[str, Panes]:
    local = LocalRun(stages.build(name, **CHANGED).plan())
    list(local.run({f"{name}-moves": values}))
    return {each: panes(local.published[each].every(PANES).to_dicts()) for each in OUTPUTS}


def on_kafka(stack: Stack) -> dict[str, Panes]:
    return {name: panes(stack.results(name)) for name in OUTPUTS}


@pytest.mark.long
def test_stages_of_each_kind_take_over_after_a_whole_reset(broker, sessions):
    values, name = moves(seed=31, count=400), "stages-taken-over"
    first, second = in_parts(values, 2)
    expected = in_process(values, name)
    assert all(expected.values())
    with Stack(broker, name, module=stages) as old:
        old.start()
        produced(old, first)
        caught_up(old)
        assert set(old.stop().values()) == {0}
    with Stack(broker, name, 0, stages, CHANGED) as new:
        Reset(new.config, new.admin, Scope(new.plan, delete_results=True)).run()
        new.start("ingest")
        caught_up(new, "ingest")
        assert new.stop() == {"ingest": 0}
        plan = replayed_plan(new.config, new.admin, new.compiled, from_raw=False)
        into_live(new.config, plan, ReplayInput(), sessions, None)
        by_spark = on_kafka(new)
        assert all(0 < len(by_spark[each]) < len(expected[each]) for each in OUTPUTS)
        new.start()
        produced(new, second)
        wait_until(lambda: on_kafka(new) == expected, f"the results of {name}")
        caught_up(new)
        assert set(new.stop().values()) == {0}
        plan = replayed_plan(new.config, new.admin, new.compiled, from_raw=False)
        result = diff(new.config, plan, sessions, 1)
        assert result.equal, "\n".join(diff_lines(result))
