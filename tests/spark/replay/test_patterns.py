"""Patterns on Spark: services and a driver find them together, and replays equal them."""

import pytest

from tests.kafka.pipelines.chains import matched
from tests.kafka.rows.matches import in_process, on_kafka, produced, readings
from tests.kafka.support.chains import in_parts
from tests.kafka.support.stack import Stack
from tests.spark.support.replayed import assert_replays_equal, taken_over_by_spark


@pytest.mark.long
def test_replays_of_patterns_equal_what_services_and_spark_have_found(broker, sessions, spark):
    """A driver goes on from the changelogs of services; slices and raw topics give the same."""
    values = readings(seed=3, number=200)
    expected = in_process("matches-replayed", values, more=True)
    assert all(expected.values())
    parts = in_parts(values, 2)
    with Stack(broker, "matches-replayed", module=matched, options={"more": True}) as stack:
        taken_over_by_spark(
            stack, spark, parts, produced, "fires", lambda: on_kafka(stack) == expected
        )
        assert_replays_equal(stack, sessions)
