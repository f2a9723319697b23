"""The archive service: reads log topics, writes files (runtime/archive/archive.py).

The files are the positions; offsets committed in Kafka follow them and only show the lag.  So a
crash between a file and its commit repeats nothing, and a crash before a file is complete leaves no
file.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from confluent_kafka import TopicPartition

from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.plan.topics import own_topics
from tidemark.runtime.archive.archive import Archive, ArchivedSegment
from tidemark.runtime.client.consumer import Start
from tidemark.runtime.client.silence import EndOffsets
from tidemark.runtime.client.topics import ensure, topic_ids
from tidemark.runtime.config import Config
from tidemark.runtime.memory import held_bytes
from tidemark.runtime.messages.received import ReceivedMessage
from tidemark.runtime.service.process import Process
from tidemark.runtime.service.stats import Account
from tidemark.runtime.wall_clock import now_ms


@dataclass
class _LogState:
    """One log partition that this process owns; ``reached``: the begin of the next file."""

    topic_id: str
    reached: int
    held: list[ArchivedSegment] = field(default_factory=list)
    committed: int = -1


@dataclass
class ArchiveTask:
    """The work of an archive service."""

    process: Process
    archive: Archive
    batch: int = 64
    gathers: bool = True
    _logs: dict[Partition, _LogState] = field(default_factory=dict)
    _held_bytes: int = 0
    _segments: int = 0

    def __post_init__(self) -> None:
        self._ends = EndOffsets(self.process.admin)

    def starting(self, starts: Sequence[Start]) -> Sequence[Start]:
        """Return where the files end; without files, where the log begins."""
        topics = {start.partition.topic for start in starts}
        ids = topic_ids(self.process.admin, topics)
        files = [file for topic in topics for file in self.archive.files(topic)]
        begun = []
        for start in starts:
            at, topic_id = start.partition, ids[start.partition.topic]
            mine = [file for file in files if file.at == at]
            offset = start.offset if start.metadata is None else 0
            if mine:
                last = max(mine, key=lambda file: file.end)
                offset = last.end
                if self.archive.topic_id(last) != topic_id:
                    raise StateError(
                        f"{at}: the topic was deleted and created again since {last.path} was "
                        "written; set TIDEMARK_ARCHIVE to another place"
                    )
            self._logs[at] = _LogState(topic_id, offset)
            begun.append(Start(at, offset, start.metadata))
        return begun

    def assigned(self, _starts: Sequence[Start]) -> None:
        """Do nothing: ``starting`` has prepared the partitions."""

    def dropped(self, partitions: Sequence[Partition]) -> None:
        """Forget partitions that were revoked."""
        for partition in partitions:
            self._logs.pop(partition, None)

    def take(self, messages: Sequence[ReceivedMessage]) -> None:
        """Hold segments until the next commit writes a file."""
        for message in messages:
            value = message.value() or b""
            segment = ArchivedSegment(message.offset() or 0, message.timestamp()[1], value)
            self._logs[Partition(message.topic() or "", message.partition() or 0)].held.append(
                segment
            )
            self._held_bytes += len(value)

    def tick(self) -> None:
        """Commit early if the held segments take too much memory."""
        if self._held_bytes > held_bytes(self.process.memory_bytes):
            self.process.settle()
        if self._logs and self._ends.poll(self._logs, now_ms()) is not None:
            self.process.member.refresh_positions()

    def checkpoint(self) -> Sequence[TopicPartition]:
        """Write the held segments to files; return the offsets behind them."""
        for at, log in self._logs.items():
            for day in _days(log.held):
                end = day[-1].offset + 1
                self.archive.write(at, log.reached, end, log.topic_id, day)
                self._segments += len(day)
                log.reached = end
            log.held = []
        self._held_bytes = 0
        return [*self._moved()]

    def _moved(self) -> Iterator[TopicPartition]:
        for at, log in self._logs.items():
            position = self.process.member.positions[at]
            if position > log.committed:
                log.committed = position
                yield TopicPartition(*at, position)

    def waits(self) -> Sequence[str]:
        """Return nothing: the archive never waits."""
        return ()

    def figures(self) -> Mapping[str, object]:
        """Return counts since the start, and the lag."""
        return {
            "segments": self._segments,
            "lag": self._ends.lag(self.process.member.positions),
        }

    def account(self, _now_ms: int) -> Account:
        """Return counts since the start."""
        return Account(self._segments, self._segments, self._ends.known, self._ends.stable)


def _days(segments: Sequence[ArchivedSegment]) -> Iterator[list[ArchivedSegment]]:
    """Split segments where the date changes."""
    for _, day in groupby(segments, lambda each: each.date):
        yield list(day)


def run(config: Config, plan: Plan) -> None:
    """Archive the logs of a pipeline until a stop signal."""
    archive = Archive(config.archive)
    interval_ms = config.archive_interval_ms
    own = config.model_copy(
        update={
            "guarantee": "at-least-once",  # offsets follow the files and are never ahead of them
            "commit_interval_ms": interval_ms,
            "commit_interval_max_ms": interval_ms,
        }
    )
    process = Process(own, plan, "archive", lambda _, plan: [log.topic for log in plan.logs])
    ensure(process.admin, own_topics(process.plan), config.replication_factor)
    process.run(ArchiveTask(process, archive))
