"""Reset of one source: a raw topic starts afresh, and all others go on where they are.

It is for a raw topic that was deleted and created again, or that has lost records that ingest had
not read.  The logs stay, and so do the other sources.  In ONE transaction the reset

1. commits the offsets at which the topic's partitions begin,
2. records the id of the topic, and the shift of each partition,
3. marks partitions that the topic no longer has as idle, so that no clock waits for them.

A source never goes back in the log, or operators would drop its rows as duplicates.  So offsets of
a new topic get a *shift* in the log: they continue after those of the old one.  Its watermark
starts anew, and no clock goes back.  See docs/operations.md, "Reset".
"""

from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from typing import Literal

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tidemark.core.time.segment import NEVER_MS, Segment
from tidemark.errors import ConfigurationError, StateError
from tidemark.ingest.ingest import Progress
from tidemark.ingest.segment_builder import EPOCH
from tidemark.partition import Partition
from tidemark.plan.physical import LogPlan, Plan
from tidemark.plan.program import with_topic
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.offline_group import (
    commit_for_group,
    committed_offsets,
    require_empty,
)
from tidemark.runtime.client.producer import Record
from tidemark.runtime.client.progress import VERSION, SourceProgress, encode
from tidemark.runtime.client.recorded_program import (
    placed_plan,
    record_of_program,
    recorded_program,
)
from tidemark.runtime.client.topics import partition_counts, require_raw, short_ids, topic_ids
from tidemark.runtime.config import Config
from tidemark.runtime.ingest.past_marks import PastMarks, furthest
from tidemark.runtime.wall_clock import now_ms
from tidemark.serde.segments import encode_segment

To = Literal["earliest", "latest"]

_WAIT_S = 60.0


@dataclass(frozen=True)
class _Begin:
    """Where a partition begins: an offset of the topic, and the progress and shift in the log.

    ``lacking``: the logs that lack earlier rows of the partition; ingest goes on building them.
    """

    offset: int
    progress: Progress
    shift: int
    lacking: Set[str]


