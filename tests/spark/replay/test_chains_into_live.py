"""Hand-overs of chains: Spark writes the logs of stages anew, and live services go on there."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from tests.kafka.pipelines.chains import chained
from tests.kafka.support.chains import await_equal, in_parts, in_process, moves, on_kafka, produced
from tests.kafka.support.stack import Stack, wait_until
from tests.spark.support.live import caught_up
from tidemark.commands.replay_view import diff_lines
from tidemark.core.time.segment import Segment
from tidemark.errors import ConfigurationError, StateError
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.client.consumer import EARLIEST, committed_ends, offsets
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.client.recorded_program import replayed_plan
from tidemark.runtime.keyed.fresh_start import Scope, partitions_of
from tidemark.runtime.keyed.reset import Reset
from tidemark.serde.segments import encode_segment
from tidemark.spark.replay.handover import HandOver
from tidemark.spark.replay.jobs import ReplayInput, diff, into_live, replay
from tidemark.spark.replay.log_writer import LogWriter
from tidemark.spark.replay.new_logs import NewLogs
from tidemark.spark.stage_tasks import SEGMENT, placed_batch
from tidemark.spark.task_transaction import TaskTransaction

VALUES = moves(seed=21, count=200)
OPTIONS: dict[str, Any] = {"partitions": 2, "stages": 2, "mixed": True}


def chain(broker: str, name: str, **options: Any) -> Stack:
    return Stack(broker, name, module=chained, options={**OPTIONS, **options})


def plan_of(stack: Stack, *, from_raw: bool = False) -> Plan:
    return replayed_plan(stack.config, stack.admin, stack.compiled, from_raw=from_raw)


def ran(stack: Stack, values: list[bytes]) -> None:
    """Let the services work on values, to their end."""
    stack.start()
    produced(stack, values)
    caught_up(stack)
    assert set(stack.stop().values()) == {0}


def require_equal_replay(stack: Stack, sessions) -> None:
    result = diff(stack.config, plan_of(stack), sessions, 1)
    assert result.equal, "\n".join(diff_lines(result))


def fails(*_: object) -> None:
    raise StateError("the driver was killed")


@pytest.mark.long
def test_a_changed_stage_takes_over_although_the_command_fails_twice(
    broker, sessions, monkeypatch, tmp_path
):
    """The stage in the middle is another; the results are those of its program from the start."""
    first, second = in_parts(VALUES, 2)
    with chain(broker, "chains-taken-over") as old:
        ran(old, first)
    with chain(broker, "chains-taken-over", least=3) as new:
        plan, none = plan_of(new), ReplayInput()
        for where, name, delete_results in (
            (NewLogs, "_note_written", True),
            (HandOver, "_commit", False),
        ):
            with monkeypatch.context() as patched:
                patched.setattr(where, name, fails)
                with pytest.raises(StateError, match="driver was killed"):
                    into_live(new.config, plan, none, sessions, 2, delete_results=delete_results)
        new.start()
        statuses = {each.wait() for each in new.processes.values()}
        assert statuses == {2}
        assert all("a hand-over from Spark is under way" in text for _, text in new.logs())
        new.kill()
        with pytest.raises(ConfigurationError, match="a reset of one service or operator cannot"):
            Reset(new.config, new.admin, Scope(plan, "sessions"))

        into_live(new.config, plan, none, sessions, 2)
        by_spark = on_kafka(new)
        new.start()
        produced(new, second)
        expected = in_process({**OPTIONS, "least": 3}, VALUES)
        await_equal(new, expected)
        caught_up(new)
        assert set(new.stop().values()) == {0}

        assert all(0 < len(by_spark[name]) < len(expected[name]) for name in expected)
        logs = partitions_of(new.admin, [log.topic for log in plan.logs])
        assert all(offsets(new.admin, logs, EARLIEST)[at] > 0 for at in logs)
        require_equal_replay(new, sessions)
        place = f"parquet:{tmp_path / 'results'}"
        assert replay(new.config, plan_of(new), none, place, sessions, 2).outcomes


@pytest.mark.long
def test_the_same_chain_takes_over_what_its_services_left(broker, sessions):
    """The stages are behind ingest, so the logs lack their last rows; ``--from raw`` follows."""
    first, second, third = in_parts(VALUES, 3)
    with chain(broker, "chains-left") as stack:
        stack.start()
        produced(stack, first)
        caught_up(stack)
        assert set(stack.stop("windowing", "sessions").values()) == {0}
        produced(stack, second)
        caught_up(stack, "ingest")
        assert stack.stop("ingest")["ingest"] == 0
        into_live(stack.config, plan_of(stack), ReplayInput(), sessions, None, delete_results=True)
        into_live(
            stack.config,
            plan_of(stack, from_raw=True),
            ReplayInput(from_raw=True),
            sessions,
            None,
            delete_results=True,
        )
        stack.start()
        produced(stack, third)
        await_equal(stack, in_process(OPTIONS, VALUES))
        caught_up(stack)
        assert set(stack.stop().values()) == {0}
        require_equal_replay(stack, sessions)


def test_what_a_hand_over_of_a_chain_refuses_it_refuses_before_it_writes(broker):
    with chain(broker, "chains-refused") as stack:
        stack.start("ingest")
        stack.await_partitions()
        with pytest.raises(ConfigurationError, match=r"chains-refused\.ingest has members"):
            into_live(stack.config, stack.plan, ReplayInput(), _no_spark, 1)


def test_a_log_is_written_once_by_tasks_that_are_killed(broker, monkeypatch):
    """A task ends with an open transaction; the next one writes the rest, a third one nothing."""
    with Stack(broker, "logs-written", module=chained, options=OPTIONS) as stack:
        at = Partition(stack.plan.logs[0].topic, 0)
        writer = LogWriter(stack.config, f"{stack.name}.hand-over.logs", "run", (at,), 2**20)
        segments = [encode_segment(Segment(0, 0, (), {}, number, {})) for number in range(20)]

        def rows(end: int) -> Iterator[pa.RecordBatch]:
            for number, segment in enumerate(segments[:end]):
                yield placed_batch([(0, 2 * number, 1, 0, SEGMENT, 0, segment)])
            if end < len(segments):
                raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            for end, is_due, visible in ((7, True, 6), (12, False, 6), (15, True, 14)):
                patched.setattr(TaskTransaction, "is_due", is_due)
                with pytest.raises(KeyboardInterrupt):
                    list(writer(rows(end)))
                # The marker of a commit may follow its answer.
                wait_until(partial(_sees, stack, at, visible), f"{visible} segments")
        for _ in range(2):
            assert [batch.num_rows for batch in writer(rows(20))] == [1]
        assert [value for _, value in stack.committed(at.topic)] == segments


def _sees(stack: Stack, at: Partition, count: int) -> bool:
    """Whether readers of committed records see this number of records in a partition."""
    end = committed_ends(stack.admin, [at])[at]
    return len([*read(stack.config, {at: (0, end)})]) == count


def _no_spark():
    raise AssertionError("Spark was started")
