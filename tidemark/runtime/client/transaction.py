"""Exactly-once: output and offsets in one Kafka transaction.

A group that rebalances while a commit is on its way refuses the old generation of the member, and
the client can then only abort the transaction.  The member still owns its partitions, so the output
is written again in a new transaction, with the new generation (docs/decisions/0016).
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tidemark.errors import InfrastructureError
from tidemark.runtime.client import clients
from tidemark.runtime.client.membership import OUTDATED, Membership, later_membership
from tidemark.runtime.client.producer import HeldRecords, Send, payload_bytes, send
from tidemark.runtime.config import Config
from tidemark.runtime.faults import FENCED
from tidemark.runtime.retry import retry

STEP_S = 5.0
"""How long one client call of a commit may take before it is repeated."""

_PATIENCE_S = 600.0
_PAUSE_S = 0.1
_REBALANCE_S = 60.0
_COMMITS_PER_TIMEOUT = 6

_GAPS = {KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER}
"""Errors of the transaction after an aborted one.

The abort drops records on their way, and the broker may miss their sequence numbers.  The next
abort makes the client begin its numbers anew (KIP-360).
"""

OnWait = Callable[[str], None]
"""Called with the reason at least every ``STEP_S`` while a commit waits; may raise to end it."""

WatchCall = Callable[[], AbstractContextManager[None]]
"""Returns the context of one client call, so that a watchdog sees a call that does not return."""


class TransactionExpiredError(InfrastructureError):
    """The broker aborted a transaction that was open for too long; it cannot be committed."""


class Transaction:
    """Exactly-once: a transaction from the first output to the commit.

    If the process dies, the next process with its transactional id ends the open transaction.  If
    none starts, the broker ends it after the timeout.  Readers of committed records never see it.
    """

    def __init__(
        self,
        producer: Producer,
        on_wait: OnWait,
        timeout_ms: int,
        watch: WatchCall = nullcontext,
        *,
        of_member: bool = True,
        held: HeldRecords | None = None,
        own_send: Send | None = None,
    ) -> None:
        """Fence an earlier process with the same transactional id, and end its transaction.

        ``timeout_ms``: how long the broker keeps a transaction open.  ``of_member``: whether the
        offsets are those of a member of a group, which may rebalance during a commit.  ``held``:
        keeps the output of such a member.  ``own_send``: instead of the calls of ``producer``.
        """
        self._producer = producer
        self._send = own_send or partial(send, producer)
        self._of_member = of_member
        self._written = held or HeldRecords()
        self._on_wait = on_wait
        self._timeout_ms = timeout_ms
        self._watch = watch
        self._open = False
        self._opened_s = 0.0
        self.written_bytes = 0
        self._persist(lambda: producer.init_transactions(STEP_S))

    @property
    def is_open(self) -> bool:
        """Whether something was written since the last commit."""
        return self._open

    @property
    def is_full(self) -> bool:
        """Whether a commit is due: so much is written, or the transaction is open so long."""
        open_s = time.monotonic() - self._opened_s if self._open else 0.0
        is_old = open_s > self._timeout_ms / 1000 / _COMMITS_PER_TIMEOUT
        return self._written.are_many or is_old

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
            if self._of_member:
                self._written.add(topic, partition, keys, values)
            self.written_bytes += payload_bytes(keys, values)
            with self._explained():
                self._send(topic, partition, keys, values)

    def commit(self, offsets: Sequence[TopicPartition], consumer: Consumer) -> None:
        """Commit what was written together with ``offsets``: at least one, none negative.

        The group checks membership only if the transaction sends offsets of assigned partitions.
        Without them, a process that the group has given up would not be fenced.
        """
        require_real(offsets)
        self.begin()
        membership = Membership.of(consumer)
        if self._of_member:
            membership.require_held()
        deadline_s = time.monotonic() + _REBALANCE_S
        refusal = self._refusal(offsets, membership)
        while refusal is not None:
            if time.monotonic() > deadline_s:
                raise refusal
            self._drop_refused()  # before the wait: readers of these partitions wait, too
            if refusal.args[0].code() in OUTDATED:
                membership = later_membership(consumer, membership, self._on_wait)
            refusal = self._refusal(offsets, membership, again=True)
        self._open = False
        self._written.clear()

    def _refusal(
        self, offsets: Sequence[TopicPartition], membership: Membership, *, again: bool = False
    ) -> KafkaException | None:
        """Commit; return why it was refused, if it can be repeated.

        ``again``: write the output of the refused commit in a new transaction, first.
        """
        repeatable = OUTDATED | _GAPS if again else OUTDATED
        try:
            with self._explained():
                if again:
                    self.begin()
                    self._written.send(self._send)
                self._persist(
                    lambda: self._producer.send_offsets_to_transaction(
                        list(offsets), membership.metadata, STEP_S
                    )
                )
                self._persist(lambda: self._producer.commit_transaction(STEP_S))
        except KafkaException as error:
            if self._of_member and error.args[0].code() in repeatable:
                return error
            raise
        return None

    def _drop_refused(self) -> None:
        """End the transaction of a refused commit."""
        with self._explained():
            self._persist(lambda: self._producer.abort_transaction(STEP_S))
            self._open = False

    def abort(self) -> None:
        """Drop what was written since the last commit, if the broker can still be reached."""
        self._written.clear()
        if self._open:
            self._open = False
            try:
                self._producer.abort_transaction(STEP_S)
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

        persist(watched_call, on_wait=self._on_wait)


def transaction(config: Config, transactional_id: str) -> Transaction:
    """Return the output of a job outside the services; no watchdog looks at its calls."""
    producer = clients.transactional_producer(config, transactional_id)
    return Transaction(
        producer, lambda _reason: None, config.transaction_timeout_ms, of_member=False
    )


def require_real(offsets: Sequence[TopicPartition]) -> None:
    """Check the offsets of a commit: at least one, none negative."""
    assert offsets, "a commit without offsets is not fenced"
    assert all(offset.offset >= 0 for offset in offsets), f"offsets to commit: {offsets}"


@contextmanager
def committed(producer: Producer, fenced: str) -> Iterator[None]:
    """Commit what is written inside in one transaction; abort it after an error.

    Raises:
        InfrastructureError: another process has ended the transaction; the text is ``fenced``.
    """
    try:
        producer.begin_transaction()
        yield
        persist(lambda: producer.commit_transaction(STEP_S))
    except BaseException as error:
        with suppress(KafkaException):
            producer.abort_transaction(STEP_S)
        if not isinstance(error, KafkaException) or error.args[0].name() not in FENCED:
            raise
        raise InfrastructureError(fenced) from error


def _is_retriable(error: KafkaError) -> bool:
    """Return whether a call of a transaction may be repeated after an error."""
    return error.retriable() and not error.txn_requires_abort() and not error.fatal()


def persist(
    call: Callable[[], object],
    passes: Callable[[KafkaError], bool] = _is_retriable,
    on_wait: OnWait = lambda _reason: None,
) -> None:
    """Repeat a call while its errors pass by themselves, for ten minutes at most.

    ``passes``: by default for a call of a transaction.  ``on_wait``: by default none hears of it.
    """
    retry(
        call,
        lambda error: isinstance(error, KafkaException) and passes(error.args[0]),
        for_s=_PATIENCE_S,
        pause_s=_PAUSE_S,
        on_wait=lambda error: on_wait(error.args[0].str()),
    )
