"""Generations: which results of an operator belong to its present state, and where they begin.

See docs/operations.md, "Generations".  Each operator has a record per log partition in the
compacted topic ``<pipeline>.generations``.  It is written in the transaction that starts the state
afresh: at the first start, at a reset, and at a hand-over from a replay.

The topic also has a record for each log whose records were deleted to begin anew: by a reset of the
pipeline, or by the hand-over of a chain, which writes new records behind the earlier ones.  The
record says where this epoch of the log begins.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from confluent_kafka import KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from tidemark.core.operators.ports import PANES
from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan
from tidemark.runtime.client.clients import hinders_reading, plain_consumer
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.producer import Record
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.client.topics import partition_counts, topic_ids
from tidemark.runtime.config import Config

_BATCH = 500
_LOG = b"log:"  # of the key of an epoch, followed by the log

Key = tuple[str, int]
"""An operator's name, and the number of a log partition."""


class Generation(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=False):
    """The present state of an operator on a log partition.

    Args:
        operator: the operator's name.
        partition: number of the log partition, and of the partitions of its results.
        number: 0 for the first state; higher for each later one.
        service: the service that runs the operator.
        log: topic of the log.
        begun: the offset of the log at which the state begins.
        begins: by topic, the first offset of the results of this state.  Records before it are
            void.  A topic that is not in it has no void records.
        topic_ids: by topic, the id of each topic of results.
        lost_until_ms: the largest event time of rows that the log lacks at its beginning; windows
            that start at or before it are not published.  None if it lacks none.
        key: the key of the results.
        columns: names and types of the columns of the results, without those of every pane.  Empty
            if an earlier version of Tidemark wrote the record.
        signature: the signature of the state (``OperatorPlan.state_signature``).  Empty if an
            earlier version wrote the record.
        unused: whether the operator has taken nothing since the reset, so that it may begin in any
            log.
    """

    operator: str
    partition: int
    number: int = 0
    service: str = ""
    log: str = ""
    begun: int = 0
    begins: dict[str, int] = msgspec.field(default_factory=dict)
    topic_ids: dict[str, str] = msgspec.field(default_factory=dict)
    lost_until_ms: int | None = None
    key: list[str] = msgspec.field(default_factory=list)
    columns: dict[str, str] = msgspec.field(default_factory=dict)
    signature: dict[str, str] = msgspec.field(default_factory=dict)
    unused: bool = False

    @property
    def at(self) -> Key:
        """The operator and the partition."""
        return self.operator, self.partition


def record_of(generation: Generation) -> Record:
    """Return a generation as a record of the topic."""
    key = f"{generation.operator}/{generation.partition}".encode()
    return key, msgspec.json.encode(generation)


def generation_of(key: bytes | None, value: bytes | None) -> Generation | None:
    """Return the generation in a record; None for records of another kind.

    Raises:
        StateError: the value is not that of a generation.
    """
    if b"/" not in (key or b"") or value is None:
        return None
    try:
        return msgspec.json.decode(value, type=Generation)
    except msgspec.DecodeError as error:
        raise StateError(f"generation {key!r}: {value!r} cannot be read: {error}") from None


def next_number(before: Generation | None, now_ms: int) -> int:
    """Return the number of the state after ``before``; ``now_ms``: wall clock, ms UTC.

    The wall clock keeps the number above those of a topic that was deleted.
    """
    return now_ms if before is None else max(before.number + 1, now_ms)


def newest_generations(config: Config, admin: AdminClient, topic: str) -> dict[Key, Generation]:
    """Return the committed generations of all operators of a pipeline.

    ``topic``: ``Plan.generations``; it must exist.
    """
    at = Partition(topic, 0)
    begins, ends = offsets(admin, [at], EARLIEST), offsets(admin, [at], LATEST)
    return dict(_generations(read(config, {at: (begins[at], ends[at])})))


def _generations(messages: Iterable[Message]) -> Iterator[tuple[Key, Generation]]:
    for message in messages:
        found = generation_of(message.key(), message.value())
        if found is not None:
            yield found.at, found


