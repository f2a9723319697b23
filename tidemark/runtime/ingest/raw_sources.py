"""A raw partition as whoever runs ingest owns it, and what is written of it: service and Spark.

All that must be remembered between commits is in the metadata of the committed offset.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient

from tidemark.core.time.segment import SourceMark
from tidemark.errors import StateError
from tidemark.ingest.ingest import Progress
from tidemark.ingest.segment_builder import MAX_BYTES, SegmentBuilder
from tidemark.plan.physical import Plan
from tidemark.runtime.client.commit import Outbox
from tidemark.runtime.client.consumer import Start
from tidemark.runtime.client.progress import VERSION, SourceProgress, check_topic, decode, encode
from tidemark.runtime.client.topics import message_bytes
from tidemark.runtime.ingest.past_marks import PastMarks
from tidemark.runtime.wall_clock import now_ms
from tidemark.serde.segments import encode_segment

EPOCH = 0

_ROOM = 4  # a message may be so much larger than the columns of its segment


@dataclass
class OwnedSource:
    """One raw partition that this process owns."""

    topic_id: str
    progress: Progress
    committed: int
    silent_since_ms: int
    told_ms: int = 0  # the silence that the log was last told of, 0 when awake
    silence_ms: int = 0  # what the next commit tells
    on_spark: bool = False

    @classmethod
    def begun(
        cls, start: Start, topic_id: str, past: PastMarks, *, by_spark: bool = False
    ) -> "OwnedSource":
        """Go on where the last owner of a raw partition stopped.

        Raises:
            StateError: what is committed is of no use, or the source is Spark's.
        """
        at_ms = now_ms()
        if start.metadata is None:
            past.require_new(start.partition)
            return cls(topic_id, Progress(start.offset), -1, at_ms)
        if not start.metadata:
            return cls(topic_id, past.progress(start), start.offset, at_ms)
        told = decode(start.metadata, SourceProgress, str(start.partition))
        check_topic(told, topic_id, str(start.partition))
        _require_free(told, str(start.partition), by_spark=by_spark)
        return cls(
            topic_id,
            Progress(told.next_offset, told.watermark_ms),
            start.offset,
            told.silent_since_ms,
            told.silence_ms,
            told.silence_ms,
            told.on_spark,
        )

    def took(self, progress: Progress, at_ms: int) -> None:
        """Stand after records that were taken at a moment: the source is awake."""
        self.progress = progress
        self.silent_since_ms, self.silence_ms, self.told_ms = at_ms, 0, 0

    def mark(self, source: str) -> SourceMark:
        """Say that the source is silent."""
        offset, watermark_ms = self.progress.next_offset, self.progress.watermark_ms
        return SourceMark(source, offset, offset, watermark_ms, watermark_ms, True, self.silence_ms)

    def metadata(self) -> str:
        """Return what the committed offset carries."""
        return encode(
            SourceProgress(
                VERSION,
                self.topic_id,
                self.progress.next_offset,
                self.progress.watermark_ms,
                self.silent_since_ms,
                self.silence_ms,
                on_spark=self.on_spark,
            )
        )


def segment_builder(admin: AdminClient, plan: Plan) -> SegmentBuilder:
    """Return a builder whose segments the logs take."""
    most = message_bytes(admin, [log.topic for log in plan.logs]) // _ROOM
    return SegmentBuilder(EPOCH, min(MAX_BYTES, most))


def _require_free(told: SourceProgress, where: str, *, by_spark: bool) -> None:
    if told.handing_over:
        raise StateError(
            f"{where}: a hand-over from Spark is under way; where it has ended without success, "
            "'tidemark replay PIPELINE --into-live --from raw' completes it, or 'tidemark reset "
            "PIPELINE' starts the pipeline afresh"
        )
    if told.on_spark and not by_spark:
        raise StateError(
            f"{where}: Spark works on it; end 'tidemark run --on spark PIPELINE', or where that "
            "was killed, give it back with --release"
        )


def write_segments(
    outbox: Outbox,
    plan: Plan,
    builder: SegmentBuilder,
    partitions: Mapping[str, int],
    marks: Sequence[SourceMark] = (),
) -> None:
    """Write what a builder has to the logs, with the marks of sources that are silent.

    ``partitions``: of each raw topic, as known now.
    """
    for log in plan.logs:
        built = builder.build(log, now_ms(), partitions, marks)
        for partition, segments in enumerate(built):
            values = list(map(encode_segment, segments))
            outbox.write(log.topic, partition, [None] * len(values), values)
