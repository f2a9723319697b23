"""Late rows as a stream, replayed on Spark: from logs, in slices."""

import pytest

from tests.kafka.pipelines.chains import late
from tests.kafka.support.chains import produced
from tests.kafka.support.readings import readings
from tests.kafka.support.stack import Stack, wait_until
from tests.spark.support.live import caught_up
from tests.spark.support.replayed import assert_replay_equals


@pytest.mark.long
def test_a_replay_of_late_rows_equals_live(broker, sessions):
    with Stack(broker, "late-rows-replayed", module=late) as stack:
        stack.start()
        produced(stack, readings())
        wait_until(lambda: bool(stack.results("again")), "windows of late rows")
        caught_up(stack)
        assert set(stack.stop().values()) == {0}
        assert_replay_equals(stack, sessions, from_raw=False)
