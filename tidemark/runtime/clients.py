"""Kafka clients and the settings their correctness and speed rest on."""

import logging
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from tidemark.runtime.config import Config

MAX_MESSAGE_BYTES = 16 * 2**20
"""Largest message of Tidemark's own topics, and of its producers (checked before compression)."""

_log = logging.getLogger("kafka")


def _calm(record: logging.LogRecord) -> bool:
    """Drop what is true and no trouble."""
    text = record.getMessage()
    # A fresh broker loads its coordinator at the first transactions; settings are shared by all
    # clients, some of which have no use for one or the other.
    return not ("oordinator load in progress" in text or "property and will be ignored" in text)


_log.addFilter(_calm)


def _shared(config: Config) -> dict[str, Any]:
    return {
        "bootstrap.servers": config.bootstrap_servers,
        # The default, five minutes, is how long a new partition would stay unseen.
        "topic.metadata.refresh.interval.ms": 5_000,
        "allow.auto.create.topics": False,
        **config.client_properties,
    }


def admin(config: Config) -> AdminClient:
    """Return an admin client; keep a reference to it until its futures are done."""
    return AdminClient(_shared(config), logger=_log)


def group_consumer(config: Config, group: str) -> Consumer:
    """Return a member of a consumer group, which gets partitions only by ``subscribe``."""
    return Consumer({**_reading(config), "group.id": group, **_membership(config)}, logger=_log)


def plain_consumer(config: Config) -> Consumer:
    """Return a reader outside any group, for changelogs and for a look into a log."""
    return Consumer({**_reading(config), "group.id": "tidemark.reader"}, logger=_log)


def _reading(config: Config) -> dict[str, Any]:
    return {
        **_shared(config),
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # A full queue makes the fetcher sleep a second by default, which halves the speed.
        "fetch.queue.backoff.ms": 5,
        "fetch.wait.max.ms": 100,
        "fetch.message.max.bytes": 4 * 2**20,
        "queued.min.messages": 50_000,
        "queued.max.messages.kbytes": 64 * 2**10,
    }


def _membership(config: Config) -> dict[str, Any]:
    if config.group_protocol == "consumer":
        return {"group.protocol": "consumer"}  # the broker sets the other two
    return {
        "group.protocol": "classic",
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 1_000,
    }


def transactional_producer(config: Config, transactional_id: str) -> Producer:
    """Return a producer whose transactions fence those of an earlier process of this slot."""
    return Producer(
        {
            **_shared(config),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": config.transaction_timeout_ms,
            "message.max.bytes": MAX_MESSAGE_BYTES,
            "partitioner": "murmur2_random",
            "compression.type": "lz4",
            # A commit flushes, so lingering costs no latency and makes larger batches.
            "linger.ms": 50,
            "batch.size": 2**20,
            "batch.num.messages": 50_000,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 64 * 2**10,
            # Failures come out of the commit; reports of success would only fill a queue.
            "delivery.report.only.error": True,
        },
        logger=_log,
    )
