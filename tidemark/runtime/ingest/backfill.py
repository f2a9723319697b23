"""Backfill: builds new logs from the raw records that ingest has read before.

While ingest goes on, a second reader takes the earlier records for one new log, a bounded portion
at each turn of the loop.  Their segments have marks of their own progress, and go to the new log
alone.  The segments of the other records leave a source out of the new log until its backfill has
reached the last commit.  From then on the log gets all segments.  So the new log has each record
once, in order, as if it had been there from the start.

The progress is a part of the metadata of the committed offset, so it survives a crash.  See
docs/operations.md, "Changing a pipeline".
"""

import logging
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tidemark.core.time.segment import NEVER_MS
from tidemark.core.time.watermark import delay_ms, largest_of
from tidemark.ingest.ingest import Ingest, IngestOutput, Progress
from tidemark.ingest.segment_builder import SegmentBuilder
from tidemark.partition import Partition
from tidemark.plan.physical import LogPlan, Plan
from tidemark.runtime.client.batches import by_partition, record_batch
from tidemark.runtime.client.clients import hinders_reading, plain_consumer
from tidemark.runtime.client.commit import Outbox
from tidemark.runtime.client.progress import Backfilled
from tidemark.runtime.config import Config
from tidemark.runtime.ingest.raw_sources import OwnedSource, write_log
from tidemark.runtime.memory import held_bytes, taken_bytes
from tidemark.runtime.messages.received import ReceivedMessage
from tidemark.runtime.service.batch_sizer import BatchRoom
from tidemark.runtime.wall_clock import now_ms
from tidemark.serde.formats.avro_values import WriterSchemas
from tidemark.serde.records import DeadLetter, RecordBatch

_log = logging.getLogger("tidemark")

_PORTION_RECORDS = 2_000
_FIRST_RECORDS = 10
"""At least one of this many records after lost ones is assumed not to be late."""
_SHARE = 4  # a portion and what is held take this part of the memory that other records may take

Sources = Mapping[Partition, OwnedSource]