def begun_generations(
    admin: AdminClient,
    plans: Iterable[OperatorPlan],
    begun: Mapping[Partition, int],
    number: int | Mapping[Key, int] = 0,
) -> dict[Key, Generation]:
    """Return the generations of states that begin now: all results so far are void.

    Args:
        admin: to ask for the ends and the ids of the topics of results, which must exist.
        plans: the operators.
        begun: by log partition, the offset of the log at which the state begins.
        number: of the generations.
    """
    plans = list(plans)
    wanted = [
        (plan, at, [Partition(topic, at.number) for topic in plan.topics])
        for plan in plans
        for at in begun
        if plan.log == at.topic
    ]
    ends = offsets(admin, [each for _, _, results in wanted for each in results], LATEST)
    ids = topic_ids(admin, dict.fromkeys(topic for plan in plans for topic in plan.topics))
    return {
        (plan.name, at.number): Generation(
            plan.name,
            at.number,
            number if isinstance(number, int) else number[plan.name, at.number],
            plan.service,
            at.topic,
            begun[at],
            {each.topic: ends[each] for each in results},
            {each.topic: ids[each.topic] for each in results},
            key=list(plan.results.port.key),
            columns=result_columns(plan),
            signature=dict(plan.state_signature),
        )
        for plan, at, results in wanted
    }


def result_columns(plan: OperatorPlan) -> dict[str, str]:
    """Return names and types of an operator's results; of panes, those of identity and values."""
    port = plan.results.port
    of_panes = (*port.key, *port.identity, *port.values)
    names = of_panes if port.kind == PANES else port.columns
    return {name: str(port.columns[name]) for name in names}


class GenerationReader:
    """The newest generations of a pipeline, kept up to date by ``poll``."""

    def __init__(self, config: Config, admin: AdminClient, topic: str) -> None:
        """Read all committed generations; ``topic``: ``Plan.generations``, which must exist."""
        at = Partition(topic, 0)
        (end,) = offsets(admin, [at], LATEST).values()
        self.newest: dict[Key, Generation] = newest_generations(config, admin, topic)
        self._consumer = plain_consumer(config)
        self._consumer.assign([TopicPartition(*at, end)])

    def poll(self) -> bool:
        """Take new generations without waiting; return whether there were any."""
        found: dict[Key, Generation] = {}
        for message in self._consumer.consume(_BATCH, 0.0):
            error = message.error()
            if error is None:
                found |= dict(_generations([message]))
            elif hinders_reading(error) and not error.retriable():
                raise KafkaException(error)
        self.newest |= found
        return bool(found)

    def of_operator(self, operator: str) -> dict[int, Generation]:
        """Return the generations of an operator by partition."""
        return {number: each for (name, number), each in self.newest.items() if name == operator}

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


class _Epoch(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=False):
    """The present epoch of a log: the id of its topic, and its first offset by partition."""

    topic_id: str
    begins: dict[int, int]


def records_of_epochs(admin: AdminClient, begins: Mapping[Partition, int]) -> Iterator[Record]:
    """Yield records of the topic of generations: new epochs of logs begin at these offsets."""
    ids = topic_ids(admin, {at.topic for at in begins})
    for topic, topic_id in sorted(ids.items()):
        firsts = {at.number: first for at, first in begins.items() if at.topic == topic}
        yield _LOG + topic.encode(), msgspec.json.encode(_Epoch(topic_id, firsts))


def recorded_epochs(config: Config, admin: AdminClient, generations: str) -> dict[Partition, int]:
    """Return the first offset of each log partition whose log has begun anew.

    ``generations``: the topic of generations.  A log that was deleted since is left out.

    Raises:
        StateError: a record cannot be read.
    """
    counts = partition_counts(admin)
    if generations not in counts:
        return {}
    at = Partition(generations, 0)
    begins, ends = offsets(admin, [at], EARLIEST), offsets(admin, [at], LATEST)
    found: dict[str, _Epoch] = {}
    for message in read(config, {at: (begins[at], ends[at])}):
        key, value = message.key() or b"", message.value() or b""
        if key.startswith(_LOG):
            found[key.removeprefix(_LOG).decode()] = _epoch(key, value)
    ids = topic_ids(admin, found.keys() & counts.keys())
    return {
        Partition(topic, number): first
        for topic, topic_id in ids.items()
        if found[topic].topic_id == topic_id
        for number, first in found[topic].begins.items()
    }


def _epoch(key: bytes, value: bytes) -> _Epoch:
    try:
        return msgspec.json.decode(value, type=_Epoch)
    except msgspec.DecodeError as error:
        raise StateError(f"the record {key!r} cannot be read: {error}") from None
