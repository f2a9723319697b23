"""Joins, replayed on Spark: in slices, from the log and from raw."""

import pytest

from tests.kafka.pipelines.chains import joined
from tests.kafka.support.shop import await_equal, in_process, produced, records
from tests.kafka.support.stack import Stack
from tests.spark.support.live import caught_up
from tidemark.commands.replay_view import diff_lines
from tidemark.spark.replay.jobs import diff


@pytest.mark.long
def test_replays_of_joins_equal_live(broker, sessions):
    values = records(seed=3, number=200)
    with Stack(broker, "joined-replayed", module=joined) as stack:
        stack.start()
        produced(stack, values)
        await_equal(stack, in_process(values))
        caught_up(stack)
        assert set(stack.stop().values()) == {0}
        for slices, from_raw in ((3, False), (None, True)):
            result = diff(stack.config, stack.plan, sessions, slices, from_raw=from_raw)
            assert result.equal, "\n".join(diff_lines(result))
