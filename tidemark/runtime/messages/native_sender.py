"""Puts columns of records into the queue of a producer by the native library.

The transaction stays with the Python client.  Records sent here have no delivery reports of their
own.  So only a transaction may send them, where the commit raises failures.
"""

import ctypes
from collections.abc import Sequence

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer

from tidemark.runtime.config import Config
from tidemark.runtime.messages.librdkafka import Bytes, Handle, handle_of
from tidemark.serde.binary_column import BinaryColumn

_BUFFER_WAIT_S = 0.05
_CLIENT_ID = "rdkafka"
"""The name of clients without a ``client.id``; that of a producer cannot be set."""


class NativeSender:
    """Sends records of one producer: a ``Send``."""

    def __init__(self, producer: Producer, handle: Handle) -> None:
        """``handle``: of the producer."""
        self._producer = producer
        self._functions, self._handle = handle

    def __call__(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
    ) -> None:
        """Put records of one partition into the producer's queue, in order.

        Raises:
            KafkaException: the client refuses a record; those before it are in the queue.
        """
        handle = self._functions.rd_kafka_topic_new(self._handle, topic.encode(), None)
        if handle is None:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, f"topic {topic}"))
        try:
            self._send(handle, partition, _array(keys), _array(values))
        finally:
            self._functions.rd_kafka_topic_destroy(handle)
            self._producer.poll(0)  # raises if the client has given up

    def _send(
        self, topic: int, partition: int, keys: pa.LargeBinaryArray, values: pa.LargeBinaryArray
    ) -> None:
        own_keys, own_values = _addresses(keys), _addresses(values)
        code, done = ctypes.c_int32(), 0
        while done < len(values):
            done += self._functions.tidemark_produce(
                self._functions.table,
                topic,
                partition,
                ctypes.byref(own_keys),
                ctypes.byref(own_values),
                done,
                len(values),
                ctypes.byref(code),
            )
            if code.value == KafkaError._QUEUE_FULL:
                self._producer.poll(_BUFFER_WAIT_S)
            elif code.value:
                text = self._functions.rd_kafka_err2str(code.value).decode()
                raise KafkaException(KafkaError(code.value, f"Unable to produce message: {text}"))


def _array(values: Sequence[bytes | None]) -> pa.LargeBinaryArray:
    """Return values as a column; a column that knows its array is not copied."""
    column = values if isinstance(values, BinaryColumn) else BinaryColumn.of(values)
    return column.array


def _addresses(array: pa.LargeBinaryArray) -> Bytes:
    """Return where a column lies; the caller keeps it."""
    valid, offsets, data = array.buffers()
    return Bytes(
        None if data is None else data.address,
        offsets.address,
        None if valid is None else valid.address,
        array.offset,
    )


def native_sender(config: Config, producer: Producer) -> NativeSender | None:
    """Return the sender of a transactional producer, None where it cannot be native."""
    handle = handle_of(config, producer, _CLIENT_ID)
    return None if isinstance(handle, str) else NativeSender(producer, handle)
