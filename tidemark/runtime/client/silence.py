"""Which sources are silent: a fact of the broker, not of how fast anyone reads.

A source is silent while everything in its raw partition has been read.  The end is that of the
broker's admin interface and counts open transactions: what cannot be read yet is lag, not silence.
It is asked for in the background, since an answer must not hold up the reading.

How many partitions the topics have is asked for at the same time: a partition that nobody reads yet
is no silence either (docs/semantics.md, "Partitions that appear").
"""

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from tidemark.partition import Partition
from tidemark.runtime.client.consumer import LATEST, ask_offsets

ASK_EVERY_MS = 1_000


class EndOffsets:
    """The ends of partitions as of a recent moment, and how many partitions topics had then."""

    def __init__(self, admin: AdminClient, topics: Collection[str] = ()) -> None:
        """``admin`` must live as long as its answers are waited for; ``topics`` may grow."""
        self._admin = admin
        self._topics = TopicCollection(list(topics)) if topics else None
        self._asked: dict[Partition, Future[Any]] = {}
        self._asked_counts: dict[str, Future[Any]] = {}
        self._asked_ms = 0
        self.known: dict[Partition, int] = {}
        self.counts: dict[str, int] = {}
        """Partitions per topic of ``topics``."""

    def poll(self, partitions: Iterable[Partition], now_ms: int) -> int | None:
        """Ask at most once a second; return when the question was asked once it is answered."""
        if self._asked:
            return self._answered()
        if now_ms - self._asked_ms >= ASK_EVERY_MS:
            self._asked = ask_offsets(self._admin, partitions, LATEST)
            if self._topics is not None:
                self._asked_counts = self._admin.describe_topics(self._topics)
            self._asked_ms = now_ms
        return None

    def lag(self, positions: Mapping[Partition, int]) -> int:
        """Count the offsets between positions and the ends; 0 where a partition is not owned."""
        return max(0, sum(end - positions.get(at, end) for at, end in self.known.items()))

    def _answered(self) -> int | None:
        futures = [*self._asked.values(), *self._asked_counts.values()]
        if not all(future.done() for future in futures):
            return None
        asked, self._asked = self._asked, {}
        if any(future.exception() for future in futures):
            return None  # the broker was away; the next question comes soon
        self.known = {partition: future.result().offset for partition, future in asked.items()}
        self.counts = {
            topic: len(future.result().partitions) for topic, future in self._asked_counts.items()
        }
        return self._asked_ms
