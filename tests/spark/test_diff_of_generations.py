"""A comparison looks at the present generation of results, and at operators that have caught up."""

import json

import pytest

from tests.kafka.support.changes import (
    Outputs,
    T,
    await_expected,
    await_whole,
    deployed,
    moves,
    published,
)
from tests.kafka.support.stack import Stack, wait_until
from tidemark.commands.replay_view import diff_lines
from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.runtime.client.consumer import LATEST, offsets
from tidemark.runtime.client.generations import newest_generations
from tidemark.runtime.client.offline_group import delete_records
from tidemark.runtime.keyed.fresh_start import Scope
from tidemark.runtime.keyed.reset import Reset
from tidemark.spark.replay.jobs import diff


@pytest.mark.long
def test_results_after_a_reset_of_one_operator_are_equal(broker, sessions):
    with deployed(broker, "compared", {"a": {}, "b": {}}, first=True) as stack:
        stack.start()
        moves(stack, 0, 100)
        await_expected(stack, "a", "b")
        assert set(stack.stop().values()) == {0}
        Reset(stack.config, stack.admin, Scope(stack.plan, only=("b",))).run()
        with pytest.raises(
            ConfigurationError, match="operator b has stopped, or has not caught up"
        ):
            diff(stack.config, stack.plan, sessions, 1)
        stack.start()
        in_log(stack, 100, 200)
        await_expected(stack, "a", "b")
        assert set(stack.stop().values()) == {0}
        result = diff(stack.config, stack.plan, sessions, 1)
        assert result.equal, "\n".join(diff_lines(result))
        assert sum(topic.left for topic in result.topics) > 60


def log_ends(stack: Stack) -> dict[Partition, int]:
    (log,) = stack.plan.logs
    return offsets(stack.admin, [Partition(log.topic, n) for n in (0, 1)], LATEST)


def in_log(stack: Stack, begin: int, end: int) -> None:
    """Produce moves, and wait until ingest has written a segment for them."""
    before = sum(log_ends(stack).values())
    moves(stack, begin, end)
    wait_until(lambda: sum(log_ends(stack).values()) > before, "a segment")


def last_start(stack: Stack, operator: str) -> int:
    panes = [json.loads(v) for each in published(stack, operator).values() for v in each]
    return max((pane["start"] for pane in panes), default=0)


@pytest.mark.long
def test_windows_that_lack_rows_are_in_neither_side(broker, sessions):
    with deployed(broker, "halved", {"a": {}}, first=True) as stack:
        stack.start("ingest")
        for begin in range(0, 200, 40):
            in_log(stack, begin, begin + 40)
        assert set(stack.stop().values()) == {0}
        delete_records(stack.admin, {at: end // 2 for at, end in log_ends(stack).items()})
    with deployed(broker, "halved", {"b": {"size": "7s"}, "s": {"gap": "2s"}}) as stack:
        stack.start()
        moves(stack, 200, 300)
        wait_until(
            lambda: min(last_start(stack, "b"), last_start(stack, "s")) >= T + 280_000, "new panes"
        )
        assert set(stack.stop().values()) == {0}
        found = newest_generations(stack.config, stack.admin, stack.plan.generations)
        assert any(each.lost_until_ms for each in found.values())
        result = diff(stack.config, stack.plan, sessions, 1)
        assert result.equal, "\n".join(diff_lines(result))
        assert sum(topic.left for topic in result.topics) > 60


@pytest.mark.long
def test_each_output_is_compared_by_its_recorded_log(broker, sessions):
    outputs: Outputs = {"a": {}, "c": {"least": 30, "size": "5s"}}
    with deployed(broker, "two-logs", {"a": {}}, first=True) as stack:
        stack.start()
        moves(stack, 0, 100)
        await_whole(stack, 100, {"a": {}})
        assert set(stack.stop().values()) == {0}
    for begin, names in ((100, "ca"), (200, "ac")):  # a new stream, then another order
        deployed_outputs = {name: outputs[name] for name in names}
        with deployed(broker, "two-logs", deployed_outputs) as stack:
            stack.start()
            moves(stack, begin, begin + 100)
            await_whole(stack, begin + 100, outputs)
            assert set(stack.stop().values()) == {0}
            assert len(stack.plan.logs) == 2
            for from_raw in (False, True):
                result = diff(stack.config, stack.plan, sessions, 1, from_raw=from_raw)
                assert result.equal, "\n".join(diff_lines(result))
                assert sum(topic.left for topic in result.topics) > 20
