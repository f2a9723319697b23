"""The position of ingest during a hand-over that it must not disturb, and after it.

Its offsets stay.  If ingest runs again over the raw topics, the logs are built from the same
records.  Its watermarks may change with the program then: they become those of ingest run again.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tidemark.core.time.segment import NEVER_MS
from tidemark.errors import ConfigurationError, StateError
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.client.progress import SourceProgress, check_topic, decode, encode
from tidemark.runtime.client.topics import require_raw, short_ids, topic_ids
from tidemark.runtime.config import Config
from tidemark.spark.outcome import Outcome, SourcePosition
from tidemark.spark.read.live_position import committed_positions
from tidemark.spark.read.ranges import Ranges


@dataclass(frozen=True)
class IngestPosition:
    """The committed position of ingest; ``runs_again``: whether ingest runs again."""

    config: Config
    admin: AdminClient
    plan: Plan
    runs_again: bool

    @property
    def group(self) -> str:
        """The consumer group of ingest."""
        return self.plan.group("ingest")

    def require_logs(self, ranges: Ranges) -> None:
        """Require that every log has segments, if ingest has read rows for it.

        Raises:
            ConfigurationError: a log is empty, because it is new.  The message names it.
        """
        if not self.runs_again:
            self._require_rows()
            return
        read = {at.topic for at, _, past in self._sources() if past.watermark_ms != NEVER_MS}
        for log in self.plan.logs:
            ends = {at: end for at, end in ranges.ends.items() if at.topic == log.topic}
            if not ranges.to(ends).length and any(map(log.reads, read)):
                raise ConfigurationError(
                    f"log {log.topic} is empty, so the cuts of ingest are unknown; "
                    "'tidemark reset PIPELINE' starts the pipeline afresh from its raw topics"
                )

    def _require_rows(self) -> None:
        """Require that every log has the rows of all raw records that ingest has read."""
        sources = [*self._sources()]
        raw = [at.topic for at, _, _ in sources]
        logs = [log for log in self.plan.logs if any(map(log.reads, raw))]
        ids = short_ids(self.admin, [log.topic for log in logs])
        for at, _, past in sources:
            for log in logs:
                known = past.logs is None or ids[log.topic] in past.logs
                if past.watermark_ms != NEVER_MS and log.reads(at.topic) and not known:
                    raise ConfigurationError(
                        f"log {log.topic} lacks the rows of {at}: ingest has not built it; "
                        "'tidemark reset PIPELINE --delete-results' computes everything from the "
                        "raw topics"
                    )

    def marked(self, mark: str) -> list[TopicPartition]:
        """Return the offsets with the mark of a hand-over that is under way."""
        return [
            _offset(at, offset, msgspec.structs.replace(past, handing_over=mark))
            for at, offset, past in self._sources()
        ]

    def moved(self, outcomes: Iterable[Outcome]) -> list[TopicPartition]:
        """Return the offsets from which ingest continues, with the watermarks if they are new.

        Raises:
            StateError: the logs end at another raw offset than ingest.
        """
        if not self.runs_again:
            return self.marked("")
        reached: dict[str, SourcePosition] = {}
        for outcome in outcomes:
            for name, each in outcome.sources.items():
                reached[name] = max(each, reached.get(name, each), key=lambda r: r.next_offset)
        return [
            _offset(at, offset, _moved(at, past, reached)) for at, offset, past in self._sources()
        ]

    def _sources(self) -> Iterator[tuple[Partition, int, SourceProgress]]:
        """Yield the partition, committed offset and progress of every source with a commit."""
        counts = require_raw(self.admin, self.plan)
        ids = topic_ids(self.admin, counts)
        sources = [Partition(topic, n) for topic in sorted(counts) for n in range(counts[topic])]
        for each in committed_positions(self.config, self.group, sources):
            at = Partition(each.topic, each.partition)
            if each.offset >= 0:
                past = decode(each.metadata or "", SourceProgress, str(at))
                check_topic(past, ids[at.topic], str(at))
                if past.on_spark:
                    raise StateError(f"{at}: Spark works on it; end 'tidemark run --on spark'")
                if past.backfills:
                    raise StateError(
                        f"{at}: a new log still lacks earlier rows; let the ingest service run "
                        "until its log says that it has them"
                    )
                if past.shift and self.runs_again:
                    raise StateError(
                        f"{at}: the raw topic was created again, so it lacks records of the log; "
                        "replay from the log"
                    )
                yield at, each.offset, past


def _moved(
    at: Partition, past: SourceProgress, reached: Mapping[str, SourcePosition]
) -> SourceProgress:
    end = reached.get(str(at))
    if end is None and past.watermark_ms == NEVER_MS:
        return msgspec.structs.replace(past, handing_over="")
    if end is None or end.next_offset != past.next_offset:
        ends = "have none of its records" if end is None else f"end at offset {end.next_offset}"
        raise StateError(
            f"{at}: ingest has read up to offset {past.next_offset}, the logs {ends}; ingest did "
            "not write these logs"
        )
    return msgspec.structs.replace(
        past, watermark_ms=end.watermark_ms, unflushed_ms=None, handing_over=""
    )


def _offset(at: Partition, offset: int, progress: SourceProgress) -> TopicPartition:
    return TopicPartition(*at, offset, metadata=encode(progress))
