"""Broadcast tables on Spark: slices of logs and of raw topics give what services have made."""

import pytest

from tests.kafka.broadcast.plant import (
    LATE_RULE,
    READINGS_END,
    RULES_END,
    SPLIT,
    in_process,
    on_kafka,
    produced,
    read_values,
    rule,
    rule_values,
)
from tests.kafka.pipelines.chains import ruled
from tests.kafka.support.stack import Stack, wait_until
from tests.spark.support.live import caught_up
from tests.spark.support.replayed import assert_replay_equals
from tidemark.runtime.client.recorded_program import replayed_plan
from tidemark.spark.replay.jobs import ReplayInput, into_live

RAW = {"ruled-replayed-readings": SPLIT, "ruled-replayed-rules": SPLIT}
TAKEN = {"ruled-taken-readings": SPLIT, "ruled-taken-rules": SPLIT}


@pytest.mark.long
def test_a_replay_of_broadcast_tables_equals_what_services_have_made(broker, sessions):
    readings, rules = read_values(seed=3), rule_values(seed=4)
    with Stack(broker, "ruled-replayed", RAW, ruled, {"arrival": True}) as stack:
        produced(stack, "rules", rules)
        stack.start()
        stack.await_partitions()
        produced(stack, "readings", [*readings, *[READINGS_END] * SPLIT])
        produced(stack, "rules", [RULES_END] * SPLIT)
        expected = in_process(readings, rules)
        wait_until(lambda: on_kafka(stack) == expected, "all alarms")
        produced(stack, "rules", [LATE_RULE])
        for name in ("alarms", "quiet", "at-once"):
            stack.await_results(f"{name}.late-right", bool)
        assert set(stack.stop().values()) == {0}
        assert_replay_equals(stack, sessions, from_raw=False)


@pytest.mark.long
def test_a_changed_join_with_a_broadcast_table_takes_over(broker, sessions):
    """The table keeps rules for less time; slices have a copy each, and services go on."""
    readings, rules = read_values(seed=5), rule_values(seed=6)
    half = len(readings) // 2
    with Stack(broker, "ruled-taken", TAKEN, ruled) as old:
        produced(old, "rules", rules)
        old.start()
        old.await_partitions()
        produced(old, "readings", readings[:half])
        produced(old, "rules", [rule("none", 130_000)] * SPLIT)
        wait_until(lambda: bool(old.results("alarms")), "alarms of services")
        caught_up(old)
        assert set(old.stop().values()) == {0}
    keep = "20s"
    rules += [rule("none", 130_000)]
    expected = in_process(readings, rules, keep)
    assert expected != in_process(readings, rules)
    with Stack(broker, "ruled-taken", TAKEN, ruled, {"keep": keep}) as new:
        plan = replayed_plan(new.config, new.admin, new.compiled, from_raw=False)
        into_live(new.config, plan, ReplayInput(), sessions, 2, delete_results=True)
        by_spark = on_kafka(new)
        assert all(0 < by_spark[name].total() < expected[name].total() for name in expected)
        assert all(by_spark[name] <= expected[name] for name in expected)
        new.start()
        produced(new, "readings", [*readings[half:], *[READINGS_END] * SPLIT])
        produced(new, "rules", [RULES_END] * SPLIT)
        wait_until(lambda: on_kafka(new) == expected, "all alarms")
        caught_up(new)
        assert set(new.stop().values()) == {0}
        assert_replay_equals(new, sessions)
