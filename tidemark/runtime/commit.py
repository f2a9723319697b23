"""The one transaction of a process: everything a commit writes becomes visible together.

A transaction begins with the first output and ends with the commit.  After any failure the process
ends: memory has moved on while the transaction did not, and only a restore makes them equal again.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import length_hint

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

_BUFFER_WAIT_S = 0.05
_COMMIT_TIMEOUT_S = 60.0
_RETRIES = 10


class Transaction:
    """The producer's side of a commit."""

    def __init__(self, producer: Producer) -> None:
        """Fence an earlier process of the same transactional id, and end its transaction."""
        self._producer = producer
        self._open = False
        _persist(lambda: producer.init_transactions(_COMMIT_TIMEOUT_S))

    @property
    def is_open(self) -> bool:
        """Whether something was written since the last commit."""
        return self._open

    def begin(self) -> None:
        """Open the transaction unless it is."""
        if not self._open:
            self._producer.begin_transaction()
            self._open = True

    def write(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
    ) -> None:
        """Write records to one partition.

        Most of what a pane costs is spent here, so the loop runs without the interpreter.
        """
        if not values:
            return
        self.begin()
        values_left, keys_left = iter(values), iter(keys)
        while length_hint(values_left):
            calls = map(
                self._producer.produce, repeat(topic), values_left, keys_left, repeat(partition)
            )
            try:
                deque(calls, maxlen=0)
            except BufferError:
                at = len(values) - length_hint(values_left) - 1  # taken, but found no room
                self._produce_when_there_is_room(topic, partition, keys[at], values[at])
        self._producer.poll(0)

    def _produce_when_there_is_room(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None
    ) -> None:
        while True:
            self._producer.poll(_BUFFER_WAIT_S)
            try:
                return self._producer.produce(topic, value, key, partition)
            except BufferError:
                continue

    def commit(self, offsets: Sequence[TopicPartition], consumer: Consumer) -> None:
        """Commit what was written together with ``offsets``, which must be real.

        Only a transaction that sends offsets of partitions still assigned is fenced when its
        process is no longer a member of the group.
        """
        assert offsets, "a transaction without offsets is not fenced"
        assert all(offset.offset >= 0 for offset in offsets), f"offsets to commit: {offsets}"
        self.begin()
        member = consumer.consumer_group_metadata()
        _persist(
            lambda: self._producer.send_offsets_to_transaction(
                list(offsets), member, _COMMIT_TIMEOUT_S
            )
        )
        _persist(lambda: self._producer.commit_transaction(_COMMIT_TIMEOUT_S))
        self._open = False

    def abort(self) -> None:
        """Drop what was written since the last commit, as far as the broker still listens."""
        if self._open:
            self._open = False
            try:
                self._producer.abort_transaction(_COMMIT_TIMEOUT_S)
            except KafkaException:
                return  # the broker ends it after transaction.timeout.ms


def _persist(call: Callable[[], object]) -> None:
    for _ in range(_RETRIES):
        try:
            call()
        except KafkaException as error:
            if not _retriable(error.args[0]):
                raise
        else:
            return
    call()


def _retriable(error: KafkaError) -> bool:
    return error.retriable() and not error.txn_requires_abort() and not error.fatal()