@dataclass
class SourceReset:
    """One reset: the constructor reads the topics, ``lines`` shows the plan, ``run`` does it."""

    config: Config
    admin: AdminClient
    plan: Plan
    topic: str
    to: To = "earliest"
    _begins: dict[Partition, _Begin] = field(init=False, default_factory=dict)
    _gone: dict[str, Progress] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Check the topic and the group; find where the topic's partitions ended in the logs.

        Raises:
            ConfigurationError: no such source, ingest runs, or there is nothing to reset.
            StateError: nothing says which topic the logs have records of.
        """
        self.plan = placed_plan(self.config, self.admin, self.plan)
        names = require_raw(self.admin, self.plan)
        if self.topic not in names:
            raise ConfigurationError(f"no source {self.topic!r}; there are {', '.join(names)}")
        require_empty(self.admin, [self._group])
        self._logs = [log for log in self.plan.logs if log.reads(self.topic)]
        self._past = PastMarks(self.config, self.admin, self.plan)
        program = recorded_program(self.config, self.admin, self.plan.generations)
        known = None if program is None else program.sources.get(self.topic)
        if program is None or known is None or not known.topic_id:
            raise StateError(
                f"nothing is recorded of source {self.topic}; 'tidemark reset PIPELINE' starts the "
                "pipeline afresh"
            )
        self._program = program
        (self._topic_id,) = topic_ids(self.admin, [self.topic]).values()
        self._find()

    @property
    def _group(self) -> str:
        return self.plan.group("ingest")

    @property
    def _is_same(self) -> bool:
        """Whether the topic is the one that the logs have records of."""
        return self._program.sources[self.topic].topic_id == self._topic_id

    def _find(self) -> None:
        count = partition_counts(self.admin)[self.topic]
        partitions = [Partition(self.topic, n) for n in range(count)]
        low = offsets(self.admin, partitions, EARLIEST)
        high = offsets(self.admin, partitions, LATEST)
        self._require_reason(low, high)
        shifts = self._program.sources[self.topic].shifts if self._is_same else {}
        for at in partitions:
            ended, lacking = self._past_of(str(at))
            shift = shifts.get(str(at.number), 0)
            offset = high[at] if self.to == "latest" else low[at]
            if self._is_same and self.to == "earliest":
                offset = min(max(ended.next_offset - shift, low[at]), high[at])
            shift = max(shift, ended.next_offset - offset)
            watermark_ms = ended.watermark_ms if self._is_same else NEVER_MS
            self._begins[at] = _Begin(
                offset, Progress(offset + shift, watermark_ms), shift, lacking
            )
        known = max((self._past.partitions(log, self.topic) for log in self._logs), default=0)
        for number in range(count, known):
            name = f"{self.topic}/{number}"
            self._gone[name] = self._past_of(name)[0]

    def _require_reason(self, low: dict[Partition, int], high: dict[Partition, int]) -> None:
        if not self._is_same or self.to == "latest":
            return
        found = committed_offsets(self.config, self._group, low, _WAIT_S)
        if all(low[at] <= each.offset <= high[at] for at, each in zip(low, found, strict=True)):
            raise ConfigurationError(
                f"source {self.topic} can go on where it is, and its earlier records are in the "
                "logs; 'tidemark reset PIPELINE' reads all raw topics again"
            )

    def _past_of(self, source: str) -> tuple[Progress, Set[str]]:
        """Return where a source ended in the logs, and the logs that lack some of its rows.

        Raises:
            StateError: such a log lacks rows of a topic that is gone.
        """
        marks = {log.topic: self._past.last_mark(log, source) for log in self._logs}
        ended = furthest(marks.values())
        lacking = {
            log
            for log, mark in marks.items()
            if (0 if mark is None else mark.next_offset) < ended.next_offset
        }
        if cut_short := sorted(log for log in lacking if marks[log] and not self._is_same):
            raise StateError(
                f"log {cut_short[0]} is new and still lacks rows of {source}, and the topic that "
                "had them is gone; 'tidemark reset PIPELINE' starts the pipeline afresh"
            )
        return ended, lacking

    def lines(self) -> Iterator[str]:
        """Yield the plan, a line for each partition."""
        what = "the same" if self._is_same else "a new"
        yield f"{self.topic} is {what} topic, id {self._topic_id}"
        for at, begin in self._begins.items():
            in_logs = begin.progress.next_offset
            yield f"read {at} from offset {begin.offset} on, which is offset {in_logs} in the logs"
        for log in sorted({log for begin in self._begins.values() for log in begin.lacking}):
            yield f"go on to build log {log}, which lacks earlier rows of {self.topic}"
        for name in self._gone:
            yield f"wait no longer for {name}, which the topic does not have"
        yield "keep the logs, all state and results, and the other sources"

    def run(self) -> None:
        """Reset: do all steps of the plan in one transaction."""
        shifts = {str(at.number): each.shift for at, each in self._begins.items()}
        program = with_topic(self._program, self.topic, self._topic_id, shifts)
        writes: dict[Partition, list[Record]] = {
            Partition(self.plan.generations, 0): [record_of_program(program)]
        }
        for log in self._logs if self._gone else ():
            value = encode_segment(self._farewell(log))
            for number in range(log.partitions):
                writes[Partition(log.topic, number)] = [(b"", value)]
        commits = {self._group: [self._offset(at, each) for at, each in self._begins.items()]}
        name = f"{self.plan.pipeline}.reset"
        commit_for_group(self.config, self.admin, name, writes, commits)

    def _offset(self, at: Partition, begin: _Begin) -> TopicPartition:
        complete = [log.topic for log in self._logs if log.topic not in begin.lacking]
        progress = SourceProgress(
            VERSION,
            self._topic_id,
            begin.progress.next_offset,
            begin.progress.watermark_ms,
            now_ms(),
            logs=sorted(short_ids(self.admin, complete).values()),
            shift=begin.shift,
        )
        return TopicPartition(at.topic, at.number, begin.offset, metadata=encode(progress))

    def _farewell(self, log: LogPlan) -> Segment:
        """Return a segment that says that the partitions that are gone are idle."""
        marks = tuple(ended.idle_mark(name) for name, ended in self._gone.items())
        there = require_raw(self.admin, self.plan)
        partitions = {topic: there[topic] for topic in sorted(there) if log.reads(topic)}
        return Segment(EPOCH, 0, marks, partitions, now_ms(), {})
