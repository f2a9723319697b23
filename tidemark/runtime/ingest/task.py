"""Ingest on Kafka: raw topics in, segments and dead letters out.

One commit, in this order and, by default, in one transaction (docs/operations.md, "Guarantees"):

1. dead letters, as they are met;
2. segments: for each log whose sources had something to say, one message per log partition with
   the rows of its keys and the marks of **all** those sources;
3. the offsets of those sources, with watermark, silence and topic id as metadata.

A new source is committed, at its start, before anything is written for it.

A source that is silent says so in marks of growing silence, at most once a second and until no
window can still be open; then nothing is written at all.  One whose records are held back, since
it is too far ahead of others (alignment.py), is neither silent nor committed beyond what was taken.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Message, TopicPartition

from tidemark.ingest.ingest import Ingest
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.client.batches import by_partition, record_batch
from tidemark.runtime.client.consumer import Start
from tidemark.runtime.client.silence import EndOffsets
from tidemark.runtime.client.topics import (
    ensure,
    own_topics,
    require,
    topic_ids,
    warn_of_retention,
)
from tidemark.runtime.config import Config
from tidemark.runtime.ingest.alignment import Alignment
from tidemark.runtime.ingest.past_marks import PastMarks
from tidemark.runtime.ingest.raw_sources import OwnedSource, segment_builder, write_segments
from tidemark.runtime.service.process import Process
from tidemark.runtime.service.stats import Account, SourceStats, instant
from tidemark.runtime.wall_clock import now_ms
from tidemark.serde.dead_letters import encode_dead_letters
from tidemark.serde.records import Counts


@dataclass
class IngestTask:
    """The work of an ingest process."""

    config: Config
    plan: Plan
    process: Process
    batch: int = 20_000
    gathers: bool = True
    _sources: dict[Partition, OwnedSource] = field(default_factory=dict)
    _moved: set[Partition] = field(default_factory=set)
    _counts: Counts = field(default_factory=Counts)
    _partitions: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ingest = Ingest(self.plan)
        self._builder = segment_builder(self.process.admin, self.plan)
        self._ends = EndOffsets(self.process.admin, {source.topic for source in self.plan.sources})
        self._past = PastMarks(self.config, self.process.admin, self.plan)
        self._plans = {source.topic: source for source in self.plan.sources}
        self._alignment = Alignment(
            {s.topic: s.max_drift_ms for s in self.plan.sources if s.max_drift_ms is not None}
        )

    def assigned(self, starts: Sequence[Start]) -> None:
        """Go on where the last owner of each raw partition stopped."""
        names = [source.topic for source in self.plan.sources]
        self._partitions = require(self.process.admin, names)
        ids = topic_ids(self.process.admin, {start.partition.topic for start in starts})
        for start in starts:
            topic_id = ids[start.partition.topic]
            source = OwnedSource.begun(start, topic_id, self._past)
            self._sources[start.partition] = source
            if source.committed < 0:
                self._moved.add(start.partition)
        self.process.settle()

    def dropped(self, partitions: Sequence[Partition]) -> None:
        """Forget raw partitions that others own now."""
        paused = self._alignment.paused.intersection(partitions)
        if paused:
            self.process.member.resume(paused)
        for partition in partitions:
            self._alignment.drop(partition)
            self._sources.pop(partition, None)

    def take(self, messages: Sequence[Message]) -> None:
        """Turn records into rows, unless they must wait for slower sources."""
        for partition, records in by_partition(messages, self._partitions).items():
            if self._alignment.covers(partition.topic):
                self._alignment.hold(partition, records)
            else:
                self._take(partition, records)
        self._release()

    def _take(self, partition: Partition, records: Sequence[Message]) -> None:
        """Turn records of a source into rows, which are written at the next commit."""
        at_ms = now_ms()
        source = self._sources[partition]
        taken = self._ingest.take(record_batch(partition, records, at_ms), source.progress)
        self._builder.add(taken)
        self._counts += taken.counts
        if taken.dead_letters:
            keys, values = encode_dead_letters(taken.dead_letters)
            self.process.outbox.write(self.plan.dead_letters, 0, keys, values)
        source.took(taken.progress, at_ms)
        self._moved.add(partition)

    def _release(self) -> None:
        """Take what need not wait any longer."""
        while (chunk := self._alignment.next(self._aligned())) is not None:
            self._take(*chunk)

    def _aligned(self) -> dict[Partition, int]:
        """Return the watermarks of aligned sources: of the awake, and of those held back."""
        return {
            partition: source.progress.watermark_ms
            for partition, source in self._sources.items()
            if self._alignment.covers(partition.topic)
            and (source.silence_ms == 0 or self._alignment.withholds(partition))
        }

    def tick(self) -> None:
        """Let sources wait for slower ones; find out which are silent."""
        if not self._sources:
            return
        self._release()
        toggle = self._alignment.toggle(self._aligned(), now_ms())
        if toggle.pause:
            self.process.member.pause(toggle.pause)
        if toggle.resume:
            self.process.member.resume(toggle.resume)
        self._listen_to_all()

    def _listen_to_all(self) -> None:
        asked_ms = self._ends.poll(self._sources, now_ms())
        if asked_ms is None:
            return
        # Before any silence is told: the clock is to wait for partitions that have just come to be.
        self._partitions = {
            topic: max(count, self._ends.counts[topic]) for topic, count in self._partitions.items()
        }
        self.process.member.refresh_positions()
        for partition, source in self._sources.items():
            self._listen(partition, source, asked_ms)

    def _listen(self, partition: Partition, source: OwnedSource, asked_ms: int) -> None:
        position = self.process.member.positions[partition]
        if position < self._ends.known.get(partition, position + 1):
            return  # there is more to read: lag
        if self._alignment.withholds(partition):
            return
        if position > source.committed:
            self._moved.add(partition)  # past records that only the broker sees
        silence_ms = asked_ms - source.silent_since_ms
        plan = self._plans[partition.topic]
        if silence_ms >= plan.idle_after_ms and plan.reports_silence(
            source.told_ms, silence_ms, self.plan.horizon_ms
        ):
            source.silence_ms = silence_ms
            self._moved.add(partition)

    def checkpoint(self) -> Sequence[TopicPartition]:
        """Write segments; return the offsets of every source that moved or fell silent."""
        if not self._moved:
            return ()
        moved = {partition: self._sources[partition] for partition in sorted(self._moved)}
        marks = [
            source.mark(str(partition))
            for partition, source in moved.items()
            if source.silence_ms > source.told_ms
        ]
        write_segments(self.process.outbox, self.plan, self._builder, self._partitions, marks)
        offsets = []
        for partition, source in moved.items():
            source.told_ms = source.silence_ms
            source.committed = self._read_to(partition)
            offsets.append(TopicPartition(*partition, source.committed, metadata=source.metadata()))
        self._builder.clear()
        self._moved.clear()
        return offsets

    def _read_to(self, partition: Partition) -> int:
        """Return the offset behind all that was taken, and behind what only the broker sees."""
        waiting = self._alignment.first(partition)
        if waiting is not None:
            return waiting.offset() or 0
        return self.process.member.positions[partition]

    def waits(self) -> Sequence[str]:
        """Return nothing: what it goes on with comes with the offsets."""
        return ()

    def figures(self) -> Mapping[str, object]:
        """Return counts since the start, and how far the raw topics are ahead."""
        counts = self._counts
        aligned = {"held": self._alignment.records, "paused": len(self._alignment.paused)}
        return {
            "records": counts.records,
            "passed": counts.passed,
            "filtered": counts.filtered,
            "dead": counts.dead,
            "blank": counts.blank,
            "lag": self._ends.lag(self.process.member.positions) + self._alignment.records,
            **(aligned if self._alignment.is_active else {}),
        }

    def account(self, _now_ms: int) -> Account:
        """Return counts since the start, and what each source said."""
        counts = self._counts
        return Account(
            rows_in=counts.records,
            rows_out=counts.passed,
            ends=self._ends.known,
            filtered=counts.filtered,
            dead_letters=counts.dead,
            sources=[
                SourceStats(
                    str(partition),
                    instant(source.progress.watermark_ms),
                    source.silence_ms > 0,
                    source.silence_ms,
                    source.silent_since_ms,
                )
                for partition, source in sorted(self._sources.items())
            ],
        )


def run(config: Config, plan: Plan) -> None:
    """Run the ingest service of a pipeline until it is told to stop."""
    raw = [source.topic for source in plan.sources]
    process = Process(config, plan.pipeline, "ingest", raw)
    require(process.admin, raw, config.user)
    warn_of_retention(process.admin, raw)
    ensure(process.admin, own_topics(plan), config.replication_factor)
    process.run(IngestTask(config, plan, process))
