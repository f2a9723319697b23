"""Writes stats to their topic, without ever standing in the way of the data.

Its producer is its own, without transactions: what it says is seen at once and outside of every
guarantee.  Nothing here waits or raises: a topic that cannot be made or written is said once in the
log, records that find no room are counted and forgotten.
"""

import logging
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin import AdminClient

from tidemark.runtime.client import clients
from tidemark.runtime.client.topics import begin_to_create, stats_topic
from tidemark.runtime.config import Config
from tidemark.runtime.service.stats import Stats, encode

_log = logging.getLogger("tidemark")

_LAST_WORDS_S = 0.5


class StatsWriter:
    """The way from one process to the stats topic."""

    def __init__(self, config: Config, admin: AdminClient, topic: str, key: str) -> None:
        """Begin to create the topic; ``admin`` must live as long as this."""
        self._topic = topic
        self._key = key.encode()
        self._producer = clients.passing_producer(config, self._written)
        self._creating: Future[None] | None = begin_to_create(
            admin, stats_topic(topic), config.replication_factor
        )
        self._refused = ""  # why it was not created, which says more than a write that fails
        self._said = False
        self.dropped = 0

    def write(self, stats: Stats) -> None:
        """Put a record into the producer's queue, unless that is full."""
        self._look_at_topic()
        try:
            self._producer.produce(self._topic, encode(stats), self._key)
        except BufferError:
            self._drop("the queue is full")
        except KafkaException as error:
            self._drop(error.args[0].str())
        self._producer.poll(0)

    def _look_at_topic(self) -> None:
        if self._creating is None or not self._creating.done():
            return
        error, self._creating = self._creating.exception(), None
        if not isinstance(error, KafkaException):
            return
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            self._refused = f"the topic cannot be created: {error.args[0].str()}"

    def _written(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._drop(error.str())

    def _drop(self, why: str) -> None:
        self.dropped += 1
        self._say(self._refused or why)

    def _say(self, why: str) -> None:
        if not self._said:
            self._said = True
            _log.warning(
                "stats are not written to %s: %s; the service goes on, and this is said once",
                self._topic,
                why,
            )

    def close(self) -> None:
        """Give the last record a moment to leave."""
        self._producer.flush(_LAST_WORDS_S)
        self._producer.purge()
