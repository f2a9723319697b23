"""Which sources are silent: a fact of the broker, not of how fast anyone reads.

A source is silent while everything in its raw partition has been read.  The end is that of the
broker's admin interface and counts open transactions: what cannot be read yet is lag, not silence.
It is asked for in the background, since an answer must not hold up the reading.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka.admin import AdminClient

from tidemark.runtime.group import LATEST, Partition, ask_offsets

ASK_EVERY_MS = 1_000


class Ends:
    """The ends of partitions as of a recent moment."""

    def __init__(self, admin: AdminClient) -> None:
        """``admin`` must live as long as its answers are waited for."""
        self._admin = admin
        self._asked: dict[Partition, Future[Any]] = {}
        self._asked_ms = 0
        self.known: dict[Partition, int] = {}

    def poll(self, partitions: Iterable[Partition], now_ms: int) -> int | None:
        """Ask at most once a second; return when the question was asked once it is answered."""
        if self._asked:
            return self._answered()
        if now_ms - self._asked_ms >= ASK_EVERY_MS:
            self._asked = ask_offsets(self._admin, partitions, LATEST)
            self._asked_ms = now_ms
        return None

    def lag(self, positions: Mapping[Partition, int]) -> int:
        """Count the offsets between positions and the ends; 0 where a partition is not owned."""
        return max(0, sum(end - positions.get(at, end) for at, end in self.known.items()))

    def _answered(self) -> int | None:
        if not all(future.done() for future in self._asked.values()):
            return None
        asked, self._asked = self._asked, {}
        if any(future.exception() for future in asked.values()):
            return None  # the broker was away; the next question comes soon
        self.known = {partition: future.result().offset for partition, future in asked.items()}
        return self._asked_ms
