"""Reads logs, results and raw records of a running pipeline, up to the present ends."""

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from confluent_kafka import Message
from confluent_kafka.admin import AdminClient, OffsetSpec

from tidemark.core.time.segment import Segment
from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan, Plan, PortPlan, SourcePlan
from tidemark.runtime.client.batches import record_batch
from tidemark.runtime.client.consumer import EARLIEST, committed_ends, offsets
from tidemark.runtime.client.range_reader import Range, read
from tidemark.runtime.client.topics import partition_counts, require
from tidemark.runtime.config import Config
from tidemark.runtime.wall_clock import now_ms
from tidemark.serde.avro_results import AvroEncoder
from tidemark.serde.records import RecordBatch
from tidemark.serde.segments import segment_at

_BATCH_RECORDS = 5_000


class Record(NamedTuple):
    """A published record: its offset, its message key, and its fields."""

    offset: int
    key: bytes
    fields: Mapping[str, Any]


def chosen_operator(plan: Plan, name: str | None) -> OperatorPlan:
    """Return an operator by its name; the only one if the name is None.

    Raises:
        ConfigurationError: no operator has the name, or the name is None and there are several.
    """
    names = [each.name for each in plan.operators]
    if name is None and len(names) == 1:
        return plan.operators[0]
    found = [each for each in plan.operators if each.name == name]
    if not found:
        said = "--operator is needed" if name is None else f"--operator {name!r}"
        raise ConfigurationError(f"{said}: the operators of {plan.pipeline} are {', '.join(names)}")
    return found[0]


@dataclass(frozen=True)
class Bound:
    """How much is read at most: ``offsets`` of each partition, and ``size_bytes`` of all values.

    Of a longer partition, the part that was written since ``since_ms`` is read.
    """

    offsets: int
    size_bytes: int
    since_ms: int


class Reading:
    """What a pipeline has on its broker."""

    def __init__(
        self, config: Config, admin: AdminClient, plan: Plan, bound: Bound | None = None
    ) -> None:
        """``plan``: the placed plan.  ``bound``: None to read all."""
        self.config, self.admin, self.plan = config, admin, plan
        self.unread: list[str] = []
        """Sentences that name what the bound has left out."""
        self._bound = bound
        self._size_bytes = 0

    def segments(self, plan: OperatorPlan, partition: int) -> Iterator[tuple[int, Segment]]:
        """Yield the segments of a log partition with their offsets, for an operator.

        Raises:
            ConfigurationError: the log does not exist.
        """
        require(self.admin, [plan.log])
        at = Partition(plan.log, partition)
        for message in self._messages(self._ranges([at])):
            offset = message.offset() or 0
            yield offset, segment_at(at, offset, message.value() or b"", plan.operator.streams)

    def published(
        self, port: PortPlan, partition: int | None = None, keys: Container[bytes] | None = None
    ) -> Iterator[Record]:
        """Yield the records of a port's topic; of one partition and of message keys, if given.

        Raises:
            ConfigurationError: the topic does not exist.
        """
        decode = AvroEncoder(port.topic, port.port).decode if port.format == "avro" else json.loads
        count = require(self.admin, [port.topic])[port.topic]
        numbers = range(count) if partition is None else [partition]
        for message in self._messages(self._ranges([Partition(port.topic, n) for n in numbers])):
            key, value = message.key() or b"", message.value()
            if value is None or (keys is not None and key not in keys):
                continue
            yield Record(message.offset() or 0, key, decode(value))

    def raw_topics(self, sources: Iterable[SourcePlan]) -> list[str]:
        """Return the raw topics of sources that exist, also those that a pattern matches."""
        found = list(sources)
        return [
            topic
            for topic in sorted(partition_counts(self.admin))
            if any(source.reads(topic) for source in found)
        ]

    def raw_batches(self, topics: Iterable[str], since_ms: int | None) -> Iterator[RecordBatch]:
        """Yield the records of raw topics in batches; ``since_ms``: by their Kafka timestamps."""
        counts = partition_counts(self.admin)
        every = [Partition(topic, n) for topic in topics for n in range(counts.get(topic, 0))]
        first = EARLIEST if since_ms is None else OffsetSpec.for_timestamp(since_ms)
        ranges = {
            at: (begin, end)
            for at, (begin, end) in self._ranges(every, first).items()
            if begin < end
        }
        for at, bounds in ranges.items():
            held: list[Message] = []
            for message in self._messages({at: bounds}):
                held.append(message)
                if len(held) == _BATCH_RECORDS:
                    yield record_batch(at, held, now_ms())
                    held = []
            if held:
                yield record_batch(at, held, now_ms())

    def _ranges(
        self, partitions: Sequence[Partition], first: OffsetSpec = EARLIEST
    ) -> dict[Partition, Range]:
        """Return a first offset of each partition, and the end of its committed records."""
        begins = offsets(self.admin, partitions, first)
        ends = committed_ends(self.admin, partitions)
        # No offset is first if all records are older than a time.
        from_of = {at: begin if begin >= 0 else ends[at] for at, begin in begins.items()}
        return self._cut({at: (from_of[at], ends[at]) for at in partitions})

    def _cut(self, ranges: dict[Partition, Range]) -> dict[Partition, Range]:
        """Return ranges that are no longer than the bound."""
        bound = self._bound
        if bound is None:
            return ranges
        long = [at for at, (begin, end) in ranges.items() if end - begin > bound.offsets]
        since = OffsetSpec.for_timestamp(bound.since_ms)
        for at, written in (offsets(self.admin, long, since) if long else {}).items():
            begin, end = ranges[at]
            last = end - bound.offsets
            first = max(begin, min(written, last) if written >= 0 else last)
            ranges[at] = first, min(end, first + bound.offsets)
            self.unread.append(
                f"{at}: only offsets {first} to {ranges[at][1]} of {begin} to {end} are read"
            )
        return ranges

    def _messages(self, ranges: Mapping[Partition, Range]) -> Iterator[Message]:
        """Yield the messages of one partition, or of several if there is no bound."""
        if self._is_full:  # a consumer would be made and fetch for nothing
            for at, (begin, end) in ranges.items():
                if begin < end:
                    self._leave(at, begin)
            return
        for message in read(self.config, ranges):
            if self._is_full:
                at = Partition(message.topic() or "", message.partition() or 0)
                self._leave(at, message.offset() or 0)
                return
            self._size_bytes += len(message.value() or b"")
            yield message

    @property
    def _is_full(self) -> bool:
        return self._bound is not None and self._size_bytes > self._bound.size_bytes

    def _leave(self, at: Partition, offset: int) -> None:
        """Note that a partition is not read from an offset on, because enough bytes are read."""
        assert self._bound is not None
        self.unread.append(
            f"{at}: nothing is read from offset {offset} on, after "
            f"{self._bound.size_bytes >> 20} MiB"
        )
