"""What a run left on the broker: raw records and everything that services wrote, as committed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient

from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.plan.topics import own_topics
from tidemark.runtime.client import topics
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.config import Config

Message = tuple[bytes | None, bytes | None]
"""Key and value."""


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record of a raw topic."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class Recorded:
    """Every partition of a pipeline, in order.  ``ends``: of the raw partitions."""

    raw: Mapping[Partition, Sequence[RawRecord]]
    ends: Mapping[Partition, int]
    own: Mapping[Partition, Sequence[Message]]

    def values(self, topic: str) -> list[bytes]:
        """Return the values of a topic, partition by partition."""
        return [
            value or b""
            for at, messages in sorted(self.own.items())
            if at.topic == topic
            for _, value in messages
        ]


def record(config: Config, admin: AdminClient, plan: Plan) -> Recorded:
    """Read all topics of a pipeline but its changelogs."""
    counts = topics.partition_counts(admin)
    raw = _partitions(counts, plan.named_topics)
    outputs = [name for each in plan.operators for name in each.topics]
    own = _partitions(counts, [log.topic for log in plan.logs] + [plan.dead_letters, *outputs])
    begin, end = (offsets(admin, [*raw, *own], which) for which in (EARLIEST, LATEST))
    found_raw: dict[Partition, list[RawRecord]] = {at: [] for at in raw}
    found_own: dict[Partition, list[Message]] = {at: [] for at in own}
    for message in read(config, {at: (begin[at], end[at]) for at in (*raw, *own)}):
        at = Partition(message.topic() or "", message.partition() or 0)
        if at in found_own:
            found_own[at].append((message.key(), message.value()))
        else:
            found_raw[at].append(
                RawRecord(
                    message.offset() or 0, message.timestamp()[1], message.key(), message.value()
                )
            )
    return Recorded(found_raw, {at: end[at] for at in raw}, found_own)


def open_ended(admin: AdminClient, plan: Plan) -> list[Partition]:
    """Return the partitions whose last transaction is open still."""
    counts = topics.partition_counts(admin)
    names = [topic.name for topic in own_topics(plan)]
    partitions = [TopicPartition(*at) for at in _partitions(counts, names)]
    ends = []
    for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
        asked = dict.fromkeys(partitions, LATEST)
        answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=30.0)
        ends.append(
            {
                Partition(at.topic, at.partition): answer.result().offset
                for at, answer in answers.items()
            }
        )
    committed, uncommitted = ends
    return sorted(at for at in committed if committed[at] != uncommitted[at])


def _partitions(counts: Mapping[str, int], names: Iterable[str]) -> list[Partition]:
    return [Partition(name, number) for name in names for number in range(counts[name])]
