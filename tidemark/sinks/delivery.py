"""Delivers batches to a sink without the rows that it refuses, which become dead letters.

A sink may name all rows that it refuses.  Then they are left out in one step, however many they
are.  If it cannot name them, they are found by halving.  The broker has the dead letters of rows
before the sink's position moves past them.

A row of the dead-letter table is a letter already, and the topic keeps it with its first reason.
So no letter is written of it.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tidemark.runtime.client import clients
from tidemark.runtime.client.producer import Failures, flush, send
from tidemark.runtime.config import Config
from tidemark.runtime.messages.received import ReceivedMessage
from tidemark.runtime.service.reasons import Reasons
from tidemark.runtime.wall_clock import now_ms
from tidemark.serde.dead_letters import encode_dead_letters
from tidemark.serde.records import DeadLetter
from tidemark.sinks.delivered import Delivered
from tidemark.sinks.sink import Batch, RefusedError, Sink

_log = logging.getLogger("tidemark")

_FLUSH_S = 5.0


class DeadLetters(Protocol):
    """Takes dead letters."""

    count: int
    """Number of letters so far."""

    def write(self, letters: Sequence[DeadLetter]) -> None:
        """Keep dead letters, whatever happens afterwards."""


class DeadLetterWriter:
    """Writes dead letters and waits until the broker has them."""

    def __init__(self, config: Config, topic: str) -> None:
        """``topic``: the pipeline's dead-letter topic."""
        self._topic = topic
        self._failures = Failures()
        self._producer = clients.idempotent_producer(config, self._failures)
        self.count = 0

    def write(self, letters: Sequence[DeadLetter]) -> None:
        """Write dead letters and wait until the broker has them."""
        keys, values = encode_dead_letters(letters)
        send(self._producer, self._topic, 0, keys, values)
        flush(self._producer, self._failures, _FLUSH_S, lambda _reason: None)
        self.count += len(letters)


class Delivery:
    """A sink, and where the rows go that it refuses."""

    def __init__(
        self,
        sink: Sink,
        dead_letters: DeadLetters,
        waited: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        """``dead_letters``: of the pipeline.  ``waited``: takes the seconds of each write."""
        self.sink = sink
        self.dead_letters = dead_letters
        self.delivered = Delivered()
        self.dead_reasons = Reasons()
        self._waited = waited

    def undecoded(self, records: Sequence[ReceivedMessage], bad: Sequence[tuple[int, str]]) -> None:
        """Write dead letters of records that are no rows of their table: index and reason."""
        self._bury([_undecoded(records[index], reason) for index, reason in bad])

    def _bury(self, letters: Sequence[DeadLetter]) -> None:
        self.dead_letters.write(letters)
        self.dead_reasons.add((each.stage, each.reason) for each in letters)

    def deliver(self, batches: Sequence[Batch]) -> None:
        """Write batches; refused rows become dead letters.

        Raises:
            UnavailableError, OvertakenError: as the sink raises them.
        """
        left = {batch.partition: batch for batch in batches}
        while True:
            try:
                self._write(list(left.values()))
            except RefusedError as error:
                named = {at: rows for at, rows in error.rows.items() if at in left}
                if not named:
                    break
                for at, rows in named.items():
                    self._refuse(left[at], rows)
                    left[at] = left[at].without(rows)
            else:
                return
        refusing = []
        for batch in left.values():  # those that halve nothing do not wait for those that do
            try:
                self._write([batch])
            except RefusedError:
                refusing.append(batch)
        for batch in refusing:
            self._halve(batch)

    def _halve(self, batch: Batch) -> None:
        """Write a batch in parts: a part of one row that the sink refuses is left out."""
        try:
            self._write([batch])
        except RefusedError as error:
            if len(batch.offsets) > 1:
                for half in batch.halves():
                    self._halve(half)
                return
            if not batch.offsets:
                raise
            self._refuse(batch, {0: str(error)})
            self._write([batch.without([0])])

    def _refuse(self, batch: Batch, rows: Mapping[int, str]) -> None:
        """Write the dead letters of rows of a batch; ``rows``: index and reason."""
        if not batch.table.raw_keys:
            self._bury([_refused(batch, at, reason) for at, reason in rows.items()])
            return
        first = min(rows)
        _log.error(
            "%s: table %s refuses %d dead letters, which stay in the topic; the first is at offset "
            "%d: %s",
            batch.partition,
            batch.table.name,
            len(rows),
            batch.offsets[first],
            rows[first],
        )

    def _write(self, batches: Sequence[Batch]) -> None:
        begin_s = time.monotonic()
        try:
            self.sink.write(batches)
        finally:
            self._waited(time.monotonic() - begin_s)
        self.delivered.add(batches, now_ms())


def _undecoded(record: ReceivedMessage, reason: str) -> DeadLetter:
    return DeadLetter(
        reason,
        "sink",
        record.topic() or "",
        record.partition() or 0,
        record.offset() or 0,
        record.timestamp()[1],
        record.key(),
        record.value(),
    )


def _refused(batch: Batch, index: int, reason: str) -> DeadLetter:
    (topic, number), offset = batch.partition, batch.offsets[index]
    key, value = batch.keys[index], batch.values[index]
    return DeadLetter(reason, "sink", topic, number, offset, -1, key, value)
