"""The driver of ingest on Spark: it selects the ranges of each micro-batch and logs silence.

The driver reads committed offsets and ends, and gives Spark the next ranges.  It handles itself
what no record shows: a source that is silent, a new source, and a source with nothing but control
records.  For these it commits the segments and offsets that the ingest service would commit.

Alignment works per micro-batch: a source more than ``max_drift`` ahead gets no range.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from tidemark.errors import StateError
from tidemark.ingest.segment_builder import EPOCH, SegmentBuilder
from tidemark.ingest.silence import to_mark
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.client import clients
from tidemark.runtime.client.consumer import EARLIEST, LATEST, Start, committed_ends, offsets
from tidemark.runtime.client.silence import ASK_EVERY_MS
from tidemark.runtime.client.topics import require_raw, topic_ids
from tidemark.runtime.client.transaction import Transaction, transaction
from tidemark.runtime.config import Config
from tidemark.runtime.ingest.alignment import Alignment, max_drifts_ms
from tidemark.runtime.ingest.loading import Loading
from tidemark.runtime.ingest.new_logs import NewLogs
from tidemark.runtime.ingest.past_marks import PastMarks
from tidemark.runtime.ingest.raw_sources import OwnedSource, write_segments
from tidemark.runtime.ingest.static_tables import StaticTables
from tidemark.runtime.wall_clock import now_ms
from tidemark.spark.progress import event_time
from tidemark.spark.read.live_position import committed_positions
from tidemark.spark.read.ranges import Ranges
from tidemark.spark.read.segment_rows import ddl
from tidemark.spark.read.source import raw_records
from tidemark.spark.replay.replay import one_line_errors
from tidemark.spark.services.ingest_batch import INGEST_COUNTS, IngestBatch
from tidemark.statics.rows import require_files

_log = logging.getLogger("tidemark")

_MOST_OFFSETS = 500_000  # of a raw partition in a micro-batch
_MOST_ALIGNED = 20_000  # the same, of a source with max_drift

Sources = Mapping[Partition, OwnedSource]


@dataclass
class IngestDriver:
    """Runs the ingest service of a plan on Spark; ``name``: the driver's transactional id."""

    config: Config
    admin: AdminClient
    plan: Plan
    name: str
    _driver: tuple[Transaction, Consumer] | None = None
    _listened_ms: int = 0
    _runs: bool = False
    _statics: StaticTables | None = None
    _reported: set[str] = field(default_factory=set)  # disputes
    _past: PastMarks = field(init=False)
    _alignment: Alignment = field(init=False)

    def __post_init__(self) -> None:
        """Send no request yet."""
        self._past = PastMarks(self.config, self.admin, self.plan)
        self._alignment = Alignment(max_drifts_ms(self.plan))

    @property
    def group(self) -> str:
        """The consumer group of ingest."""
        return self.plan.group("ingest")

    def partitions(self) -> list[Partition]:
        """Return every raw partition that exists."""
        return [
            Partition(topic, n) for topic, count in self._counts().items() for n in range(count)
        ]

    def _counts(self) -> dict[str, int]:
        """Return the partitions of raw topics; a topic of two sources ends the start alone."""
        on_dispute = self._report if self._runs else None
        counts = require_raw(self.admin, self.plan, on_dispute=on_dispute)
        self._runs = True
        return counts

    def _report(self, dispute: str) -> None:
        if dispute not in self._reported:
            self._reported.add(dispute)
            _log.warning("%s. The topic is not read, and the others go on", dispute)

    def sources(self) -> dict[Partition, OwnedSource]:
        """Return the state of ingest in every raw partition; ``committed`` is -1 for a new one.

        Raises:
            StateError: a committed offset is unusable, or the next records were deleted.
        """
        partitions = self.partitions()
        ids = topic_ids(self.admin, {at.topic for at in partitions})
        begins = offsets(self.admin, partitions, EARLIEST)
        new_logs = NewLogs(self.admin, self.plan, self._past)
        loading = Loading(self.admin, self.plan)
        found = {}
        for each in committed_positions(self.config, self.group, partitions):
            at = Partition(each.topic, each.partition)
            start = Start(at, each.offset, each.metadata or "")
            if each.offset < 0:
                start = Start(at, begins[at], None)
            elif each.offset < begins[at]:
                raise StateError(
                    f"{at}: offset {each.offset} is gone, the topic begins at {begins[at]}: "
                    "records were deleted before ingest had read them"
                )
            found[at] = OwnedSource.from_commit(
                start, ids[at.topic], self._past, new_logs, loading, by_spark=True
            )
        return found

    def marked(self, *, on_spark: bool) -> list[TopicPartition]:
        """Return the offsets with a mark of their owner: Spark, or the service."""
        return [_offset(at, each, on_spark=on_spark) for at, each in self.sources().items()]

    def batch(self, spark: SparkSession) -> int:
        """Process new records; return how many there were."""
        counts = self._counts()
        self._load(counts)
        sources = self.sources()
        self._begin({at: each for at, each in sources.items() if each.committed < 0})
        asked_ms = now_ms()
        ends = offsets(self.admin, sources, LATEST)
        ranges = self._next(sources)
        rows = self._work(spark, ranges, counts) if ranges.length else {}
        positions = {at: ranges.ends.get(at, each.committed) for at, each in sources.items()}
        quiet = {at: each for at, each in sources.items() if at not in rows}
        self._listen(quiet, positions, ends, counts, asked_ms)
        return sum(rows.values())

    def _load(self, topics: Iterable[str]) -> None:
        """Load static tables at the start, and again when that is due."""
        if self._statics is None:
            self._statics = StaticTables(self.config, self.admin, self.plan)
            require_files(self.plan.sources)
            self._statics.begin((Partition(topic, 0) for topic in topics), now_ms())
        self._statics.poll(now_ms())

    def _begin(self, new: Sources) -> None:
        """Commit new sources at their start, before any segment has their marks."""
        if new:
            self._commit([_offset(at, each, on_spark=True) for at, each in new.items()])
        for each in new.values():
            each.committed, each.on_spark = each.progress.next_offset, True

    def _next(self, sources: Sources) -> Ranges:
        """Return the records that were not read yet, limited to a micro-batch."""
        there = committed_ends(self.admin, sources)
        aligned = {
            at: each.progress.watermark_ms
            for at, each in sources.items()
            if self._alignment.aligns(at.topic, each.progress) and each.silence_ms == 0
        }
        ends = {}
        for at, each in sources.items():
            covered = self._alignment.aligns(at.topic, each.progress)
            if there[at] <= each.committed:
                continue
            watermarks = {**aligned, at: each.progress.watermark_ms}
            if not covered or self._alignment.allows(at, watermarks):
                most = _MOST_ALIGNED if covered else _MOST_OFFSETS
                ends[at] = min(there[at], each.committed + most)
        return Ranges({at: sources[at].committed for at in ends}, ends)

    def _work(
        self, spark: SparkSession, ranges: Ranges, counts: Mapping[str, int]
    ) -> dict[Partition, int]:
        """Run ingest on Spark; return the number of records by source, without idle sources."""
        batch = IngestBatch(self.plan, self.config, dict(ranges.ends), counts)
        with one_line_errors():
            counts_ = raw_records(spark, self.config, ranges).mapInArrow(batch, ddl(INGEST_COUNTS))
            rows = counts_.collect()
        if rows:
            _log.info(
                "records=%d dead=%d watermark=%s",
                sum(row.records for row in rows),
                sum(row.dead for row in rows),
                event_time(min(row.watermark_ms for row in rows)),
            )
        return {Partition(row.topic, row.partition): row.records for row in rows}

    def _listen(
        self,
        quiet: Sources,
        positions: Mapping[Partition, int],
        ends: Mapping[Partition, int],
        counts: Mapping[str, int],
        asked_ms: int,
    ) -> None:
        """Write the marks of silent sources that ``to_mark`` names, at most once a second."""
        if asked_ms - self._listened_ms < ASK_EVERY_MS:
            return
        self._listened_ms = asked_ms
        moved = {at: each for at, each in quiet.items() if positions[at] > each.committed}
        silences = {
            at: each.silence(asked_ms) for at, each in quiet.items() if positions[at] >= ends[at]
        }
        marked = to_mark(silences, self.plan, is_written=False)
        for at in marked:
            quiet[at].silence_ms = silences[at].lasted_ms
        for at, each in moved.items():
            each.reach(positions[at])
        changed = moved | {at: quiet[at] for at in marked}
        if changed:
            marks = [quiet[at].mark(str(at)) for at in marked]
            write_segments(self._open()[0], self.plan, SegmentBuilder(EPOCH), counts, marks)
            self._commit([_offset(at, each, on_spark=True) for at, each in changed.items()])

    def _open(self) -> tuple[Transaction, Consumer]:
        """Return the driver's own producer and consumer; fence those of another driver."""
        if self._driver is None:
            opened = transaction(self.config, self.name)
            self._driver = opened, clients.plain_consumer(self.config, self.group)
        return self._driver

    def _commit(self, commits: list[TopicPartition]) -> None:
        opened, consumer = self._open()
        opened.commit(commits, consumer)


def _offset(at: Partition, source: OwnedSource, *, on_spark: bool) -> TopicPartition:
    offset = source.committed if source.committed >= 0 else source.progress.next_offset
    metadata = replace(source, on_spark=on_spark).metadata()
    return TopicPartition(*at, offset, metadata=metadata)
