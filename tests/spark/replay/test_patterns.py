"""Patterns on Spark: services, a driver and a hand-over find them together, as a replay does."""

import pytest

from tests.kafka.pipelines.chains import matched
from tests.kafka.rows.matches import await_equal, in_process, on_kafka, produced, readings
from tests.kafka.support.chains import in_parts
from tests.kafka.support.stack import Stack
from tests.spark.support.live import caught_up
from tests.spark.support.replayed import assert_replay_equals, taken_over_by_spark
from tidemark.runtime.client.recorded_program import replayed_plan
from tidemark.spark.replay.jobs import ReplayInput, into_live


@pytest.mark.long
def test_services_spark_and_a_hand_over_find_patterns_together(broker, sessions, spark):
    """Each goes on with the partial matches of the one before; a replay gives the same."""
    values = readings(seed=3, number=300)
    expected = in_process("matches-replayed", values, more=True)
    assert all(expected.values())
    parts = in_parts(values, 3)
    with Stack(broker, "matches-replayed", module=matched, options={"more": True}) as stack:
        taken_over_by_spark(stack, spark, parts, produced, "fires", lambda: True)
        found = on_kafka(stack)
        plan = replayed_plan(stack.config, stack.admin, stack.compiled, from_raw=False)
        into_live(stack.config, plan, ReplayInput(), sessions, None, delete_results=True)
        assert on_kafka(stack) == found != expected
        stack.start()
        produced(stack, next(parts))
        await_equal(stack, expected)
        caught_up(stack)
        assert set(stack.stop().values()) == {0}
        assert_replay_equals(stack, sessions)
