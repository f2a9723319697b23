"""Services on Spark, in micro-batches: killed, given back, and no result differs."""

import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.kafka.support.stack import Replica, Stack, last_panes, move, wait_until
from tests.spark.support.live import caught_up
from tests.spark.support.replayed import claimed, work_until
from tidemark.commands.replay_view import diff_lines
from tidemark.spark.replay.jobs import diff
from tidemark.spark.services.driver import MicroBatchDriver, release

SPARK = {"TIDEMARK_SPARK_MASTER": "local[2]", "TIDEMARK_SPARK_MEMORY": "512m"}


def published(stack: Stack) -> int:
    return len(stack.results("pops")) + len(stack.results("sessions"))


def both(stacks: Iterable[Stack], begin: int, rounds: int) -> None:
    """Let several pipelines have the same records, with one among them that is no record."""
    for n in range(begin, begin + rounds):
        at = n * 4_000
        late = max(0, at - 40_000)
        records = [
            (p, None, move(f"p{k}", t)) for p in (0, 1) for k in (p, p + 2) for t in (at, late)
        ]
        for stack in stacks:
            stack.produce([*records, (n % 2, None, b"{no record")])
        time.sleep(0.15)


def end_spark(stack: Stack) -> None:
    """Tell the driver to stop, and wait until it has given all back."""
    process = stack.process("spark")
    process.terminate()
    assert process.wait() == 0, stack.log("spark")
    stack.processes.pop(Replica("spark"))


def await_more(stack: Stack, what: str, work: Callable[[], object] = lambda: None) -> None:
    """Wait for more results, which ``work`` may have to make."""
    seen = published(stack)

    def there() -> bool:
        work()
        return published(stack) > seen

    wait_until(there, what)


def await_log(stack: Stack, service: str, text: str) -> None:
    wait_until(lambda: text in stack.log(service), f"the refusal of {service}")


def refused(stack: Stack, *services: str) -> None:
    """Check that services do not start while their partitions are Spark's."""
    stack.start(*services)
    said = "Spark works on it; end 'tidemark run --on spark PIPELINE'"
    for service in services:
        await_log(stack, service, said)
        assert stack.process(service).wait() == 2
    stack.kill(*services)


def late_rows(stack: Stack) -> list[tuple[int, int, str]]:
    """Return which rows of which offsets were late, of all operators."""
    names = ("pops.late", "sessions.late")
    rows = [(name, row) for name in names for row in stack.results(name)]
    return sorted((row["partition"], row["offset"], name) for name, row in rows)


@pytest.mark.long
def test_a_pipeline_moves_between_services_and_spark_and_is_killed_there(broker, sessions, spark):
    with Stack(broker, "moved", 2) as stack, Stack(broker, "twin", 2) as twin:
        stacks = stack, twin
        keyed = stack.plan.services()[1:]
        stack.start()
        twin.start()
        both(stacks, 0, 8)
        wait_until(lambda: published(stack) > 0, "results of services")

        stack.stop(*keyed)
        stack.start("spark", **SPARK)
        both(stacks, 8, 6)
        await_more(stack, "results of Spark")
        end_spark(stack)

        stack.stop("ingest")
        stack.start("spark", **SPARK, TIDEMARK_SPARK_FROM="raw")
        both(stacks, 14, 6)
        await_more(stack, "results of raw records on Spark")
        both(stacks, 20, 3)
        stack.kill("spark")
        both(stacks, 23, 3)
        refused(stack, "ingest", "windowing")

        second = claimed(stack)
        await_more(stack, "results of the second driver", lambda: second.batch(spark))
        release(stack.config, stack.plan)

        stack.start()
        both(stacks, 26, 4)
        for each in stacks:
            caught_up(each)
            assert set(each.stop().values()) == {0}

        result = diff(stack.config, stack.plan, sessions, 1, from_raw=True)
        assert result.equal, "\n".join(diff_lines(result))
        dead = [(row["partition"], row["offset"]) for row in stack.results("dead-letters")]
        assert len(dead) == len(set(dead)) == 30
        assert late_rows(stack) == late_rows(twin)
        assert len(late_rows(stack)) > 10
        panes = [last_panes(each.results("pops"), "score") for each in stacks]
        assert panes[0] == panes[1]
        assert len(panes[0]) > 20


def holds_back(pid: int, number: int) -> bool:
    """Whether a process handles a signal: before that the signal would kill it."""
    status = Path(f"/proc/{pid}/status").read_text()
    (mask,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt")]
    return bool(int(mask, 16) >> (number - 1) & 1)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_driver_that_is_stopped_while_it_starts_gives_back_what_a_killed_one_had(broker):  # B9
    with Stack(broker, "given-back") as stack:
        MicroBatchDriver(stack.config, stack.admin, stack.plan).claim()  # and it is killed
        stack.start("spark", **SPARK)
        process = stack.process("spark")
        wait_until(lambda: holds_back(process.pid, signal.SIGTERM), "the handler")
        end_spark(stack)
        assert "was given back to its services" in stack.log("spark")
        stack.start("windowing")
        wait_until(lambda: "was given given-back.by-player" in stack.log("windowing"), "partitions")


@pytest.mark.long
def test_a_source_that_is_silent_on_spark_lets_windows_close(broker, sessions, spark, monkeypatch):
    monkeypatch.setenv("TEST_IDLE_AFTER", "1s")
    with Stack(broker, "silent", 2) as stack:
        driver = claimed(stack)
        stack.produce((0, None, move("ada", at)) for at in range(0, 60_000, 2_000))
        work_until(driver, spark, lambda: len(stack.results("pops")) == 6, "the last window")
        release(stack.config, stack.plan)
        result = diff(stack.config, stack.plan, sessions, 1, from_raw=True)

    assert result.equal, "\n".join(diff_lines(result))
