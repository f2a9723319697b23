"""Commits the output of a process together with the offsets that it read: the guarantee.

* ``Transaction``, exactly-once: output and offsets become visible together or not at all.
* ``FlushFirst``, at-least-once: output, then offsets.  A crash between them repeats output.
* ``OffsetsFirst``, at-most-once: offsets, then output.  A crash between them loses output.

After any failure the process ends: memory is ahead of the last commit, and only a restore makes
them equal again.  See docs/operations.md, "Guarantees".
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tidemark.errors import InfrastructureError
from tidemark.runtime.client import clients
from tidemark.runtime.client.producer import Failures, flush, send
from tidemark.runtime.config import Config
from tidemark.runtime.faults import FENCED
from tidemark.runtime.retry import retry

_STEP_S = 5.0
_PATIENCE_S = 600.0
_PAUSE_S = 0.1
_MOST_HELD_BYTES = 64 * 2**20

# Errors of an offset commit while the group or its coordinator changes; they pass by themselves.
_PASSING = {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.REBALANCE_IN_PROGRESS,
}

_Bytes = Sequence[bytes | None]

OnWait = Callable[[], None]
"""Called at least every ``_STEP_S`` while a commit waits; may raise to end the wait."""

WatchCall = Callable[[], AbstractContextManager[None]]
"""Returns the context of one client call, so that a watchdog sees a call that does not return."""


class Outbox(Protocol):
    """Takes the output of a service between commits."""

    @property
    def is_open(self) -> bool:
        """Whether something was written since the last commit."""

    @property
    def is_full(self) -> bool:
        """Whether the records held back take so much memory that a commit is due now."""

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
    if config.guarantee == "exactly-once":
        producer = clients.transactional_producer(config, transactional_id)
        return Transaction(producer, on_wait, config.transaction_timeout_ms, watch)
    failures = Failures()
    repeating = clients.idempotent_producer(config, failures)
    kind = FlushFirst if config.guarantee == "at-least-once" else OffsetsFirst
    return kind(repeating, failures, on_wait)


class TransactionExpiredError(InfrastructureError):
    """The broker aborted a transaction that was open for too long; it cannot be committed."""


class Transaction:
    """Exactly-once: a transaction from the first output to the commit.

    If the process dies, the next process with its transactional id ends the open transaction.  If
    none starts, the broker ends it after the timeout.  Readers of committed records never see it.
    """

    is_full = False  # the producer's own queue is bounded

    def __init__(
        self,
        producer: Producer,
        on_wait: OnWait,
        timeout_ms: int,
        watch: WatchCall = nullcontext,
    ) -> None:
        """Fence an earlier process with the same transactional id, and end its transaction.

        ``timeout_ms``: how long the broker keeps a transaction open.
        """
        self._producer = producer
        self._on_wait = on_wait
        self._timeout_ms = timeout_ms
        self._watch = watch
        self._open = False
        self._opened_s = 0.0
        self._persist(lambda: producer.init_transactions(_STEP_S))

    @property
    def is_open(self) -> bool:
        """Whether something was written since the last commit."""
        return self._open

    def begin(self) -> None:
        """Begin a transaction unless one is open."""
        if not self._open:
            self._producer.begin_transaction()
            self._open = True
            self._opened_s = time.monotonic()

    def write(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
    ) -> None:
        """Write records to one partition."""
        if values:
            self.begin()
            with self._explained():
                send(self._producer, topic, partition, keys, values)

    def commit(self, offsets: Sequence[TopicPartition], consumer: Consumer) -> None:
        """Commit what was written together with ``offsets``: at least one, none negative.

        The group checks membership only if the transaction sends offsets of assigned partitions.
        Without them, a process that the group has given up would not be fenced.
        """
        _require_real(offsets)
        self.begin()
        member = consumer.consumer_group_metadata()
        with self._explained():
            self._persist(
                lambda: self._producer.send_offsets_to_transaction(list(offsets), member, _STEP_S)
            )
            self._persist(lambda: self._producer.commit_transaction(_STEP_S))
        self._open = False

    def abort(self) -> None:
        """Drop what was written since the last commit, if the broker can still be reached."""
        if self._open:
            self._open = False
            try:
                self._producer.abort_transaction(_STEP_S)
            except KafkaException:
                return  # the broker ends it after transaction.timeout.ms

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise the cause of a failed transaction; tell an expired one from a fenced one."""
        try:
            yield
        except KafkaException as raised:
            error = self._cause(raised)
            open_ms = round((time.monotonic() - self._opened_s) * 1000)
            if error.args[0].name() not in FENCED or open_ms < self._timeout_ms:
                raise error from None
            raise TransactionExpiredError(
                f"a transaction was open for {open_ms} ms, longer than "
                f"TIDEMARK_TRANSACTION_TIMEOUT_MS={self._timeout_ms}: the broker aborted it. If "
                "this happens again, raise the setting, or find the cause: a slow function of the "
                "pipeline, an overloaded machine, or a broker that was away"
            ) from error

    def _cause(self, raised: KafkaException) -> KafkaException:
        """Return why the transaction failed; ``raised`` may only say that its state is wrong.

        The broker may refuse a record while another client call runs; that call then only reports
        a wrong state.
        """
        if raised.args[0].code() == KafkaError._STATE:
            try:
                self._producer.begin_transaction()  # refused, and the error names the cause
            except KafkaException as cause:
                return cause
        return raised

    def _persist(self, call: Callable[[], object]) -> None:
        def watched_call() -> None:
            with self._watch():
                call()

        _persist(watched_call, _retriable, self._on_wait)


