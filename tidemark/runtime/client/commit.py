"""Commits the output of a process together with the offsets that it read: the guarantee.

* ``Transaction``, exactly-once: output and offsets become visible together or not at all
  (transaction.py).
* ``FlushFirst``, at-least-once: output, then offsets.  A crash between them repeats output.
* ``OffsetsFirst``, at-most-once: offsets, then output.  A crash between them loses output.

After any failure but one the process ends: memory is ahead of the last commit, and only a restore
makes them equal again.  The exception is a group that rebalances during the commit: then the commit
is repeated with the member's new generation.  See docs/operations.md, "Guarantees" and "Groups and
replicas".
"""

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tidemark.runtime.client import clients
from tidemark.runtime.client.membership import MOVED, OUTDATED, Membership, later_membership
from tidemark.runtime.client.producer import (
    Failures,
    HeldRecords,
    flush,
    payload_bytes,
    send,
    size_bytes,
)
from tidemark.runtime.client.transaction import (
    STEP_S,
    OnWait,
    Transaction,
    WatchCall,
    persist,
    require_real,
)
from tidemark.runtime.config import Config
from tidemark.runtime.memory import held_bytes
from tidemark.runtime.messages.native_sender import native_sender

# Errors of an offset commit while the group or its coordinator changes; they pass by themselves.
_PASSING = {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
    KafkaError.REQUEST_TIMED_OUT,
    *MOVED,
}


class Outbox(Protocol):
    """Takes the output of a service between commits."""

    written_bytes: int
    """Keys and values written since the start, before compression."""

    @property
    def is_open(self) -> bool:
        """Whether something was written since the last commit."""

    @property
    def is_full(self) -> bool:
        """Whether the output since the last commit is so large that the next commit is due."""

    def write(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
    ) -> None:
        """Write records to one partition."""

    def commit(self, offsets: Sequence[TopicPartition], consumer: Consumer) -> None:
        """Commit what was written together with ``offsets``: at least one, none negative."""

    def abort(self) -> None:
        """Drop what was written since the last commit, as far as it can still be dropped."""


def outbox(config: Config, transactional_id: str, on_wait: OnWait, watch: WatchCall) -> Outbox:
    """Return the outbox of the configured guarantee."""
    most_bytes = held_bytes(config.memory_bytes)
    if config.guarantee == "exactly-once":
        producer = clients.transactional_producer(config, transactional_id)
        timeout_ms = config.transaction_timeout_ms
        return Transaction(
            producer,
            on_wait,
            timeout_ms,
            watch,
            held=HeldRecords(most_bytes),
            own_send=native_sender(config, producer),
        )
    failures = Failures()
    repeating = clients.idempotent_producer(config, failures)
    if config.guarantee == "at-least-once":
        return FlushFirst(repeating, failures, on_wait, most_bytes)
    return OffsetsFirst(repeating, failures, on_wait, HeldRecords(most_bytes))


class FlushFirst:
    """At-least-once: the broker has all output before the offsets are committed."""

    def __init__(
        self, producer: Producer, failures: Failures, on_wait: OnWait, most_bytes: int
    ) -> None:
        """``failures``: where the producer reports records that were not written.

        ``most_bytes``: the output after which a commit is due, or a crash would repeat more.
        """
        self._producer = producer
        self._failures = failures
        self._on_wait = on_wait
        self._most_bytes = most_bytes
        self._open = False
        self._bytes = 0
        self.written_bytes = 0

    @property
    def is_open(self) -> bool:
        """Whether something was written since the last commit."""
        return self._open

    @property
    def is_full(self) -> bool:
        """Whether the output since the last commit is so large that the next commit is due."""
        return self._bytes > self._most_bytes

    def write(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
    ) -> None:
        """Write records to one partition; they are visible before the commit."""
        if values:
            self._open = True
            self._bytes += size_bytes(values)
            self.written_bytes += payload_bytes(keys, values)
            send(self._producer, topic, partition, keys, values)

    def commit(self, offsets: Sequence[TopicPartition], consumer: Consumer) -> None:
        """Wait until the broker has all output, then commit the offsets."""
        require_real(offsets)
        flush(self._producer, self._failures, STEP_S, self._on_wait)
        _commit_offsets(offsets, consumer, self._on_wait)
        self._forget()

    def abort(self) -> None:
        """Drop the records that have not left this process."""
        self._forget()
        self._producer.purge()

    def _forget(self) -> None:
        self._open, self._bytes = False, 0


class OffsetsFirst:
    """At-most-once: no output leaves the process before the offsets are committed."""

    def __init__(
        self, producer: Producer, failures: Failures, on_wait: OnWait, held: HeldRecords
    ) -> None:
        """``failures``: where the producer reports records that were not written.

        ``held``: keeps records until the offsets are committed.
        """
        self._producer = producer
        self._failures = failures
        self._on_wait = on_wait
        self._held = held
        self.written_bytes = 0

    @property
    def is_open(self) -> bool:
        """Whether something was written since the last commit."""
        return not self._held.are_none

    @property
    def is_full(self) -> bool:
        """Whether the records held back take so much memory that a commit is due now."""
        return self._held.are_many

    def write(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
    ) -> None:
        """Hold records for one partition until the commit."""
        if values:
            self._held.add(topic, partition, keys, values)
            self.written_bytes += payload_bytes(keys, values)

    def commit(self, offsets: Sequence[TopicPartition], consumer: Consumer) -> None:
        """Commit the offsets, then write the held records and wait until the broker has them."""
        require_real(offsets)
        _commit_offsets(offsets, consumer, self._on_wait)
        self._held.send(partial(send, self._producer))
        self._held.clear()
        flush(self._producer, self._failures, STEP_S, self._on_wait)

    def abort(self) -> None:
        """Drop the records that have not left this process."""
        self._held.clear()
        self._producer.purge()


def _commit_offsets(offsets: Sequence[TopicPartition], consumer: Consumer, on_wait: OnWait) -> None:
    """Commit offsets; the group refuses them from a process that is no longer a member."""
    membership = Membership.of(consumer)

    def commit() -> None:
        membership.require_held()
        for done in consumer.commit(offsets=list(offsets), asynchronous=False):
            if done.error is not None:
                raise KafkaException(done.error)

    def passes(error: KafkaError) -> bool:
        nonlocal membership
        if error.code() in OUTDATED:
            membership = later_membership(consumer, membership, on_wait)
            return True
        return error.code() in _PASSING

    persist(commit, passes, on_wait)
