"""Marks of operators that feed others, by the owner of an operator's progress topic.

See docs/operations.md, "Chains".  The topic has one partition, which the group assigns like that
of a log: so exactly one process announces.  Its commit writes a mark to all partitions of the logs
that the operator feeds, and the offset of the progress topic, with the mark as metadata.

The topic is compacted.  An owner reads it from its beginning, and continues after the last mark.
Until it has read all reports that were there when it began, it announces nothing.

In a transaction, the owner hears the reports of its own process as they are written.  So the mark
is in the commit of the rows that it closes, and need not wait for the next one.  When a task leaves
the process, the owner reads the reports that it has heard before it announces again.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from msgspec import structs

from tidemark.core.time.announcer import Announced, Announcer, Report
from tidemark.core.time.segment import SourceMark
from tidemark.ingest.derived import mark_segment
from tidemark.ingest.segment_builder import EPOCH
from tidemark.partition import Partition
from tidemark.plan.names import progress_topic
from tidemark.plan.physical import DerivedPlan, LogPlan, OperatorPlan, Plan
from tidemark.runtime.client.commit import Outbox
from tidemark.runtime.client.consumer import LATEST, Start, offsets
from tidemark.runtime.client.generations import Generation, Key
from tidemark.runtime.client.progress import (
    VERSION,
    MarkProgress,
    check_topic,
    decode,
    encode,
    on_spark_error,
)
from tidemark.runtime.messages.received import ReceivedMessage
from tidemark.runtime.wall_clock import now_ms
from tidemark.serde.operator_progress import decode_progress
from tidemark.serde.segments import encode_segment

_PAUSE_S = 0.004
"""Least time between two marks, for each log partition that gets them: each costs the broker."""


@dataclass
class _Owned:
    """The announcer of an operator, and what is committed: the offset, and the last mark.

    ``ready_at``: there is no mark before the reports up to this offset are read.
    """

    derived: DerivedPlan
    announcer: Announcer
    past: MarkProgress
    committed: int
    logs: Sequence[LogPlan]
    ready_at: int
    announced_s: float = 0.0

    @property
    def pause_s(self) -> float:
        """The least time between two marks."""
        return _PAUSE_S * sum(log.partitions for log in self.logs)


class Announcements:
    """The announcers whose progress partitions this process owns."""

    def __init__(
        self, plan: Plan, operators: Iterable[OperatorPlan], *, may_lack_marks: bool = False
    ) -> None:
        """Own no partition.

        ``operators``: those of the service.  ``may_lack_marks``: whether a crash may have lost the
        last mark, so that a new owner writes it again.
        """
        self._plan = plan
        self._may_lack_marks = may_lack_marks
        self._logs = {each.name: each.log for each in operators}
        self._derived = progress_topics(plan, operators)
        self._owned: dict[Partition, _Owned] = {}
        self._ends: dict[Partition, int] = {}

    def covers(self, at: Partition) -> bool:
        """Whether a partition is that of a progress topic."""
        return at.topic in self._derived

    def starting(self, admin: AdminClient, starts: Sequence[Start]) -> Sequence[Start]:
        """Return where partitions start: progress topics at their beginning, others as they do."""
        mine = [start.partition for start in starts if self.covers(start.partition)]
        self._ends |= offsets(admin, mine, LATEST)
        return [
            replace(start, offset=start.first) if self.covers(start.partition) else start
            for start in starts
        ]

    def assigned(
        self,
        starts: Iterable[Start],
        ids: Mapping[str, str],
        generations: Mapping[Key, Generation],
        *,
        by_spark: bool = False,
    ) -> None:
        """Take new partitions; ``ids``: of their topics.

        Raises:
            StateError: a topic was deleted and created again, or is Spark's.
        """
        for start in starts:
            at = start.partition
            derived = self._derived[at.topic]
            name = derived.operator
            past = mark_progress(start, ids[at.topic], by_spark=by_spark)
            numbers = {
                number: generations[name, number].number if (name, number) in generations else 0
                for number in range(self._partitions(name))
            }
            last = Announced(past.number, past.watermark_ms, past.idle)
            is_known = past.number > 0 and not self._may_lack_marks
            announcer = Announcer(name, numbers, last if is_known else None)
            logs = self._plan.fed_by(derived)
            ready_at = self._ends.pop(at, start.offset)
            self._owned[at] = _Owned(derived, announcer, past, start.offset, logs, ready_at)

    def _partitions(self, operator: str) -> int:
        log = self._logs[operator]
        return next(each.partitions for each in self._plan.logs if each.topic == log)

    def dropped(self, admin: AdminClient, partitions: Sequence[Partition]) -> None:
        """Forget partitions that other processes own now: of progress topics, and of logs."""
        for at in partitions:
            self._owned.pop(at, None)
        left = [at for at, owned in self._owned.items() if self._loses_tasks(owned, partitions)]
        for at, end in offsets(admin, left, LATEST).items():
            self._owned[at].ready_at = end

    def _loses_tasks(self, owned: _Owned, partitions: Iterable[Partition]) -> bool:
        """Note which tasks leave the process; return whether the announcer has heard one."""
        log = self._logs[owned.derived.operator]
        return owned.announcer.gone(at.number for at in partitions if at.topic == log)

    def read(self, at: Partition, messages: Iterable[ReceivedMessage]) -> None:
        """Take reports.

        Raises:
            StateError: this version cannot read a message.
        """
        announcer = self._owned[at].announcer
        for message in messages:
            announcer.take(message.offset() or 0, decode_progress(message.value() or b""))

    def hear(self, reports: Iterable[Report]) -> None:
        """Take the reports of this process that the next commit makes visible with its marks."""
        owned = {each.derived.operator: each for each in self._owned.values()}
        for operator, progress in reports:
            if operator in owned:
                owned[operator].announcer.hear(progress)

    def write(
        self, outbox: Outbox, positions: Mapping[Partition, int], *, commits: bool
    ) -> list[TopicPartition]:
        """Write the marks that are due; return offsets to commit.

        ``positions``: next offsets to read.  ``commits``: whether there is a commit without marks.
        """
        found = []
        for at, owned in self._owned.items():
            now_s = time.monotonic()
            is_early = now_s < owned.announced_s + owned.pause_s
            may_announce = not is_early and positions[at] >= owned.ready_at
            mark = owned.announcer.mark() if may_announce else None
            if mark is not None:
                self._announce(owned, mark, outbox)
                owned.announced_s = now_s
            if mark is not None or (commits and positions[at] > owned.committed):
                owned.committed = positions[at]
                found.append(TopicPartition(*at, owned.committed, metadata=encode(owned.past)))
        return found

    def _announce(self, owned: _Owned, mark: SourceMark, outbox: Outbox) -> None:
        value = encode_segment(mark_segment(mark, now_ms(), EPOCH))
        for log in owned.logs:
            for number in range(log.partitions):
                outbox.write(log.topic, number, [None], [value])
        owned.announcer.announced(mark)
        owned.past = structs.replace(
            owned.past, number=mark.next_offset, watermark_ms=mark.watermark_ms, idle=mark.idle
        )

    def stepped(self, positions: Mapping[Partition, int]) -> bool:
        """Whether positions have moved since the last commit, over reports or markers."""
        return any(positions[at] > owned.committed for at, owned in self._owned.items())


def mark_progress(start: Start, topic_id: str, *, by_spark: bool = False) -> MarkProgress:
    """Return the committed progress of a partition of a progress topic.

    Raises:
        StateError: the topic was deleted and created again, or Spark owns the partition.
    """
    at = start.partition
    if not start.metadata:
        return MarkProgress(VERSION, topic_id)
    past = decode(start.metadata, MarkProgress, str(at))
    check_topic(past, topic_id, str(at))
    if past.on_spark and not by_spark:
        raise on_spark_error(at)
    return past


def topics_of(plan: Plan, service: str) -> list[str]:
    """Return the topics that a keyed service reads: logs, and progress topics of its stages."""
    operators = plan.of_service(service)
    return sorted({*(each.log for each in operators), *progress_topics(plan, operators)})


def progress_topics(plan: Plan, operators: Iterable[OperatorPlan]) -> dict[str, DerivedPlan]:
    """Return the progress topics of operators, each with what the operator hands on."""
    names = {each.name for each in operators}
    return {
        progress_topic(plan.pipeline, each.operator): each
        for each in plan.derived
        if each.operator in names
    }
