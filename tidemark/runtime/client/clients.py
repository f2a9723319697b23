"""Creates Kafka clients with the settings that correctness and speed depend on."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from tidemark.plan.topics import MAX_MESSAGE_BYTES
from tidemark.runtime.config import Config
from tidemark.runtime.memory import fetch_bytes, fetched_bytes, queued_bytes

Answer = TypeVar("Answer")

_TRIES, _PAUSE_S = 20, 0.25
_REMEMBERED = 1_000
_log = logging.getLogger("kafka")


_HARMLESS = (
    "oordinator load in progress",  # a fresh broker, at the first transactions
    "property and will be ignored",  # all clients share settings that only some kinds know
    "(ILLEGAL_GENERATION)",  # a rebalance during a commit, which is repeated (commit.py)
)
_REPEAT_S = 30.0
_logged_s: dict[str, float] = {}


def _is_news(record: logging.LogRecord) -> bool:
    """Return False for log lines that are harmless, or that came in the last 30 seconds."""
    text = record.getMessage()
    # An unreachable broker causes twenty lines a second that differ only in a duration.
    essence = text.rpartition("]: ")[2].partition(" (after ")[0]
    now_s = time.monotonic()
    if now_s - _logged_s.get(essence, -_REPEAT_S) < _REPEAT_S:
        return False
    if len(_logged_s) > _REMEMBERED:
        _logged_s.clear()
    _logged_s[essence] = now_s
    return not any(words in text for words in _HARMLESS)


_log.addFilter(_is_news)


def _settings(
    config: Config, decided: Mapping[str, Any], tuned: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the settings of a client: the environment overrides ``tuned``, never ``decided``."""
    return {
        # With the default, a new partition would be unseen for five minutes.
        "topic.metadata.refresh.interval.ms": 5_000,
        # With the default, ten seconds, a session could end before the client reconnects.
        "reconnect.backoff.max.ms": 1_000,
        **(tuned or {}),
        **config.client_properties,
        "bootstrap.servers": config.bootstrap_servers,
        "allow.auto.create.topics": False,
        **decided,
    }


def admin(config: Config, on_error: Callable[[KafkaError], None] | None = None) -> AdminClient:
    """Return an admin client; keep a reference to it until its futures are done.

    ``on_error`` is called inside ``poll`` with the reason why no broker can be reached.
    """
    decided = {} if on_error is None else {"error_cb": on_error}
    return AdminClient(_settings(config, decided), logger=_log)


def when_known(ask: Callable[[], Answer]) -> Answer:
    """Return the answer of ``ask``; asks again while brokers do not know a new topic or leader."""
    for _ in range(_TRIES):
        try:
            return ask()
        except KafkaException:
            time.sleep(_PAUSE_S)
    return ask()


_READING_DECIDED = {
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
}

_READING_TUNED = {
    # A full queue makes the fetcher sleep a second by default, which halves the speed.
    "fetch.queue.backoff.ms": 5,
    "fetch.wait.max.ms": 100,
    "queued.min.messages": 50_000,
}

_LEAST_FETCHED_KB = 512


def _reading_tuned(config: Config, partitions: int) -> dict[str, Any]:
    """Return the settings of a consumer that reads some partitions within the memory budget.

    The client decompresses all that a fetch returns, to thousands of times its size at worst.  So a
    fetch is small; the broker returns one batch of records at least.
    """
    most_bytes = fetch_bytes(config.memory_bytes)
    ready_kb = fetched_bytes(config.memory_bytes) // max(1, partitions) // 2**10
    return {
        **_READING_TUNED,
        "fetch.message.max.bytes": most_bytes,
        "fetch.max.bytes": most_bytes,
        "message.max.bytes": most_bytes,  # else the limit of a fetch is raised to it
        "queued.max.messages.kbytes": max(_LEAST_FETCHED_KB, ready_kb),
    }


_SESSION_TIMEOUT_MS = 10_000
_BROKERS_SESSION_TIMEOUT_MS = 45_000  # the default of group.consumer.session.timeout.ms


def session_timeout_ms(config: Config) -> int:
    """Return how long, at most, the group keeps a member that sends no heartbeat."""
    if config.group_protocol == "consumer":
        return _BROKERS_SESSION_TIMEOUT_MS
    return int(config.client_properties.get("session.timeout.ms", _SESSION_TIMEOUT_MS))


