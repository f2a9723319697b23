"""Writes stats to their topic without delaying the data.

It has a producer of its own, without transactions: records are visible at once, and no guarantee
covers them.  Nothing here waits or raises.  If the topic cannot be created or written, one warning
is logged.  Records that do not fit into the queue are counted and dropped.
"""

import logging
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin import AdminClient

from tidemark.plan.topics import topic_of_stats
from tidemark.runtime.client import clients
from tidemark.runtime.client.topics import begin_to_create
from tidemark.runtime.config import Config
from tidemark.runtime.service.stats import Stats, encode

_log = logging.getLogger("tidemark")

_LAST_WORDS_S = 0.5


class StatsWriter:
    """Writes the stats of one process."""

    def __init__(self, config: Config, admin: AdminClient, topic: str, key: str) -> None:
        """Start to create the topic; ``admin`` must live as long as the writer."""
        self._topic = topic
        self._key = key.encode()
        self._producer = clients.passing_producer(config, self._written)
        self._creating: Future[None] | None = begin_to_create(
            admin, topic_of_stats(topic), config.replication_factor
        )
        self._refused = ""  # why the topic was not created: clearer than the error of a write
        self._warned = False
        self.dropped = 0

    def write(self, stats: Stats) -> None:
        """Put a record into the producer's queue; drop it if the queue is full."""
        self._check_topic()
        try:
            self._producer.produce(self._topic, encode(stats), self._key)
        except BufferError:
            self._drop("the queue is full")
        except KafkaException as error:
            self._drop(error.args[0].str())
        self._producer.poll(0)

    def _check_topic(self) -> None:
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
        self._warn(self._refused or why)

    def _warn(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            _log.warning(
                "stats are not written to %s: %s; the service goes on, and logs this only once",
                self._topic,
                why,
            )

    def close(self) -> None:
        """Send the last record, for half a second at most."""
        self._producer.flush(_LAST_WORDS_S)
        self._producer.purge()
