"""Ingest on Kafka: reads raw topics, writes segments and dead letters.

A commit writes, in this order and by default in one transaction (docs/operations.md,
"Guarantees"):

1. dead letters, as they occur;
2. segments, for each log whose sources have moved or fallen silent: one message per log partition.
   It has the rows of the partition's keys and the marks of **all** those sources;
3. the offsets of those sources, with watermark, silence and topic id as metadata.

The first commit also records the program.  A new log gets earlier records first (backfill.py).

A new source is committed at its start offset before anything is written for it.

A silent source has marks of growing silence (tidemark/ingest/silence.py), until no window can be
open any more.  A source with held records (alignment.py) is not silent.  It is committed only up to
the records taken.
"""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tidemark.core.time.event_time import instant_text
from tidemark.errors import StateError
from tidemark.ingest.ingest import Ingest
from tidemark.ingest.unit_check import UnitCheck
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.plan.program import SourceProgram
from tidemark.plan.topics import own_topics, static_topics
from tidemark.runtime.client.batches import by_partition, record_batch
from tidemark.runtime.client.consumer import Start
from tidemark.runtime.client.producer import Record
from tidemark.runtime.client.recorded_program import checked_program, warn_unless_recorded
from tidemark.runtime.client.schema_registry import writer_schemas
from tidemark.runtime.client.silence import EndOffsets
from tidemark.runtime.client.topics import (
    ensure,
    require_raw,
    segment_builder,
    topic_ids,
    warn_of_retention,
)
from tidemark.runtime.config import Config
from tidemark.runtime.ingest.alignment import Alignment, max_drifts_ms
from tidemark.runtime.ingest.backfill import Backfill
from tidemark.runtime.ingest.departures import Departures
from tidemark.runtime.ingest.loading import Loading
from tidemark.runtime.ingest.new_logs import NewLogs
from tidemark.runtime.ingest.past_marks import PastMarks
from tidemark.runtime.ingest.raw_sources import OwnedSource, write_segments
from tidemark.runtime.ingest.raw_topics import RawTopics
from tidemark.runtime.ingest.silent_sources import SilentSources
from tidemark.runtime.ingest.static_tables import StaticTables
from tidemark.runtime.ingest.troubles import Troubles
from tidemark.runtime.memory import held_bytes, parsed_bytes
from tidemark.runtime.messages.received import ReceivedMessage
from tidemark.runtime.service.process import Process
from tidemark.runtime.service.reasons import Reasons
from tidemark.runtime.service.stats import Account
from tidemark.runtime.wall_clock import now_ms
from tidemark.serde.dead_letters import encode_dead_letters
from tidemark.serde.object_count import memory_size
from tidemark.serde.records import Counts, DeadLetter
from tidemark.statics.rows import require_files

_log = logging.getLogger("tidemark")


