"""Handing records to a producer whose queue may be full, and waiting until they are written."""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import length_hint

from confluent_kafka import KafkaError, KafkaException, Message, Producer

Record = tuple[bytes, bytes | None]
"""Key and value of a record to write; the value of a tombstone is None."""

_BUFFER_WAIT_S = 0.05


class Failures:
    """Reports of records that a producer could not write; told by its ``poll`` and ``flush``."""

    def __init__(self) -> None:
        self._first: KafkaError | None = None

    def __call__(self, error: KafkaError | None, _message: Message) -> None:
        """Take a report."""
        if error is not None and self._first is None:
            self._first = error

    def check(self) -> None:
        """Raise the first failure, if there was one."""
        if self._first is not None:
            raise KafkaException(self._first)


def send(
    producer: Producer,
    topic: str,
    partition: int,
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
) -> None:
    """Put records of one partition into the producer's queue, in their order.

    Loops without the interpreter: most of what a pane costs is spent here.
    """
    values_left, keys_left = iter(values), iter(keys)
    try:
        while length_hint(values_left):
            calls = map(producer.produce, repeat(topic), values_left, keys_left, repeat(partition))
            try:
                deque(calls, maxlen=0)
            except BufferError:
                at = len(values) - length_hint(values_left) - 1  # taken, but found no room
                _produce_when_there_is_room(producer, topic, partition, keys[at], values[at])
    finally:
        producer.poll(0)  # raises why the client gave up, where it did


def _produce_when_there_is_room(
    producer: Producer, topic: str, partition: int, key: bytes | None, value: bytes | None
) -> None:
    while True:
        producer.poll(_BUFFER_WAIT_S)
        try:
            return producer.produce(topic, value, key, partition)
        except BufferError:
            continue


def flush(
    producer: Producer, failures: Failures, step_s: float, waiting: Callable[[], None]
) -> None:
    """Wait until the queue is empty; raise where a record was not written.

    The client gives a record up after ``message.timeout.ms``, which bounds the wait.
    """
    while producer.flush(step_s):
        failures.check()
        waiting()
    failures.check()
