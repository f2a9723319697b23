"""Flushes a pipeline: one transaction writes flush records to all partitions of its raw topics.

See docs/semantics.md, "Flush".
"""

from collections.abc import Iterable, Iterator, Mapping

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tidemark.core.time.event_time import instant_text
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.time.watermark import Bounded
from tidemark.errors import ConfigurationError, InfrastructureError
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.client import clients
from tidemark.runtime.client.consumer import committed_ends
from tidemark.runtime.client.offline_group import committed_offsets
from tidemark.runtime.client.producer import produce_when_there_is_room
from tidemark.runtime.client.progress import SourceProgress, decode
from tidemark.runtime.client.topics import compacted, require_raw
from tidemark.runtime.client.transaction import STEP_S, committed, persist
from tidemark.runtime.config import Config
from tidemark.runtime.retry import poll
from tidemark.serde.formats.flushes import HEADER, flush_header

_PAUSE_S = 1.0  # each question needs a consumer
_ANSWER_S = 30.0
_FENCED = (
    "another process flushes this pipeline, and has ended the transaction of this one: this flush "
    "is not written; run the command again when the other one has ended"
)


class PipelineFlush:
    """One flush: the constructor finds its time, ``lines`` shows it, ``run`` writes the records."""

    def __init__(
        self, config: Config, admin: AdminClient, plan: Plan, until_ms: int | None, wait_s: float
    ) -> None:
        """Find the time of the flush: ``until_ms``, by default the end of all that is open.

        ``wait_s``: how long ingest may take to read all records, and then the flush.

        Raises:
            ConfigurationError: ``until_ms`` is needed, or the time is out of range.
            InfrastructureError: ingest has not read all records in time.
        """
        self._config, self._admin, self._plan, self._wait_s = config, admin, plan, wait_s
        self._topics = flushed_topics(plan, require_raw(admin, plan))
        self._sources = [
            Partition(topic, number)
            for topic, count in self._topics.items()
            for number in range(count)
        ]
        self.until_ms = self._end_ms() if until_ms is None else until_ms
        self._header = flush_header(plan.pipeline, self.until_ms)

    def _end_ms(self) -> int:
        """Return the time when all that is open now has ended."""
        for source in self._plan.sources:
            if source.static is None and not isinstance(source.watermark, Bounded):
                raise ConfigurationError(
                    f"source {source.name} has the watermark {source.watermark.written}, which "
                    "does not bound the age of its rows: give --until TIME"
                )
        if not self._await(committed_ends(self._admin, self._sources)):
            raise InfrastructureError(
                f"ingest has not read all records within {self._wait_s:g} s, so the end of what is "
                "open is unknown: start ingest, let it catch up, or give --until TIME"
            )
        largest_ms = max(map(_unflushed_ms, self._committed(self._sources)), default=NEVER_MS)
        if largest_ms == NEVER_MS:
            raise ConfigurationError(
                "ingest has read no record with an event time: nothing is open"
            )
        return largest_ms + self._plan.horizon_ms

    def _await(self, ends: Mapping[Partition, int]) -> bool:
        """Wait until ingest has committed these offsets; return whether it has."""

        def are_read() -> bool:
            found = self._committed(ends)
            return all(
                each.offset >= end for each, end in zip(found, ends.values(), strict=True) if end
            )

        return poll(are_read, for_s=self._wait_s, pause_s=_PAUSE_S)

    def _committed(self, wanted: Iterable[Partition]) -> list[TopicPartition]:
        return committed_offsets(self._config, self._plan.group("ingest"), wanted, _ANSWER_S)

    def lines(self) -> Iterator[str]:
        """Yield what the flush does, a line for each topic."""
        until = instant_text(self.until_ms)
        yield f"close what ends by {until}; what comes later and is older is late"
        for topic, count in self._topics.items():
            yield f"write a flush record to {count} partitions of {topic}"

    def run(self) -> bool:
        """Write the records; return whether ingest has read them in time.

        Raises:
            InfrastructureError: another process flushes the pipeline, or it is unknown where a
                record is, so ingest cannot be awaited.
        """
        keyed = compacted(self._admin, [*self._topics])
        name = f"{self._plan.pipeline}.flush"
        producer = clients.transactional_producer(self._config, name, reports=True)
        persist(lambda: producer.init_transactions(STEP_S))
        written: dict[Partition, int] = {}
        with committed(producer, _FENCED):
            for at in self._sources:
                key = HEADER.encode() if at.topic in keyed else None
                self._write(producer, at, key, written)
        if unknown := [at for at in self._sources if at not in written]:
            raise InfrastructureError(
                f"{unknown[0]}: the flush is written, but the client does not say at which offset; "
                "the log of ingest names it once it is read"
            )
        return self._await({at: offset + 1 for at, offset in written.items()})

    def _write(
        self, producer: Producer, at: Partition, key: bytes | None, written: dict[Partition, int]
    ) -> None:
        def delivered(error: object, message: object) -> None:
            if error is None:  # else the commit fails
                written[at] = message.offset()  # type: ignore[attr-defined]

        produce_when_there_is_room(
            producer,
            lambda: producer.produce(
                at.topic, None, key, at.number, headers=[self._header], on_delivery=delivered
            ),
        )


def flushed_topics(plan: Plan, counts: Mapping[str, int]) -> dict[str, int]:
    """Return the partition counts of the raw topics that a flush writes to: no static tables."""
    return {topic: n for topic, n in counts.items() if plan.source_of(topic).static is None}


def _unflushed_ms(committed: TopicPartition) -> int:
    """Return the watermark of a source without its flush records, so that none adds to another."""
    if not committed.metadata:
        return NEVER_MS
    where = f"{committed.topic}/{committed.partition}"
    progress = decode(committed.metadata, SourceProgress, where)
    return progress.watermark_ms if progress.unflushed_ms is None else progress.unflushed_ms
