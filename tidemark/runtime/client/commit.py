"""The output of a process, and how it is committed together with what was read: its guarantee.

* ``Transaction``, exactly-once: output and offsets become visible together or not at all.
* ``FlushFirst``, at-least-once: output first, then the offsets.  A crash between them repeats it.
* ``OffsetsFirst``, at-most-once: offsets first, then the output.  A crash between them loses it.

After any failure the process ends: memory has moved on while the commit did not, and only a restore
makes them equal again.  See docs/operations.md, "Guarantees".
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
_PARTS_OF_TIMEOUT = 5
_MOST_HELD_BYTES = 64 * 2**20

# An offset commit meets these while the group changes or its coordinator moves; they pass.
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

Waiting = Callable[[], None]
"""Called at least every ``_STEP_S`` while a commit waits; raises to end the wait."""

Watched = Callable[[], AbstractContextManager[None]]
"""What each call lasts in, so that another thread may see one that does not return."""


class Outbox(Protocol):
    """What a service writes to between commits."""

    @property
    def is_open(self) -> bool:
        """Whether something was written since the last commit."""

    @property
    def is_full(self) -> bool:
        """Whether so much is held back that a commit cannot wait."""

    def write(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
    ) -> None:
        """Write records to one partition."""

    def commit(self, offsets: Sequence[TopicPartition], consumer: Consumer) -> None:
        """Commit what was written together with ``offsets``, which must be real."""

    def abort(self) -> None:
        """Drop what was written since the last commit, as far as it can still be dropped."""


def outbox(config: Config, transactional_id: str, waiting: Waiting, watched: Watched) -> Outbox:
    """Return the outbox of the configured guarantee."""
    if config.guarantee == "exactly-once":
        producer = clients.transactional_producer(config, transactional_id)
        return Transaction(producer, waiting, config.transaction_timeout_ms, watched)
    failures = Failures()
    repeating = clients.idempotent_producer(config, failures)
    kind = FlushFirst if config.guarantee == "at-least-once" else OffsetsFirst
    return kind(repeating, failures, waiting)


class TransactionExpiredError(InfrastructureError):
    """The broker ended a transaction for its age: nothing of it may be committed any more."""


class Transaction:
    """One transaction of the process: begins with the first output and ends with the commit."""

    is_full = False  # the producer's own queue is bounded

    def __init__(
        self,
        producer: Producer,
        waiting: Waiting,
        timeout_ms: int,
        watched: Watched = nullcontext,
    ) -> None:
        """Fence an earlier process of the same transactional id, and end its transaction.

        ``timeout_ms``: how long the broker lets a transaction be open.
        """
        self._producer = producer
        self._waiting = waiting
        self._timeout_ms = timeout_ms
        self._watched = watched
        self._open = False
        self._opened_s = 0.0
        self._persist(lambda: producer.init_transactions(_STEP_S))

    @property
    def is_open(self) -> bool:
        """Whether something was written since the last commit."""
        return self._open

    def begin(self) -> None:
        """Open the transaction unless it is."""
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
            with self._judged():
                send(self._producer, topic, partition, keys, values)

    def commit(self, offsets: Sequence[TopicPartition], consumer: Consumer) -> None:
        """Commit what was written together with ``offsets``, which must be real.

        Only a transaction that sends offsets of partitions still assigned is fenced when its
        process is no longer a member of the group.
        """
        _require_real(offsets)
        self.begin()
        member = consumer.consumer_group_metadata()
        with self._judged():
            self._persist(
                lambda: self._producer.send_offsets_to_transaction(list(offsets), member, _STEP_S)
            )
            self._persist(lambda: self._producer.commit_transaction(_STEP_S))
        self._open = False

    def abort(self) -> None:
        """Drop what was written since the last commit, as far as the broker still listens."""
        if self._open:
            self._open = False
            try:
                self._producer.abort_transaction(_STEP_S)
            except KafkaException:
                return  # the broker ends it after transaction.timeout.ms

    @contextmanager
    def _judged(self) -> Iterator[None]:
        """Tell what a transaction failed for, and one that was too old from one that is fenced."""
        try:
            yield
        except KafkaException as raised:
            error = self._cause(raised)
            open_ms = round((time.monotonic() - self._opened_s) * 1000)
            if error.args[0].name() not in FENCED or open_ms < self._timeout_ms:
                raise error from None
            raise TransactionExpiredError(
                f"a transaction was open for {open_ms} ms and TIDEMARK_TRANSACTION_TIMEOUT_MS is "
                f"{self._timeout_ms}, so the broker ended it and nothing of it counts; if it "
                "happens again, raise the setting or find out what took so long: a function of "
                "the pipeline, a machine without time to spare, a broker that was away"
            ) from error

    def _cause(self, raised: KafkaException) -> KafkaException:
        """Return what the transaction failed for, where ``raised`` only says that it has failed.

        A record is refused while another call is under way; that call then names a wrong state.
        """
        if raised.args[0].code() == KafkaError._STATE:
            try:
                self._producer.begin_transaction()  # refused in a transaction, with what it has
            except KafkaException as told:
                return told
        return raised

    def _persist(self, call: Callable[[], object]) -> None:
        def watched() -> None:
            with self._watched():
                call()

        _persist(watched, _retriable, self._waiting)


def transaction(config: Config, transactional_id: str) -> Transaction:
    """Return the output of work beside the services, whose waits nobody ends or watches."""
    producer = clients.transactional_producer(config, transactional_id)
    return Transaction(producer, lambda: None, config.transaction_timeout_ms)


def commit_after_s(config: Config) -> float:
    """Return after how long a Spark task commits: well before its transaction times out."""
    return config.transaction_timeout_ms / 1000 / _PARTS_OF_TIMEOUT


class FlushFirst:
    """At-least-once: what was written is on the broker before the offsets are committed."""

    is_full = False  # the producer's own queue is bounded

    def __init__(self, producer: Producer, failures: Failures, waiting: Waiting) -> None:
        """``failures``: where the producer reports records that were not written."""
        self._producer = producer
        self._failures = failures
        self._waiting = waiting
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
        """Write records to one partition; they are visible at once."""
        if values:
            self._open = True
            send(self._producer, topic, partition, keys, values)

    def commit(self, offsets: Sequence[TopicPartition], consumer: Consumer) -> None:
        """Wait until everything is written, then commit the offsets."""
        _require_real(offsets)
        flush(self._producer, self._failures, _STEP_S, self._waiting)
        _commit_offsets(offsets, consumer, self._waiting)
        self._open = False

    def abort(self) -> None:
        """Drop what has not left this process."""
        self._open = False
        self._producer.purge()


class OffsetsFirst:
    """At-most-once: nothing leaves the process before the offsets are committed."""

    def __init__(self, producer: Producer, failures: Failures, waiting: Waiting) -> None:
        """``failures``: where the producer reports records that were not written."""
        self._producer = producer
        self._failures = failures
        self._waiting = waiting
        self._held: list[tuple[str, int, Sequence[bytes | None], Sequence[bytes | None]]] = []
        self._held_bytes = 0

    @property
    def is_open(self) -> bool:
        """Whether something was written since the last commit."""
        return bool(self._held)

    @property
    def is_full(self) -> bool:
        """Whether so much is held back that a commit cannot wait."""
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
        """Commit the offsets, then write what was held; the next commit waits for it."""
        _require_real(offsets)
        _commit_offsets(offsets, consumer, self._waiting)
        for records in self._held:
            send(self._producer, *records)
        self._held, self._held_bytes = [], 0
        flush(self._producer, self._failures, _STEP_S, self._waiting)

    def abort(self) -> None:
        """Drop what has not left this process."""
        self._held, self._held_bytes = [], 0
        self._producer.purge()


def _require_real(offsets: Sequence[TopicPartition]) -> None:
    assert offsets, "a commit without offsets is not fenced"
    assert all(offset.offset >= 0 for offset in offsets), f"offsets to commit: {offsets}"


def _commit_offsets(
    offsets: Sequence[TopicPartition], consumer: Consumer, waiting: Waiting
) -> None:
    """Commit offsets, which the group refuses to whom it has given up."""

    def commit() -> None:
        for done in consumer.commit(offsets=list(offsets), asynchronous=False):
            if done.error is not None:
                raise KafkaException(done.error)

    _persist(commit, lambda error: error.code() in _PASSING, waiting)


def _persist(
    call: Callable[[], object], passes: Callable[[KafkaError], bool], waiting: Waiting
) -> None:
    """Call until it succeeds, fails for good, or was tried for long enough."""
    retry(
        call,
        lambda error: isinstance(error, KafkaException) and passes(error.args[0]),
        for_s=_PATIENCE_S,
        pause_s=_PAUSE_S,
        on_wait=lambda _error: waiting(),
    )


def _retriable(error: KafkaError) -> bool:
    return error.retriable() and not error.txn_requires_abort() and not error.fatal()
