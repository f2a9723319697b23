"""Broadcast tables on Spark: slices and raw topics give what services have made."""

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
    rule_values,
)
from tests.kafka.pipelines.chains import ruled
from tests.kafka.support.stack import Stack, wait_until
from tests.spark.support.replayed import assert_replays_equal

RAW = {"ruled-replayed-readings": SPLIT, "ruled-replayed-rules": SPLIT}


@pytest.mark.long
def test_replays_of_broadcast_tables_equal_what_services_have_made(broker, sessions):
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
        assert_replays_equal(stack, sessions)
