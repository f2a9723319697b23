"""Sinks to Kafka topics: unchanged records, in topics with the same name behind a prefix.

* ``kafka:PREFIX``: the pipeline's own cluster.  The commit of the sink's offsets includes the
  records, so with transactions delivery is exactly once.
* ``kafka://BROKERS/PREFIX``: another cluster.  No transaction spans two clusters, so delivery is at
  least once.

A record keeps its key, its value and the number of its partition.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from urllib.parse import parse_qsl, unquote, urlsplit

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.plan.topics import MAX_MESSAGE_BYTES, Topic
from tidemark.runtime.client import clients, topics
from tidemark.runtime.client.broker_probe import LastError
from tidemark.runtime.client.commit import Outbox
from tidemark.runtime.client.producer import Failures, flush, send
from tidemark.runtime.config import Config
from tidemark.runtime.faults import without_value
from tidemark.sinks.sink import Batch, Position, RefusedError, UnavailableError
from tidemark.sinks.table import Table

_SETTINGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "max.message.bytes": str(MAX_MESSAGE_BYTES),
}
_LEAST_BYTES = 2**20  # a topic that exists may have the broker's default
_OVERHEAD_BYTES = 128  # of a batch with one record
_PREFIX = re.compile(r"[A-Za-z0-9._-]{1,100}")
_GIVEN_UP_MS = 10_000
_STEP_S = 5.0
_REFUSALS = (KafkaError._AUTHENTICATION, KafkaError._SSL)


class _TargetTopics:
    """The topics that a sink writes: PREFIX.TOPIC for each topic that it reads."""

    def __init__(self, prefix: str) -> None:
        if not _PREFIX.fullmatch(prefix):
            raise ConfigurationError(
                f"TIDEMARK_SINK: {prefix!r} is not a valid prefix: kafka:PREFIX and "
                "kafka://BROKERS/PREFIX need 1 to 100 letters, digits, '.', '_' or '-'"
            )
        self._prefix = prefix
        self._most_bytes: dict[str, int] = {}

    def name(self, topic: str) -> str:
        return f"{self._prefix}.{topic}"

    def prepare(self, admin: AdminClient, tables: Sequence[Table], replication_factor: int) -> None:
        """Create missing topics, verify the others."""
        wanted = [
            Topic(self.name(table.topic), table.partitions, _SETTINGS, _LEAST_BYTES)
            for table in tables
        ]
        topics.ensure(admin, wanted, replication_factor)
        for topic in wanted:
            self._most_bytes[topic.name] = topics.message_bytes(admin, [topic.name])

    def require_small(self, batch: Batch) -> None:
        """Raise if some record is too large for its topic.

        Raises:
            RefusedError: names the topic, the sizes in bytes and the rows.
        """
        name = self.name(batch.partition.topic)
        most = self._most_bytes[name] - _OVERHEAD_BYTES
        sizes = [len(k or b"") + len(v) for k, v in zip(batch.keys, batch.values, strict=True)]
        large = {
            index: f"topic {name} takes {most} bytes, the record has {size}"
            for index, size in enumerate(sizes)
            if size > most
        }
        if large:
            raise RefusedError(next(iter(large.values())), {batch.partition: large})


class TopicSink:
    """A sink to topics of the pipeline's own cluster."""

    every_ms = 0

    def __init__(self, prefix: str) -> None:
        """``prefix``: begins the names of the topics written."""
        self._targets = _TargetTopics(prefix)
        self._outbox: Outbox | None = None

    def join(self, outbox: Outbox, admin: AdminClient, replication_factor: int) -> None:
        """Use the outbox of the process, which commits records together with offsets."""
        self._outbox, self._admin, self._replication_factor = outbox, admin, replication_factor

    def prepare(self, tables: Sequence[Table]) -> None:
        """Create missing topics; raise ConfigurationError if one cannot take the records."""
        self._targets.prepare(self._admin, tables, self._replication_factor)

    def positions(self, _partitions: Collection[Partition]) -> Mapping[Partition, Position]:
        """Return none: the offsets are committed with the records."""
        return {}

    def write(self, batches: Sequence[Batch]) -> None:
        """Add records to the next commit."""
        assert self._outbox is not None, "write before join"
        for batch in batches:
            self._targets.require_small(batch)
        for batch in batches:
            topic, number = batch.partition
            self._outbox.write(self._targets.name(topic), number, batch.keys, batch.values)

    def close(self) -> None:
        """Do nothing: the process owns the outbox."""


class OtherClusterSink:
    """A sink to topics of another cluster."""

    every_ms = 0

    def __init__(self, url: str) -> None:
        """``url``: user and password are for SASL; the query has client properties."""
        parts = urlsplit(url)
        self._targets = _TargetTopics(parts.path.removeprefix("/"))
        login, _, self._brokers = parts.netloc.rpartition("@")
        user, _, password = login.partition(":")
        named = {"sasl.username": unquote(user), "sasl.password": unquote(password)}
        properties = {
            "message.timeout.ms": str(_GIVEN_UP_MS),
            **(named if login else {}),
            **dict(parse_qsl(parts.query)),
        }
        self._config = Config(bootstrap_servers=self._brokers, client_properties=properties)
        self._last = LastError()
        self._failures = Failures()
        self._known: Producer | None = None

    @property
    def _producer(self) -> Producer:
        if self._known is None:
            self._failures = Failures()
            self._known = clients.idempotent_producer(self._config, self._failures)
        return self._known

    def prepare(self, tables: Sequence[Table]) -> None:
        """Create missing topics; raise ConfigurationError if one cannot take the records."""
        self._last.error = None
        try:
            admin = clients.admin(self._config, self._last)
            self._targets.prepare(admin, tables, self._config.replication_factor)
        except KafkaException as error:
            raise self._classified(error) from error

    def positions(self, _partitions: Collection[Partition]) -> Mapping[Partition, Position]:
        """Return none: the offsets committed on the pipeline's cluster are the positions."""
        return {}

    def write(self, batches: Sequence[Batch]) -> None:
        """Write records and wait until the brokers have them."""
        for batch in batches:
            self._targets.require_small(batch)
        try:
            for batch in batches:
                topic, number = batch.partition
                send(self._producer, self._targets.name(topic), number, batch.keys, batch.values)
            flush(self._producer, self._failures, _STEP_S, lambda _reason: None)
        except KafkaException as error:
            self._forget()
            raise self._classified(error) from error

    def _forget(self) -> None:
        """Drop the producer and its queue: all records will be written again."""
        if self._known is not None:
            self._known.purge()
            self._known = None

    def _classified(self, error: KafkaException) -> Exception:
        fault: KafkaError = error.args[0]
        line = f"Kafka at {self._brokers}: {without_value(fault.str())}"
        if self._last.error is not None and self._last.error.code() in _REFUSALS:
            return ConfigurationError(
                f"TIDEMARK_SINK: Kafka at {self._brokers} refuses this client: "
                f"{without_value(self._last.error.str())}"
            )
        if fault.code() == KafkaError._INVALID_ARG:
            return ConfigurationError(f"TIDEMARK_SINK: {line}")
        return UnavailableError(line)

    def close(self) -> None:
        """Drop the producer and its queue."""
        self._forget()
