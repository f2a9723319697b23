"""Rules on Spark: slices of raw topics give what services have found."""

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
from tests.kafka.support.stack import Stack, wait_until
from tests.spark.support.live import caught_up
from tests.spark.support.replayed import assert_replay_equals


@pytest.mark.long
def test_a_replay_of_rules_equals_what_services_have_found(broker, sessions):
    readings, rules = read_values(seed=3), rule_values(seed=4)
    expected, _ = in_process("rules-replayed", readings, rules)
    assert all(expected.values())
    with Stack(broker, "rules-replayed", module=rule_matches, options={"arrival": True}) as stack:
        produced(stack, "rules", rules)
        stack.start()
        stack.await_partitions()
        produced(stack, "readings", readings)
        ended(stack)
        wait_until(lambda: on_kafka(stack) == expected, "all matches")
        caught_up(stack)
        assert set(stack.stop().values()) == {0}
        assert_replay_equals(stack, sessions)
