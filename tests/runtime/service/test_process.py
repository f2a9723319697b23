"""The loop of a process, around a member that calls back while it reads."""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from confluent_kafka import Message, TopicPartition

from tidemark.runtime.config import Config
from tidemark.runtime.service.batch_sizer import BatchSizer
from tidemark.runtime.service.commit_interval import CommitInterval
from tidemark.runtime.service.commit_wait import CommitWait
from tidemark.runtime.service.health import Health
from tidemark.runtime.service.process import Process
from tidemark.runtime.service.reading_stall import ReadingStall
from tidemark.runtime.service.telemetry import Telemetry

FIRST, SECOND = (Message(topic="t", partition=0, offset=offset, value=b"x") for offset in (7, 8))


class Reading:
    """A member whose reads give what they are told to give, after a call back."""

    consumer = None

    def __init__(self, *reads: tuple[Callable[[], None], list[Message]]) -> None:
        self._reads = list(reads)

    def consume(self, count: int, timeout_s: float) -> list[Message]:
        call_back, messages = self._reads.pop(0)
        call_back()
        return messages


class Taking:
    """Work that notes what it takes."""

    batch = 64 * 8
    gathers = False

    def __init__(self) -> None:
        self.taken: list[Message] = []

    def take(self, messages: Sequence[Message]) -> None:
        self.taken += messages

    def checkpoint(self) -> Sequence[TopicPartition]:
        return [TopicPartition("t", 0, 8)]

    def figures(self) -> Mapping[str, object]:
        return {}


class Committing:
    """An outbox that notes how much was taken at each commit."""

    is_open = False

    def __init__(self, work: Taking) -> None:
        self._work = work
        self.commits: list[list[Message]] = []

    def commit(self, offsets: Sequence[TopicPartition], consumer: Any) -> None:
        self.commits.append(list(self._work.taken))


def process_of(work: Taking, outbox: Committing, member: Reading) -> Any:
    """A process that has joined its group, without Kafka."""
    process: Any = Process.__new__(Process)
    process.outbox, process.member = outbox, member
    process._work, process._failed, process._in_hand = work, False, []
    process._gone, process.idle_for = None, "input"
    process.memory_bytes = Config().memory_bytes
    process._committed, process._telemetry = {}, Telemetry(Config(), "p", "s", Health("s", 60.0))
    process._stall = ReadingStall(None, "p.s", 0.0)  # type: ignore[arg-type]
    process._commit_wait = CommitWait("p.s", Health("s", 60.0), SimpleNamespace(), 30_000)  # type: ignore[arg-type]
    process._commit_interval, process._batch_sizer = (
        CommitInterval(100, 500, 0.0),
        BatchSizer(work.batch, 30_000),
    )
    return process


def test_what_a_rebalance_has_settled_while_more_was_read_is_not_taken_again():
    """A message is in hand; the read for more calls back, and all that is in hand is committed."""
    work = Taking()
    outbox = Committing(work)
    process = process_of(work, outbox, Reading())
    process.member = Reading((lambda: None, [FIRST]), (process.settle, [SECOND]))

    process._consume(work)
    process._take()

    assert outbox.commits == [[FIRST]]
    assert work.taken == [FIRST, SECOND]
