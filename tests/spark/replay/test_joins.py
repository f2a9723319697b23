"""Joins of all kinds on Spark: services and a driver make them together, and replays equal them."""

import pytest

from tests.kafka.pipelines.chains import joined
from tests.kafka.support.chains import in_parts
from tests.kafka.support.joins.shop import await_equal, in_process, on_kafka, produced, records
from tests.kafka.support.stack import Stack, wait_until
from tidemark.commands.replay_view import diff_lines
from tidemark.spark.replay.jobs import diff
from tidemark.spark.services.driver import MicroBatchDriver, release


@pytest.mark.long
def test_replays_of_joins_equal_what_services_and_spark_have_made(broker, sessions, spark):
    """A driver goes on from the changelogs of services; slices and raw topics give the same."""
    values = records(seed=3, number=200)
    options = {"kinds": True, "semi": True}
    expected = in_process(values, **options)
    parts = in_parts(values, 2)
    with Stack(broker, "joined-replayed", module=joined, options=options) as stack:
        stack.start()
        produced(stack, next(parts))
        wait_until(lambda: bool(stack.results("all")), "results of services")
        assert set(stack.stop().values()) == {0}
        driver = MicroBatchDriver(stack.config, stack.admin, stack.plan, with_ingest=True)
        driver.claim()
        produced(stack, next(parts))

        def equal() -> bool:
            driver.batch(spark)
            return on_kafka(stack) == expected

        wait_until(equal, "the results of Spark")
        await_equal(stack, expected)
        wait_until(lambda: not driver.batch(spark), "all marks")
        release(stack.config, stack.plan)
        for slices, from_raw in ((3, False), (None, True)):
            result = diff(stack.config, stack.plan, sessions, slices, from_raw=from_raw)
            assert result.equal, "\n".join(diff_lines(result))
