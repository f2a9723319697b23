"""Rows in order of event time, replayed on Spark: from raw topics, in slices."""

import pytest

from tests.kafka.pipelines.chains import in_order
from tests.kafka.support.chains import produced
from tests.kafka.support.readings import readings
from tests.kafka.support.stack import Stack, wait_until
from tests.spark.support.live import caught_up
from tests.spark.support.replayed import assert_replay_equals


@pytest.mark.long
def test_a_replay_of_rows_in_order_equals_live(broker, sessions):
    with Stack(broker, "in-order-replayed", module=in_order) as stack:
        stack.start()
        produced(stack, readings(300))
        wait_until(lambda: bool(stack.results("rising")), "windows after the rows")
        caught_up(stack)
        assert set(stack.stop().values()) == {0}
        assert_replay_equals(stack, sessions)
