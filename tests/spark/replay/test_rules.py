"""Rules on Spark: services, two drivers and a hand-over find them together, as a replay does."""

import pytest

from tests.kafka.broadcast.rooms import (
    ended,
    in_process,
    on_kafka,
    produced,
    read_values,
    rule_values,
)
from tests.kafka.pipelines.chains import rule_matches
from tests.kafka.support.chains import in_parts
from tests.kafka.support.stack import Stack, wait_until
from tests.spark.support.live import caught_up
from tests.spark.support.replayed import assert_replay_equals, taken_over_by_spark
from tidemark.runtime.client.recorded_program import replayed_plan
from tidemark.spark.replay.jobs import ReplayInput, into_live

Part = tuple[list[bytes], list[bytes]]


def with_rules(stack: Stack, part: Part) -> None:
    readings, rules = part
    produced(stack, "rules", rules)
    produced(stack, "readings", readings)


@pytest.mark.long
def test_services_spark_and_a_hand_over_find_rules_together(broker, sessions, spark):
    """Each goes on with rules and partial matches of the one before; a replay gives the same."""
    readings, rules = read_values(seed=3), rule_values(seed=4)
    expected, _ = in_process("rules-replayed", readings, rules)
    assert all(expected.values())
    parts = zip(in_parts(readings, 3), in_parts(rules, 3), strict=True)
    with Stack(broker, "rules-replayed", module=rule_matches, options={"arrival": True}) as stack:
        taken_over_by_spark(stack, spark, parts, with_rules, "found", lambda: True)
        found = on_kafka(stack)
        assert all(0 < found[name].total() < expected[name].total() for name in expected)
        plan = replayed_plan(stack.config, stack.admin, stack.compiled, from_raw=False)
        into_live(stack.config, plan, ReplayInput(), sessions, None, delete_results=True)
        assert on_kafka(stack) == found
        stack.start()
        with_rules(stack, next(parts))
        ended(stack)
        wait_until(lambda: on_kafka(stack) == expected, "all matches")
        caught_up(stack)
        assert set(stack.stop().values()) == {0}
        assert_replay_equals(stack, sessions)
