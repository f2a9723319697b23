"""Joins of all kinds on Spark: services and a driver make them, and a replay equals them."""

import pytest

from tests.kafka.pipelines.chains import joined
from tests.kafka.support.chains import in_parts
from tests.kafka.support.joins.shop import in_process, on_kafka, produced, records
from tests.kafka.support.stack import Stack
from tests.spark.support.replayed import assert_replay_equals, taken_over_by_spark


@pytest.mark.long
def test_a_replay_of_joins_equals_what_services_and_spark_have_made(broker, sessions, spark):
    """A driver goes on from the changelogs of services; slices of the log give the same."""
    values = records(seed=3, number=200)
    options = {"kinds": True, "semi": True}
    expected = in_process(values, **options)
    assert all(expected.values())
    parts = in_parts(values, 2)
    with Stack(broker, "joined-replayed", module=joined, options=options) as stack:
        taken_over_by_spark(
            stack, spark, parts, produced, "all", lambda: on_kafka(stack) == expected
        )
        assert_replay_equals(stack, sessions, from_raw=False)