@dataclass
class IngestTask:
    """The work of an ingest service."""

    config: Config
    plan: Plan
    process: Process
    batch: int = 20_000
    gathers: bool = True
    program: Record | None = None  # the next commit writes it
    known: Mapping[str, SourceProgram] = field(default_factory=dict)  # raw topics as recorded
    _sources: dict[Partition, OwnedSource] = field(default_factory=dict)
    _moved: set[Partition] = field(default_factory=set)
    _knows_of_record: bool = False
    _counts: Counts = field(default_factory=Counts)
    _dead_reasons: Reasons = field(default_factory=Reasons)
    _partitions: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        writers = writer_schemas(self.config, self.plan, self.process.waiting)
        self._ingest = Ingest(self.plan, writers)
        self._troubles = Troubles(self.config)
        self._units = UnitCheck(self.plan)
        self._builder = segment_builder(self.process.admin, self.plan)
        counts = require_raw(self.process.admin, self.plan)
        self._raw = RawTopics(self.process.admin, self.plan, counts, self.config.topics_interval_ms)
        self._ends = EndOffsets(self.process.admin, counts)
        self._silent = SilentSources(self.plan)
        self._past = PastMarks(self.config, self.process.admin, self.plan)
        self._departures = Departures(self.plan, self._past, self.known)
        self._departures.begin(counts)
        self._new_logs = NewLogs(self.process.admin, self.plan, self._past)
        require_files(self.plan.sources)
        self._statics = StaticTables(
            self.config, self.process.admin, self.plan, self.process.waiting
        )
        self._loading = Loading(self.process.admin, self.plan)
        self._backfill = Backfill(
            self.config, self.plan, segment_builder(self.process.admin, self.plan), writers
        )
        most_held_bytes = held_bytes(self.config.memory_bytes)
        self._alignment = Alignment(max_drifts_ms(self.plan), most_held_bytes)

    def starting(self, starts: Sequence[Start]) -> Sequence[Start]:
        """Return where raw partitions start; one whose next records are gone is not read."""
        return self._troubles.kept(self.process.admin, starts)

    def assigned(self, starts: Sequence[Start]) -> None:
        """Start raw partitions where their last owners stopped.

        A source in trouble is not read, and the others go on.

        Raises:
            StateError: no source of this process can be read.
        """
        self._partitions = self._raw.counted()
        self._statics.begin((start.partition for start in starts), now_ms())
        ids = topic_ids(self.process.admin, {start.partition.topic for start in starts})
        for start in starts:
            if start.partition not in self._troubles.texts:
                self._begin(start, ids[start.partition.topic])
        if troubles := self._troubles.texts:
            if not self._sources:
                raise StateError(next(iter(troubles.values())))
            self.process.member.pause(troubles)
        self.process.settle()

    def _begin(self, start: Start, topic_id: str) -> None:
        """Own a raw partition, or note its trouble."""
        try:
            source = OwnedSource.from_commit(
                start, topic_id, self._past, self._new_logs, self._loading
            )
        except StateError as error:
            self._troubles.add(start.partition, str(error))
            return
        self._sources[start.partition] = source
        if source.committed < 0:
            self._moved.add(start.partition)
        elif not self.known and not self._knows_of_record:
            self._knows_of_record = True
            warn_unless_recorded(self.config, self.process.admin, self.plan.generations)

    def dropped(self, partitions: Sequence[Partition]) -> None:
        """Forget raw partitions that were revoked."""
        paused = self._alignment.paused.intersection(partitions)
        if paused:
            self.process.member.resume(paused)
        self._backfill.drop(partitions)
        self._statics.drop(partitions)
        self._troubles.drop(partitions)
        for partition in partitions:
            self._alignment.drop(partition)
            self._sources.pop(partition, None)
            self._silent.drop(partition)
            self._moved.discard(partition)

    def take(self, messages: Sequence[ReceivedMessage]) -> None:
        """Turn records into rows; hold those that must wait for slower sources."""
        topics = {at.topic for at in self.process.member.positions}
        for partition, records in by_partition(messages, topics).items():
            if partition not in self._sources:
                continue  # of a topic that is gone
            if self._alignment.aligns(partition.topic, self._sources[partition].progress):
                self._alignment.hold(partition, records)
            else:
                self._take(partition, records)
        self._release()

    def _take(self, partition: Partition, records: Sequence[ReceivedMessage]) -> None:
        """Turn records of a source into rows; the next commit writes them."""
        at_ms = now_ms()
        source = self._sources[partition]
        whole = record_batch(partition, records, at_ms, source.shift)
        plan = self.plan.source_of(partition.topic)
        most_bytes = parsed_bytes(self.config.memory_bytes)
        for batch in whole.pieces(most_bytes, memory_size(plan.schema, plan.format)):
            taken = self._ingest.take(batch, source.progress)
            if (warning := self._units.warning(batch, taken)) is not None:
                _log.warning("%s", warning)
            self._builder.add(taken)
            self._counts += taken.counts
            self._report_dead(taken.dead_letters)
            for offset, until_ms in taken.flushes.items():
                _log.info(
                    "%s: flushed up to %s at offset %d", partition, instant_text(until_ms), offset
                )
            source.took(taken.progress, at_ms)
        self._moved.add(partition)
        self._silent.drop(partition)

    def _report_dead(self, letters: Sequence[DeadLetter]) -> None:
        if letters:
            keys, values = encode_dead_letters(letters)
            self._dead_reasons.add((each.stage, each.reason) for each in letters)
            self.process.outbox.write(self.plan.dead_letters, 0, keys, values)

    def _release(self) -> None:
        """Take held records that need not wait any longer."""
        while (chunk := self._alignment.next(self._aligned())) is not None:
            self._take(*chunk)

    def _aligned(self) -> dict[Partition, int]:
        """Return the watermarks of aligned sources that are awake or held back."""
        return {
            partition: source.progress.watermark_ms
            for partition, source in self._sources.items()
            if self._alignment.aligns(partition.topic, source.progress)
            and (source.silence_ms == 0 or self._alignment.withholds(partition))
        }

    def tick(self) -> None:
        """Commit early if much is held; pause and resume sources; find silent sources."""
        if self._builder.size_bytes > held_bytes(self.config.memory_bytes):
            self.process.settle()
        self._troubles.report(time.monotonic())
        self._statics.poll(now_ms())
        self._follow()
        if not self._sources:
            return
        if self._departures.marks:
            self._moved.add(min(self._sources))  # so that a commit writes the marks
        self._release()
        toggle = self._alignment.toggle(self._aligned(), now_ms())
        if toggle.pause:
            self.process.member.pause(toggle.pause)
        if toggle.resume:
            self.process.member.resume(toggle.resume)
        self._find_silent()
        moved, letters = self._backfill.step(self._sources)
        self._report_dead(letters)
        self._moved |= moved

    def _follow(self) -> None:
        """Read topics of a pattern that have come; let those go that are gone."""
        if (change := self._raw.poll(now_ms())) is None:
            return
        self._departures.follow(change, self._sources, self._partitions)
        for partition in self.process.member.positions.keys() - self._sources.keys():
            self._alignment.drop(partition)
            self._silent.drop(partition)
        self._moved &= self._sources.keys()
        # From now on the logs name the new partitions, so clocks wait for them.
        self._partitions = {
            topic: max(count, self._partitions.get(topic, 0))
            for topic, count in self._raw.counts.items()
        }
        self._ends.count(self._raw.counts)
        self.process.follow(self._raw.counts)

    def _find_silent(self) -> None:
        asked_ms = self._ends.poll(self._sources, now_ms())
        if asked_ms is None:
            return
        # Counts come first: the clock must wait for new partitions before a silence is written.
        self._partitions = {
            topic: max(count, self._ends.counts.get(topic, count))
            for topic, count in self._partitions.items()
        }
        self.process.member.refresh_positions()
        free = {at: each for at, each in self._sources.items() if not self._alignment.withholds(at)}
        positions = self.process.member.positions
        self._moved |= self._silent.find(free, positions, self._ends.known, asked_ms)
        self._moved |= self._silent.mark(self._sources, is_written=False)

    def checkpoint(self) -> Sequence[TopicPartition]:
        """Write segments; return the offsets of all sources that moved or fell silent."""
        if not self._moved:
            return ()
        self._moved |= self._silent.mark(self._sources, is_written=True)
        moved = {partition: self._sources[partition] for partition in sorted(self._moved)}
        marks = [
            source.mark(str(partition))
            for partition, source in moved.items()
            if source.silence_ms > source.logged_silence_ms
        ]
        marks += self._departures.marks
        for key, value in (*filter(None, [self.program]), *self._departures.records):
            self.process.outbox.write(self.plan.generations, 0, [key], [value])
        self.program = None
        self._backfill.write(self.process.outbox, self._partitions)
        write_segments(
            self.process.outbox,
            self.plan,
            self._builder,
            self._partitions,
            marks,
            {log.topic: self._backfill.lacking(log, self._sources) for log in self.plan.logs},
        )
        offsets = []
        for partition, source in moved.items():
            source.logged_silence_ms = source.silence_ms
            source.logged_offset = source.progress.next_offset
            source.reach(self._read_to(partition))
            offsets.append(TopicPartition(*partition, source.committed, metadata=source.metadata()))
        self._builder.clear()
        self._departures.clear()
        self._moved.clear()
        return offsets

    def _read_to(self, partition: Partition) -> int:
        """Return the offset behind all records taken and behind those that only the broker sees."""
        waiting = self._alignment.first(partition)
        if waiting is not None:
            return waiting.offset() or 0
        return self.process.member.positions[partition]

    def waits(self) -> Sequence[str]:
        """Return the troubles of sources; all state comes with the committed offsets."""
        return (*self._troubles.texts.values(), *self._raw.waits)

    def figures(self) -> Mapping[str, object]:
        """Return counts since the start, and the lag in records."""
        counts = self._counts
        lag = self._ends.lag(self.process.member.positions)
        backfill = self._backfill.left(self._sources)
        aligned = {"held": self._alignment.records, "paused": len(self._alignment.paused)}
        return {
            "records": counts.records,
            "passed": counts.passed,
            "filtered": counts.filtered,
            "dead": counts.dead,
            "blank": counts.blank,
            **({"converted": counts.converted} if counts.converted else {}),
            "lag": None if lag is None else lag + self._alignment.records,
            **(aligned if self._alignment.is_active else {}),
            **({"backfill": backfill} if backfill else {}),
            **({"load_failures": failures} if (failures := self._statics.failures.total()) else {}),
        }

    def account(self, _now_ms: int) -> Account:
        """Return counts since the start, and the state of each source."""
        counts = self._counts
        return Account(
            rows_in=counts.records,
            rows_out=counts.passed,
            ends=self._ends.known,
            stable_ends=self._ends.stable,
            dead_reasons=self._dead_reasons.stats(),
            filtered=counts.filtered,
            converted=counts.converted,
            dead_letters=counts.dead,
            sources=[
                each.stats(str(at), self._statics.failures[at.topic])
                for at, each in sorted(self._sources.items())
            ],
        )


def _raw_topics(config: Config, admin: AdminClient, plan: Plan) -> Iterable[str]:
    """Return the raw topics of a plan, after those of static tables are created."""
    if topics := static_topics(plan):
        ensure(admin, topics, config.replication_factor)
    return require_raw(admin, plan, config.user)


def run(config: Config, plan: Plan) -> None:
    """Run the ingest service of a pipeline until a stop signal."""
    process = Process(
        config,
        plan,
        "ingest",
        lambda admin, plan: _raw_topics(config, admin, plan),
        may_go=lambda topic: topic not in plan.named_topics,
    )
    program = checked_program(process.admin, process.plan, process.recorded)
    warn_of_retention(process.admin, process.topics)
    ensure(process.admin, own_topics(process.plan), config.replication_factor)
    known = {} if process.recorded is None else process.recorded.sources
    process.run(IngestTask(config, process.plan, process, program=program, known=known))
