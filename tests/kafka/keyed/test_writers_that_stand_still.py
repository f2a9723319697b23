"""A process stands still, or is killed, while its rows for the log of others are not committed.

All readers of the log wait, also for rows that come from raw topics (docs/operations.md, "Chains").
"""

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from confluent_kafka import IsolationLevel

from tests.forked import stands_still
from tests.kafka.pipelines.chains import standing_still
from tests.kafka.support.chains import (
    Panes,
    await_equal,
    ends_of,
    in_parts,
    in_process,
    moves,
    produced,
)
from tests.kafka.support.stack import Replica, Stack, wait_until
from tidemark.partition import Partition
from tidemark.runtime.client.consumer import LATEST, ask_offsets

OPTIONS = {"partitions": 2}
TIMEOUT_S, CHECKED_S, LOADED_S = 10, 10, 60
"""The timeout of the transaction; the longest pause between checks of it; for a busy machine."""

NEVER_MS = "600000"
"""A timeout of the transaction that no test waits for."""


@contextmanager
def one_writer_stopped(broker: str, name: str, timeout_ms: str) -> Iterator[Stack]:
    """Yield a stack whose only windowing process has rows for the log in an open transaction."""
    first, second = in_parts(moves(seed=8), 2)
    with Stack(broker, name, module=standing_still, options=OPTIONS) as stack:
        stack.start("ingest", "sessions")
        stack.start("windowing", TEST_STALL="yes", TIDEMARK_TRANSACTION_TIMEOUT_MS=timeout_ms)
        stack.await_partitions()
        produced(stack, first)
        writer = stack.process("windowing")
        wait_until(lambda: stands_still(writer.pid), "the commit")
        assert held(stack)
        produced(stack, second)
        try:
            yield stack
        finally:
            writer.kill()


def held(stack: Stack) -> dict[Partition, int]:
    """Return where readers wait in the partitions of logs that have an open transaction."""
    ends = ends_of(stack)
    asked = ask_offsets(stack.admin, [*ends], LATEST, IsolationLevel.READ_COMMITTED)
    stable = {at: answer.result().offset for at, answer in asked.items()}
    return {at: stable[at] for at, end in ends.items() if stable[at] < end}


def expected() -> Mapping[str, Panes]:
    return in_process(OPTIONS, moves(seed=8))


@pytest.mark.parametrize("ending", ["frozen", pytest.param("killed", marks=pytest.mark.long)])
def test_readers_wait_until_the_timeout_of_the_transaction(broker, ending):
    """Another slot takes over.  What the writer does when it goes on has no effect."""
    with one_writer_stopped(broker, f"chains-{ending}", f"{TIMEOUT_S}000") as stack:
        waiting = held(stack).items()
        writer = stack.processes.pop(Replica("windowing"))
        if ending == "killed":
            writer.kill()
        stack.start("windowing", slot="1")
        most_s = TIMEOUT_S + CHECKED_S + LOADED_S
        wait_until(lambda: not waiting & held(stack).items(), "the end of the transaction", most_s)
        await_equal(stack, expected())
        if ending == "frozen":
            writer.send_signal(signal.SIGCONT)
            assert writer.wait() == 1
            await_equal(stack, expected())


def test_readers_go_on_at_once_when_the_slot_is_started_again(broker):
    """The new process of the slot ends the transaction, long before its timeout."""
    with one_writer_stopped(broker, "chains-slot-again", NEVER_MS) as stack:
        stack.start("windowing", TIDEMARK_TRANSACTION_TIMEOUT_MS=NEVER_MS)
        await_equal(stack, expected())