def transaction(config: Config, transactional_id: str) -> Transaction:
    """Return the output of a job outside the services; no watchdog looks at its calls."""
    producer = clients.transactional_producer(config, transactional_id)
    return Transaction(producer, lambda: None, config.transaction_timeout_ms)


class FlushFirst:
    """At-least-once: the broker has all output before the offsets are committed."""

    is_full = False  # the producer's own queue is bounded

    def __init__(self, producer: Producer, failures: Failures, on_wait: OnWait) -> None:
        """``failures``: where the producer reports records that were not written."""
        self._producer = producer
        self._failures = failures
        self._on_wait = on_wait
        self._open = False

    @property
    def is_open(self) -> bool:
        """Whether something was written since the last commit."""
        return self._open

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
            send(self._producer, topic, partition, keys, values)

    def commit(self, offsets: Sequence[TopicPartition], consumer: Consumer) -> None:
        """Wait until the broker has all output, then commit the offsets."""
        _require_real(offsets)
        flush(self._producer, self._failures, _STEP_S, self._on_wait)
        _commit_offsets(offsets, consumer, self._on_wait)
        self._open = False

    def abort(self) -> None:
        """Drop the records that have not left this process."""
        self._open = False
        self._producer.purge()


class OffsetsFirst:
    """At-most-once: no output leaves the process before the offsets are committed."""

    def __init__(self, producer: Producer, failures: Failures, on_wait: OnWait) -> None:
        """``failures``: where the producer reports records that were not written."""
        self._producer = producer
        self._failures = failures
        self._on_wait = on_wait
        self._held: list[tuple[str, int, Sequence[bytes | None], Sequence[bytes | None]]] = []
        self._held_bytes = 0

    @property
    def is_open(self) -> bool:
        """Whether something was written since the last commit."""
        return bool(self._held)

    @property
    def is_full(self) -> bool:
        """Whether the records held back take so much memory that a commit is due now."""
        return self._held_bytes > _MOST_HELD_BYTES

    def write(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
    ) -> None:
        """Hold records for one partition until the commit."""
        if values:
            self._held.append((topic, partition, keys, values))
            self._held_bytes += sum(map(len, filter(None, values)))

    def commit(self, offsets: Sequence[TopicPartition], consumer: Consumer) -> None:
        """Commit the offsets, then write the held records and wait until the broker has them."""
        _require_real(offsets)
        _commit_offsets(offsets, consumer, self._on_wait)
        for records in self._held:
            send(self._producer, *records)
        self._held, self._held_bytes = [], 0
        flush(self._producer, self._failures, _STEP_S, self._on_wait)

    def abort(self) -> None:
        """Drop the records that have not left this process."""
        self._held, self._held_bytes = [], 0
        self._producer.purge()


def _require_real(offsets: Sequence[TopicPartition]) -> None:
    assert offsets, "a commit without offsets is not fenced"
    assert all(offset.offset >= 0 for offset in offsets), f"offsets to commit: {offsets}"


def _commit_offsets(offsets: Sequence[TopicPartition], consumer: Consumer, on_wait: OnWait) -> None:
    """Commit offsets; the group refuses them from a process that is no longer a member."""

    def commit() -> None:
        for done in consumer.commit(offsets=list(offsets), asynchronous=False):
            if done.error is not None:
                raise KafkaException(done.error)

    _persist(commit, lambda error: error.code() in _PASSING, on_wait)


def _persist(
    call: Callable[[], object], passes: Callable[[KafkaError], bool], on_wait: OnWait
) -> None:
    """Repeat a call while its errors pass by themselves, for ten minutes at most."""
    retry(
        call,
        lambda error: isinstance(error, KafkaException) and passes(error.args[0]),
        for_s=_PATIENCE_S,
        pause_s=_PAUSE_S,
        on_wait=lambda _error: on_wait(),
    )


def _retriable(error: KafkaError) -> bool:
    return error.retriable() and not error.txn_requires_abort() and not error.fatal()
