"""Replays of chains of results that replace each other, from raw topics, to the bit."""

from typing import Any

import pytest

from tests.kafka.pipelines.chains import chained
from tests.kafka.support.chains import await_equal, in_parts, in_process, moves, produced
from tests.kafka.support.stack import Stack
from tests.spark.support.live import caught_up
from tidemark.commands.replay_view import diff_lines
from tidemark.spark.replay.jobs import ReplayInput, diff, replay

OPTIONS: dict[str, Any] = {"partitions": 2, "updates": True}


@pytest.mark.long
def test_a_replay_of_updates_equals_live_stage_by_stage(broker, sessions):
    values = moves(seed=7, count=300)
    with Stack(broker, "updates-replayed", 1, chained, OPTIONS) as stack:
        stack.start()
        for part in in_parts(values, 3):
            produced(stack, part)
            stack.await_partitions()
        await_equal(stack, in_process(OPTIONS, values))
        caught_up(stack)
        assert set(stack.stop().values()) == {0}
        result = diff(stack.config, stack.plan, sessions, 2, from_raw=True)
        assert result.equal, "\n".join(diff_lines(result))
        found = {topic.topic: topic for topic in result.topics}
        for derived in stack.plan.derived:
            for log in stack.plan.fed_by(derived):
                rows = found[f"rows of {derived.operator} in {log.topic}"]
                assert rows.left == rows.right > 10
        replay(stack.config, stack.plan, ReplayInput(from_raw=True), "topics", sessions, 2)
        for each in stack.plan.operators:
            for live in each.topics:
                assert sorted(stack.committed(f"{live}.replay")) == sorted(stack.committed(live))
