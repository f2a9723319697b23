"""A raw partition that ingest owns, and the writing of its segments; for the service and Spark.

The metadata of the committed offset holds everything that must survive between commits.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from tidemark.core.time.segment import SourceMark
from tidemark.errors import StateError
from tidemark.ingest.ingest import Progress
from tidemark.ingest.segment_builder import SegmentBuilder
from tidemark.ingest.silence import Silence
from tidemark.plan.physical import LogPlan, Plan
from tidemark.runtime.client.commit import Outbox
from tidemark.runtime.client.consumer import Start
from tidemark.runtime.client.progress import (
    VERSION,
    Backfilled,
    SourceProgress,
    check_topic,
    decode,
    encode,
    on_spark_error,
)
from tidemark.runtime.ingest.loading import Loading
from tidemark.runtime.ingest.new_logs import NewLogs
from tidemark.runtime.ingest.past_marks import PastMarks
from tidemark.runtime.service.stats import SourceStats, instant
from tidemark.runtime.wall_clock import now_ms
from tidemark.serde.segments import encode_segment


@dataclass
class OwnedSource:
    """The state of one raw partition that this process owns.

    ``committed`` is an offset of the raw topic; ``progress``, ``logged_offset`` and ``backfills``
    have offsets of the log, which are higher by ``shift``.  So has ``load_until``: see loading.py.
    """

    topic_id: str
    progress: Progress
    committed: int
    silent_since_ms: int
    logged_silence_ms: int = 0  # silence in the last mark in the log, 0 if awake
    silence_ms: int = 0  # silence that the next commit writes
    on_spark: bool = False
    shift: int = 0
    log_ids: Mapping[str, str] = field(default_factory=dict)  # of the logs that the source feeds
    backfills: dict[str, Backfilled] = field(default_factory=dict)  # in logs that lack earlier rows
    load_until: int | None = None

    def __post_init__(self) -> None:
        self.logged_offset = self.progress.next_offset
        """The end of the last mark in the logs that lack nothing."""
        self.progress = replace(self.progress, loading=self.loads(self.progress.next_offset))

    @classmethod
    def from_commit(
        cls,
        start: Start,
        topic_id: str,
        past: PastMarks,
        new_logs: NewLogs,
        loading: Loading,
        *,
        by_spark: bool = False,
    ) -> "OwnedSource":
        """Return the state that the last owner of a raw partition committed.

        Raises:
            StateError: the committed state is unusable, or the source belongs to Spark.
        """
        at_ms = now_ms()
        log_ids = new_logs.ids(start.partition.topic)
        if start.metadata is None:
            past.require_new(start.partition)
            progress, offset = Progress(start.offset), -1
        elif not start.metadata:
            progress, offset = past.progress(start), start.offset
        if not start.metadata:
            until = loading.until(start.partition, progress)
            return cls(topic_id, progress, offset, at_ms, log_ids=log_ids, load_until=until)
        committed = decode(start.metadata, SourceProgress, str(start.partition))
        remedy = f"'tidemark reset PIPELINE --source {start.partition.topic}' starts it afresh"
        check_topic(committed, topic_id, str(start.partition), remedy)
        _require_free(committed, str(start.partition), by_spark=by_spark)
        backfills = new_logs.backfills(start.partition, committed)
        if by_spark and backfills:
            raise StateError(
                f"{start.partition}: log {', '.join(backfills)} lacks earlier rows; Spark does not "
                "read them again: run the ingest service until its log says that it has them"
            )
        progress = Progress(
            committed.next_offset, committed.watermark_ms, unflushed_ms=committed.unflushed_ms
        )
        return cls(
            topic_id,
            progress,
            start.offset,
            committed.silent_since_ms,
            committed.silence_ms,
            committed.silence_ms,
            committed.on_spark,
            committed.shift,
            log_ids,
            backfills,
            loading.until(start.partition, progress, committed.shift, committed.load_until),
        )

    def join(self, log: str) -> None:
        """Let a log that now has all rows up to ``logged_offset`` get the next segments.

        The log does not know yet that the source is silent, so the next commit marks it again.
        """
        del self.backfills[log]
        self.logged_silence_ms = 0

    def took(self, progress: Progress, at_ms: int) -> None:
        """Note records taken at ``at_ms`` (wall clock): the source is awake."""
        self.progress = progress
        self.silent_since_ms, self.silence_ms, self.logged_silence_ms = at_ms, 0, 0

    def loads(self, log_offset: int) -> bool:
        """Whether a record at an offset of the log is loaded."""
        return self.load_until is not None and log_offset < self.load_until

    def reach(self, position: int) -> None:
        """Note that a commit has all that the raw partition has before an offset.

        It ends the loading of the source if it has all that is to be loaded.
        """
        self.committed = position
        if self.progress.loading and not self.loads(position + self.shift):
            self.load_until = self.progress.next_offset
            self.progress = replace(self.progress, loading=False)

    def silence(self, asked_ms: int) -> Silence:
        """Return the silence of a source that had nothing more to read at ``asked_ms``."""
        return Silence(self.logged_silence_ms, asked_ms - self.silent_since_ms)

    def mark(self, source: str) -> SourceMark:
        """Return the mark that says that the source is silent."""
        return self.progress.idle_mark(source, self.silence_ms)

    def stats(self, source: str, load_failures: int) -> SourceStats:
        """Return the state of the source for the stats; ``load_failures``: of a static table."""
        watermark = instant(self.progress.shown_ms)
        is_silent = self.silence_ms > 0
        left = (self.load_until or 0) - self.progress.next_offset if self.progress.loading else 0
        since_ms, silence_ms = self.silent_since_ms, self.silence_ms
        return SourceStats(source, watermark, is_silent, silence_ms, since_ms, left, load_failures)

    def metadata(self) -> str:
        """Return the metadata of the committed offset."""
        return encode(
            SourceProgress(
                VERSION,
                self.topic_id,
                self.progress.next_offset,
                self.progress.watermark_ms,
                self.silent_since_ms,
                self.silence_ms,
                on_spark=self.on_spark,
                logs=sorted(
                    each for log, each in self.log_ids.items() if log not in self.backfills
                ),
                backfills={self.log_ids[log]: done for log, done in self.backfills.items()},
                shift=self.shift,
                load_until=self.load_until,
                unflushed_ms=self.progress.unflushed_ms,
            )
        )


def _require_free(committed: SourceProgress, where: str, *, by_spark: bool) -> None:
    if committed.handing_over:
        raise StateError(
            f"{where}: a hand-over from Spark is under way; if it has failed, 'tidemark replay "
            "PIPELINE --into-live', with the options that it had, completes it, or 'tidemark "
            "reset PIPELINE' starts the pipeline afresh"
        )
    if committed.on_spark and not by_spark:
        raise on_spark_error(where)


def write_segments(
    outbox: Outbox,
    plan: Plan,
    builder: SegmentBuilder,
    partitions: Mapping[str, int],
    marks: Sequence[SourceMark] = (),
    lacking: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> None:
    """Write the segments of a builder to the logs, with the marks of silent sources.

    ``partitions``: the known number of partitions, by raw topic.  ``lacking``: by log, the sources
    of which it lacks earlier rows.
    """
    for log in plan.logs:
        write_log(outbox, log, builder, partitions, marks, lacking.get(log.topic, ()))


def write_log(
    outbox: Outbox,
    log: LogPlan,
    builder: SegmentBuilder,
    partitions: Mapping[str, int],
    marks: Sequence[SourceMark] = (),
    without: Collection[str] = (),
) -> None:
    """Write the segments of a builder to one log; ``without``: sources to leave out."""
    built = builder.build(log, now_ms(), partitions, marks, without)
    for partition, segments in enumerate(built):
        values = list(map(encode_segment, segments))
        outbox.write(log.topic, partition, [None] * len(values), values)