def group_consumer(
    config: Config,
    group: str,
    client_id: str,
    instance_id: str | None = None,
    *,
    partitions: int = 1,
) -> Consumer:
    """Return a consumer of a group; it gets its partitions only by ``subscribe``.

    ``instance_id`` makes it a static member, which keeps its partitions during a restart (KIP-345).
    ``partitions``: the most that it may get; they share the memory for what is fetched ahead.
    """
    decided = {
        **_READING_DECIDED,
        "group.id": group,
        "group.protocol": config.group_protocol,
        "client.id": client_id,
    }
    if instance_id is not None:
        decided["group.instance.id"] = instance_id
    tuned = _reading_tuned(config, partitions)
    if config.group_protocol == "classic":  # under KIP-848 the broker decides all three
        decided["partition.assignment.strategy"] = "cooperative-sticky"
        tuned |= {"session.timeout.ms": _SESSION_TIMEOUT_MS, "heartbeat.interval.ms": 1_000}
    return Consumer(_settings(config, decided, tuned), logger=_log)


def plain_consumer(
    config: Config, group: str = "tidemark.reader", *, partitions: int = 1
) -> Consumer:
    """Return a consumer that joins no group; it can ask for the committed offsets of ``group``.

    ``partitions``: the number that it reads; they share the memory for what is fetched ahead.
    """
    decided = {**_READING_DECIDED, "group.id": group}
    return Consumer(_settings(config, decided, _reading_tuned(config, partitions)), logger=_log)


def hinders_reading(error: KafkaError) -> bool:
    """Return whether an error that a ``plain_consumer`` reports concerns what it reads.

    The end of a partition is no failure.  librdkafka asks for the coordinator of the group even
    where nothing is committed, so a right to the group may be missing.
    """
    return error.code() not in (KafkaError._PARTITION_EOF, KafkaError.GROUP_AUTHORIZATION_FAILED)


def records(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the records that a ``plain_consumer`` has returned, without harmless errors.

    Raises:
        KafkaException: an error hinders the reading.
    """
    for message in messages:
        error = message.error()
        if error is None:
            yield message
        elif hinders_reading(error):
            raise KafkaException(error)


_WRITING_DECIDED = {
    "message.max.bytes": MAX_MESSAGE_BYTES,
    "partitioner": "murmur2_random",
    # A commit raises failures; reports of success would only fill a queue.
    "delivery.report.only.error": True,
}

_WRITING_TUNED = {
    "compression.type": "lz4",
    # A commit flushes, so lingering costs no latency and makes larger batches.
    "linger.ms": 50,
    "batch.size": 2**20,
    "batch.num.messages": 50_000,
    "queue.buffering.max.messages": 200_000,
}


def _writing_tuned(config: Config) -> dict[str, Any]:
    queued_kbytes = queued_bytes(config.memory_bytes) // 2**10
    return {**_WRITING_TUNED, "queue.buffering.max.kbytes": queued_kbytes}


def transactional_producer(
    config: Config, transactional_id: str, *, reports: bool = False
) -> Producer:
    """Return a transactional producer; it fences an earlier process with the same id.

    ``reports``: whether it also reports the records that are written, with their offsets.
    """
    decided = {
        **_WRITING_DECIDED,
        "delivery.report.only.error": not reports,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": config.transaction_timeout_ms,
        # Otherwise a commit may hang after a short outage of the brokers: docs/decisions/0010.
        "metadata.recovery.strategy": "none",
    }
    return Producer(_settings(config, decided, _writing_tuned(config)), logger=_log)


def passing_producer(config: Config, on_delivery: Callable[..., None]) -> Producer:
    """Return a producer for short-lived records: it buffers little and gives up after 5 s."""
    decided = {
        **_WRITING_DECIDED,
        "on_delivery": on_delivery,
        "acks": 1,
        "message.timeout.ms": 5_000,
        "queue.buffering.max.messages": 100,
        "queue.buffering.max.kbytes": 2 * MAX_MESSAGE_BYTES // 2**10,
        "linger.ms": 0,
    }
    return Producer(_settings(config, decided, {"compression.type": "lz4"}), logger=_log)


def idempotent_producer(config: Config, on_delivery: Callable[..., None]) -> Producer:
    """Return an idempotent producer; ``on_delivery`` is called for each record not written."""
    decided = {
        **_WRITING_DECIDED,
        "enable.idempotence": True,
        "on_delivery": on_delivery,
    }
    return Producer(_settings(config, decided, _writing_tuned(config)), logger=_log)
