"""Sends records through a producer whose queue may be full, and waits until they are written."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from operator import length_hint

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tidemark.serde.binary_column import BinaryColumn

Record = tuple[bytes, bytes | None]
"""Key and value of a record; the value of a tombstone is None."""

Send = Callable[[str, int, Sequence[bytes | None], Sequence[bytes | None]], None]
"""Puts records into the queue of a producer: topic, partition, keys, values."""

_BUFFER_WAIT_S = 0.05
_RECORD_BYTES = 128  # of a record beside its value: the key, and Python's objects
_MOST_HELD_BYTES = 64 * 2**20


class Failures:
    """The first delivery failure of a producer, reported by its ``poll`` and ``flush``."""

    def __init__(self) -> None:
        self._first: KafkaError | None = None

    def __call__(self, error: KafkaError | None, _message: Message) -> None:
        """Take a delivery report."""
        if error is not None and self._first is None:
            self._first = error

    def check(self) -> None:
        """Raise the first failure, if any."""
        if self._first is not None:
            raise KafkaException(self._first)


def send(
    producer: Producer,
    topic: str,
    partition: int,
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
) -> None:
    """Put records of one partition into the producer's queue, in order.

    The loop runs in C, not in Python: most of the cost of a pane is spent here.
    """
    values_left, keys_left = iter(values), iter(keys)
    try:
        while length_hint(values_left):
            calls = map(producer.produce, repeat(topic), values_left, keys_left, repeat(partition))
            try:
                deque(calls, maxlen=0)
            except BufferError:
                at = len(values) - length_hint(values_left) - 1  # consumed by map, but not queued
                produce = partial(producer.produce, topic, values[at], keys[at], partition)
                produce_when_there_is_room(producer, produce)
    finally:
        producer.poll(0)  # raises if the client has given up


def produce_when_there_is_room(producer: Producer, produce: Callable[[], object]) -> None:
    """Put a record into the producer's queue with ``produce``, as soon as the queue has room."""
    while True:
        try:
            produce()
        except BufferError:
            producer.poll(_BUFFER_WAIT_S)
        else:
            return


def size_bytes(values: Sequence[bytes | None]) -> int:
    """Return the approximate size of records in memory, by their values."""
    return _length_bytes(values) + _RECORD_BYTES * len(values)


def payload_bytes(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> int:
    """Return the length of all keys and values."""
    return _length_bytes(keys) + _length_bytes(values)


def _length_bytes(column: Sequence[bytes | None]) -> int:
    if isinstance(column, BinaryColumn):
        return column.size_bytes
    return sum(map(len, filter(None, column)))


class HeldRecords:
    """Records kept in memory to be sent later, or once more."""

    def __init__(self, most_bytes: int = _MOST_HELD_BYTES) -> None:
        """Start without records; ``most_bytes``: see ``are_many``."""
        self._most_bytes = most_bytes
        self._records: list[tuple[str, int, Sequence[bytes | None], Sequence[bytes | None]]] = []
        self._bytes = 0

    @property
    def are_none(self) -> bool:
        """Whether no records are kept."""
        return not self._records

    @property
    def are_many(self) -> bool:
        """Whether the records take so much memory that a commit is due."""
        return self._bytes > self._most_bytes

    def add(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
    ) -> None:
        """Keep records of one partition."""
        self._records.append((topic, partition, keys, values))
        self._bytes += size_bytes(values)

    def send(self, send: Send) -> None:
        """Put all records into the producer's queue, in order; keep them."""
        for records in self._records:
            send(*records)

    def clear(self) -> None:
        """Forget all records."""
        self._records, self._bytes = [], 0


def flush(
    producer: Producer, failures: Failures, step_s: float, on_wait: Callable[[str], None]
) -> None:
    """Wait until the queue is empty; ``on_wait`` is called every ``step_s`` seconds.

    The client gives up a record after ``message.timeout.ms``, so the wait ends.

    Raises:
        KafkaException: a record was not written.
    """
    while producer.flush(step_s):
        failures.check()
        on_wait("brokers have not taken all records")
    failures.check()
