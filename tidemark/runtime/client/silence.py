"""The ends of partitions: ingest finds silent sources by them, and every service its lag.

A source is silent while everything in its raw partition has been read.  Silence therefore depends
on the broker alone, not on the speed of a reader.  The end comes from the broker's admin interface
and counts open transactions: records that cannot be read yet are lag, not silence.  The question
runs in the background, so that it never delays reading.

Lag is what a reader of committed records has still to process.  It ends at the last stable offset,
before the first open transaction.

The number of partitions is asked for at the same time: a new partition that no process reads yet is
not silent either (docs/semantics.md, "Partitions that appear").
"""

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel, TopicCollection
from confluent_kafka.admin import AdminClient

from tidemark.partition import Partition
from tidemark.runtime.client.consumer import LATEST, ask_offsets

ASK_EVERY_MS = 1_000


class EndOffsets:
    """The latest known ends of partitions, and the partition counts of topics at the same time."""

    def __init__(self, admin: AdminClient, topics: Collection[str] = ()) -> None:
        """``admin`` must live as long as this; ``topics``: those whose partitions are counted."""
        self._admin = admin
        self.count(topics)
        self._asked: dict[Partition, Future[Any]] = {}
        self._asked_stable: dict[Partition, Future[Any]] = {}
        self._asked_counts: dict[str, Future[Any]] = {}
        self._asked_ms = 0
        self.known: dict[Partition, int] = {}
        self.stable: dict[Partition, int] = {}
        """The ends without open transactions, of the same partitions."""
        self.counts: dict[str, int] = {}
        """Number of partitions, by topic of ``topics``."""

    def count(self, topics: Collection[str]) -> None:
        """Count the partitions of these topics from the next question on."""
        self._topics = TopicCollection(list(topics)) if topics else None

    def poll(self, partitions: Iterable[Partition], now_ms: int) -> int | None:
        """Ask at most once a second; return the time of the question when its answer has come.

        Returns None as long as there is no new answer.
        """
        if self._asked:
            return self._answered()
        if now_ms - self._asked_ms >= ASK_EVERY_MS:
            wanted = list(partitions)
            self._asked = ask_offsets(self._admin, wanted, LATEST)
            self._asked_stable = ask_offsets(
                self._admin, wanted, LATEST, IsolationLevel.READ_COMMITTED
            )
            if self._topics is not None:
                self._asked_counts = self._admin.describe_topics(self._topics)
            else:
                self._asked_counts = {}
            self._asked_ms = now_ms
        return None

    def lag(self, positions: Mapping[Partition, int]) -> int | None:
        """Return the number of offsets between positions and stable ends.

        None while an end is not known, and without partitions.
        """
        if not positions or not positions.keys() <= self.stable.keys():
            return None
        return sum(max(0, self.stable[at] - position) for at, position in positions.items())

    def _answered(self) -> int | None:
        futures = [
            *self._asked.values(),
            *self._asked_stable.values(),
            *self._asked_counts.values(),
        ]
        if not all(future.done() for future in futures):
            return None
        asked, self._asked = self._asked, {}
        if any(future.exception() for future in futures):
            return None  # the broker was away; the next poll asks again
        self.known = {partition: future.result().offset for partition, future in asked.items()}
        self.stable = {at: future.result().offset for at, future in self._asked_stable.items()}
        self.counts = {
            topic: len(future.result().partitions) for topic, future in self._asked_counts.items()
        }
        return self._asked_ms
