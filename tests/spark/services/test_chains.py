"""Chains on Spark: drivers, services and kills give the results of one process."""

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.pipelines.chains import chained
from tests.kafka.support.chains import (
    await_equal,
    ends_of,
    in_parts,
    in_process,
    moves,
    on_kafka,
    produced,
)
from tests.kafka.support.stack import Stack, wait_until
from tests.spark.support.home import spark_home
from tests.spark.support.replayed import claimed, work_until
from tidemark.commands.replay_view import diff_lines
from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.plan.names import progress_topic
from tidemark.runtime.client.consumer import Start
from tidemark.runtime.client.topics import topic_ids
from tidemark.runtime.keyed.announcements import mark_progress
from tidemark.spark.read.live_position import committed_positions
from tidemark.spark.replay.jobs import diff
from tidemark.spark.services import worker_daemon
from tidemark.spark.services.driver import MicroBatchDriver, release

OPTIONS: dict[str, Any] = {"partitions": 2}
UPDATES = {**OPTIONS, "updates": True}
SPARK = {"TIDEMARK_SPARK_MEMORY": "512m", "TIDEMARK_SPARK_FROM": "raw"}
REPEATS = "local[2,4]"
"""A local Spark that starts a task again, three times, as clusters do."""

EXECUTOR = "local-cluster[1,2,1024]"
"""A Spark whose executor is a JVM of its own."""


def stack_of(broker: str, name: str, options: Mapping[str, Any] = OPTIONS, /, **env: Any) -> Stack:
    return Stack(broker, name, module=chained, options=options, **env)


def work_until_equal(
    driver: MicroBatchDriver, spark, stack: Stack, expected: Mapping[str, Any]
) -> None:
    work_until(driver, spark, lambda: on_kafka(stack) == expected, f"the results of {stack.name}")
    await_equal(stack, expected)


@pytest.mark.long
def test_a_chain_moves_between_drivers_and_services(broker, sessions, spark):
    """The first driver leaves off before it writes the marks of a micro-batch."""
    values = moves(seed=11)
    parts = in_parts(values, 3)
    with stack_of(broker, "chains-moved") as stack:
        first = claimed(stack)
        produced(stack, next(parts))
        first._ingest.batch(spark)
        first._segments(spark)

        second = claimed(stack)
        with pytest.raises(Exception, match=r"FENCED|fenced"):
            first.batch(spark)
        wait_until(lambda: not second.batch(spark), "all marks")
        before = ends_of(stack)
        assert second.batch(spark) == 0
        assert ends_of(stack) == before
        with pytest.raises(StateError, match="Spark works on it"):
            owner_of_marks(stack)
        release(stack.config, stack.plan)
        owner_of_marks(stack)

        sums = len(stack.results("sums"))
        stack.start()
        produced(stack, next(parts))
        wait_until(lambda: len(stack.results("sums")) > sums, "sums of services")
        assert set(stack.stop().values()) == {0}

        third = claimed(stack)
        produced(stack, next(parts))
        work_until_equal(third, spark, stack, in_process(OPTIONS, values))
        result = diff(stack.config, stack.plan, sessions, 1)
        assert result.equal, "\n".join(diff_lines(result))


def owner_of_marks(stack: Stack) -> None:
    """Check that a service may own the progress topic of the first stage.

    Raises:
        StateError: it may not.
    """
    stage = stack.plan.derived[0].operator
    at = Partition(progress_topic(stack.name, stage), 0)
    (found,) = committed_positions(stack.config, stack.plan.group("windowing"), [at])
    start = Start(at, found.offset, found.metadata or "")
    mark_progress(start, topic_ids(stack.admin, [at.topic])[at.topic])


def await_commit_after(stack: Stack, values: list[bytes]) -> None:
    """Produce moves, and wait until a task has committed something to a log."""
    before = ends_of(stack)
    produced(stack, values)
    wait_until(lambda: ends_of(stack) != before, "a commit of a task")


def kill_below(pid: int, name: str) -> None:
    """Kill the processes below another one whose command line has a word that ends so."""
    for child, words in _below(pid):
        if any(word.endswith(name) for word in words):
            with suppress(OSError):  # it has ended
                os.kill(child, signal.SIGKILL)


def kill_workers(pid: int) -> None:
    """Kill the Python workers of Spark's JVM below a driver."""
    for daemon, words in _below(pid):
        if worker_daemon.__name__ in words:
            for worker in _children(daemon):
                with suppress(OSError):
                    os.kill(worker, signal.SIGKILL)


def _below(pid: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the processes below another one, each with the words of its command line."""
    for child in _children(pid):
        with suppress(OSError):
            yield child, Path(f"/proc/{child}/cmdline").read_text().split("\0")
        yield from _below(child)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for each in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, each.read_text().split())
    return found


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_chain_survives_that_tasks_and_driver_are_killed(broker, spark):
    values = moves(seed=12)
    parts = in_parts(values, 4)
    with stack_of(broker, "chains-killed-on-spark", **SPARK) as stack:
        stack.start("spark", TIDEMARK_SPARK_MASTER=REPEATS)
        process = stack.process("spark")
        for part in (next(parts) for _ in range(3)):
            await_commit_after(stack, part)
            kill_workers(process.pid)
        wait_until(lambda: stack.results("counts") != [], "counts")
        assert process.poll() is None, stack.log("spark")
        stack.kill("spark")
        produced(stack, next(parts))
        work_until_equal(claimed(stack), spark, stack, in_process(OPTIONS, values))


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_updates_survive_that_an_executor_is_killed(broker, tmp_path):
    """The JVM with the open transactions of its tasks ends.  Its master starts another one."""
    values = moves(seed=13, count=300)
    parts = in_parts(values, 3)
    home = {"SPARK_HOME": str(spark_home(tmp_path)), "SPARK_LOCAL_IP": "127.0.0.1"}
    with stack_of(broker, "updates-killed-on-spark", UPDATES, **SPARK, **home) as stack:
        stack.start("spark", TIDEMARK_SPARK_MASTER=EXECUTOR)
        process = stack.process("spark")
        for part in (next(parts) for _ in range(2)):
            await_commit_after(stack, part)
            kill_below(process.pid, "CoarseGrainedExecutorBackend")
        produced(stack, next(parts))
        await_equal(stack, in_process(UPDATES, values))
        assert process.poll() is None, stack.log("spark")