class Backfill:
    """Reads earlier records for one new log at a time."""

    def __init__(
        self, config: Config, plan: Plan, builder: SegmentBuilder, writers: WriterSchemas | None
    ) -> None:
        """Start with nothing to read; ``builder``: an empty one of its own.

        ``writers``: the schemas of formats with a registry.
        """
        self._config, self._plan, self._builder = config, plan, builder
        self._ingest, self._writers = Ingest(plan, writers), writers
        self._of_logs: dict[frozenset[str], Ingest] = {}
        self._log: LogPlan | None = None
        self._consumer: Consumer | None = None
        self._reading: set[Partition] = set()
        self._loaded: set[Partition] = set()
        """The sources of which the next commit has the last rows that are loaded (loading.py)."""
        self._taken_bytes = taken_bytes(config.memory_bytes) // _SHARE
        self._held_bytes = held_bytes(config.memory_bytes) // _SHARE

    def step(self, sources: Sources) -> tuple[set[Partition], list[DeadLetter]]:
        """Take the next portion; return the sources that moved, and new dead letters.

        A record that was dead before has its dead letter.
        """
        log = next((each for each in self._plan.logs if _lacking(each, sources)), None)
        if log is not self._log and self._builder.is_empty:
            self._turn_to(log, sources)
        if self._log is None or self._builder.size_bytes >= self._held_bytes:
            return set(), []
        lacking = _lacking(self._log, sources)
        moved, letters = set(), []
        messages = self._read({at: each for at, each in lacking.items() if at not in self._loaded})
        found = by_partition(messages, {at.topic for at in lacking}) if messages else {}
        for at, records in found.items():
            letters += self._take(self._log, at, lacking[at], records)
            moved.add(at)
        for at in self._reached(lacking):
            lacking[at].join(self._log.topic)
            moved.add(at)
        if moved and not _lacking(self._log, sources):
            _log.info("log %s now has all rows of the sources of this process", self._log.topic)
        return moved, letters

    def _turn_to(self, log: LogPlan | None, sources: Sources) -> None:
        if self._consumer is not None:
            self._consumer.close()
        self._log, self._reading = log, set()
        count = len(sources)
        self._consumer = None if log is None else plain_consumer(self._config, partitions=count)

    def _read(self, lacking: Sources) -> list[ReceivedMessage]:
        """Return the next records of sources, as many as fit into a portion."""
        assert self._log is not None
        assert self._consumer is not None
        begins = {at: each.backfills[self._log.topic] for at, each in lacking.items()}
        fresh = [
            TopicPartition(*at, begin.next_offset - lacking[at].shift)
            for at, begin in begins.items()
            if at not in self._reading
        ]
        self.drop(self._reading - lacking.keys())
        if fresh:
            self._consumer.incremental_assign(fresh)
            self._reading.update(lacking)
            self._announce(lacking)
        room = BatchRoom(_PORTION_RECORDS, self._taken_bytes)
        messages: list[ReceivedMessage] = []
        found = self._consumer.consume(1, 0.0)
        while found:
            room.add(found)
            messages += (message for message in found if not _failed(message))
            found = self._consumer.consume(room.messages, 0.0) if room.messages else []
        return messages

    def _announce(self, lacking: Sources) -> None:
        assert self._log is not None
        left = sum(_left(self._log, each) for each in lacking.values())
        _log.info(
            "log %s lacks earlier rows of %s: %d raw records are read again, while ingest goes on",
            self._log.topic,
            ", ".join(map(str, sorted(lacking))),
            left,
        )

    def _take(
        self, log: LogPlan, at: Partition, source: OwnedSource, records: Sequence[ReceivedMessage]
    ) -> list[DeadLetter]:
        """Turn records up to the last commit into rows; return new dead letters."""
        end = bisect_left(records, source.logged_offset - source.shift, key=_offset)
        if not end:
            return []
        done = source.backfills[log.topic]
        # The loads of a static table count from their own times.  So its rows have no watermark,
        # and the clock does not move before the log has all of them.
        is_static = self._plan.source_of(at.topic).static is not None
        loads = is_static or source.loads(done.next_offset)
        before = Progress(done.next_offset, done.watermark_ms, loads)
        first = _offset(records[0])
        begins = before.watermark_ms == NEVER_MS and not before.loading
        if begins and before.next_offset == first + source.shift > 0:
            _log.warning(
                "log %s begins with offset %d of %s, of %s: earlier records are gone",
                log.topic,
                first,
                at,
                datetime.fromtimestamp(records[0].timestamp()[1] / 1000, UTC).isoformat(),
            )
            before = self._behind_the_lost(at, source, records[: min(end, _FIRST_RECORDS)], before)
        batch = record_batch(at, records[:end], now_ms(), source.shift)
        if before.loading and not is_static:
            batch = self._to_load(at, source, batch)
        output = self._ingest.take(batch, before)
        self._builder.add(output)
        letters = list(self._new_letters(log, source, batch, before, output))
        reached = output.progress
        source.backfills[log.topic] = Backfilled(
            reached.next_offset, reached.watermark_ms, done.new_at
        )
        return letters

    def _to_load(self, at: Partition, source: OwnedSource, batch: RecordBatch) -> RecordBatch:
        """Return the records that are loaded; the others are read again after a commit."""
        batch = batch.until(source.load_until or 0)
        if not source.loads(batch.log_next_offset):
            self._loaded.add(at)
            self.drop({at})
        return batch

    def _behind_the_lost(
        self,
        at: Partition,
        source: OwnedSource,
        records: Sequence[ReceivedMessage],
        before: Progress,
    ) -> Progress:
        """Return progress with a watermark, so that operators see which rows the log lacks.

        The first records that are left are at most the delay behind those that are gone.  So those
        that are gone have event times up to the largest of the first ones plus the delay.
        Operators add the delay to the watermark (core/time/watermark.py, ``largest_of``).
        """
        first = record_batch(at, records, now_ms(), source.shift)
        watermark_ms = self._ingest.take(first, before).progress.watermark_ms
        delay = delay_ms(self._plan.source_of(at.topic).watermark)
        return replace(before, watermark_ms=largest_of(watermark_ms, delay))

    def _new_letters(
        self,
        log: LogPlan,
        source: OwnedSource,
        batch: RecordBatch,
        before: Progress,
        output: IngestOutput,
    ) -> Iterator[DeadLetter]:
        """Yield the letters of the records that are dead because of this log.

        Records that were read since the log is there have theirs.
        """
        new_at = source.backfills[log.topic].new_at - source.shift
        if not any(letter.offset < new_at for letter in output.dead_letters):
            return
        topics = (each.topic for each in self._plan.logs)
        known = frozenset(topic for topic in topics if topic not in source.backfills)
        without, with_ = (
            {each.offset: each for each in self._ingest_of(logs).take(batch, before).dead_letters}
            for logs in (known, known | {log.topic})
        )
        yield from (
            letter for offset, letter in with_.items() if offset < new_at and offset not in without
        )

    def _ingest_of(self, logs: frozenset[str]) -> Ingest:
        """Return ingest of the streams of some logs only."""
        if logs not in self._of_logs:
            names = {s.name for log in self._plan.logs if log.topic in logs for s in log.streams}
            sources = [replace(each, graph=each.graph.only(names)) for each in self._plan.sources]
            self._of_logs[logs] = Ingest(replace(self._plan, sources=tuple(sources)), self._writers)
        return self._of_logs[logs]

    def _reached(self, lacking: Sources) -> list[Partition]:
        """Return the sources of which all records before the last commit are taken."""
        assert self._log is not None
        assert self._consumer is not None
        asked = [TopicPartition(*at) for at in sorted(self._reading)]
        positions = {
            Partition(each.topic, each.partition): each.offset
            for each in self._consumer.position(asked)
        }
        return [
            at
            for at, each in lacking.items()
            if not _left(self._log, each)
            or positions.get(at, -1) + each.shift >= each.logged_offset
        ]

    def write(self, outbox: Outbox, partitions: Mapping[str, int]) -> None:
        """Write the segments of the records taken; ``partitions``: by raw topic."""
        if self._log is not None and not self._builder.is_empty:
            write_log(outbox, self._log, self._builder, partitions)
            self._builder.clear()
        self._loaded.clear()

    def lacking(self, log: LogPlan, sources: Sources) -> frozenset[str]:
        """Return the sources of which a log lacks earlier rows: it gets no new ones of them yet."""
        return frozenset(map(str, _lacking(log, sources)))

    def left(self, sources: Sources) -> int:
        """Return the number of records still to read, of all new logs."""
        return sum(_left(log, each) for log in self._plan.logs for each in sources.values())

    def drop(self, partitions: Collection[Partition]) -> None:
        """Stop reading partitions, whose work is committed."""
        gone = self._reading.intersection(partitions)
        if gone and self._consumer is not None:
            self._consumer.incremental_unassign([TopicPartition(*at) for at in gone])
        self._reading -= gone


def _lacking(log: LogPlan, sources: Sources) -> dict[Partition, OwnedSource]:
    """Return the sources of which a log lacks earlier rows."""
    return {at: each for at, each in sources.items() if log.topic in each.backfills}


def _left(log: LogPlan, source: OwnedSource) -> int:
    done = source.backfills.get(log.topic)
    return 0 if done is None else max(0, source.logged_offset - done.next_offset)


def _offset(message: ReceivedMessage) -> int:
    return message.offset() or 0


def _failed(message: Message) -> bool:
    """Return whether a message is an error event that passes by itself; raise other errors."""
    error = message.error()
    if error is None:
        return False
    if hinders_reading(error) and not error.retriable():
        raise KafkaException(error)
    return True
