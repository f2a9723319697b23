"""Reads messages into columns by the native library, without an object for each.

librdkafka puts the messages of each partition into a queue of the partition, and forwards that to
the queue of the consumer.  Here the queues of partitions are forwarded to a queue of our own, from
which the native library reads.  Everything else stays in the queue of the consumer: rebalances,
errors and logs.  The Python client serves these before each read.
"""

import ctypes
import logging
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError

from tidemark.partition import Partition
from tidemark.runtime.config import Config
from tidemark.runtime.messages.librdkafka import Bytes, Handle, handle_of
from tidemark.runtime.messages.reader import MayGo, ObjectReader, Reader, require_passing
from tidemark.runtime.messages.received import Column, MessageColumns, ReceivedMessage, Run
from tidemark.serde.binary_column import BinaryColumn
from tidemark.serde.records import Headers

_log = logging.getLogger("tidemark")

_LONGEST_WAIT_S = 0.1
"""A rebalance waits for the end of a read."""

_COUNTS = "good bad runs value_bytes key_bytes null_values null_keys headers header_bytes"


class _Sizes(ctypes.Structure):
    """``Sizes`` of tidemark/native/received.c."""

    _fields_ = tuple((name, ctypes.c_int64) for name in _COUNTS.split())


class _Columns(ctypes.Structure):
    """``Columns`` of tidemark/native/received.c."""

    _fields_ = (
        ("values", Bytes),
        ("keys", Bytes),
        ("offsets", ctypes.c_void_p),
        ("timestamps", ctypes.c_void_p),
        ("timestamp_types", ctypes.c_void_p),
        ("run_begins", ctypes.c_void_p),
        ("run_topics", ctypes.c_void_p),
        ("run_partitions", ctypes.c_void_p),
        ("header_counts", ctypes.c_void_p),
        ("header_sizes", ctypes.c_void_p),
        ("header_data", ctypes.c_void_p),
    )


class _FailedMessage(ctypes.Structure):
    """The first members of ``Message`` of tidemark/native/librdkafka.h."""

    _fields_ = (("error", ctypes.c_int32), ("topic", ctypes.c_void_p))


class NativeReader:
    """Reads messages as columns."""

    def __init__(self, consumer: Consumer, handle: Handle) -> None:
        """Make the queue; ``handle``: of the consumer."""
        self._consumer = consumer
        self._functions, self._handle = handle
        self._queue = self._functions.rd_kafka_queue_new(self._handle)
        self._reader = self._functions.tidemark_reader_new(self._functions.table, self._queue)
        self._routed: set[Partition] = set()

    def read(self, count: int, timeout_s: float, may_go: MayGo) -> Sequence[ReceivedMessage]:
        """See ``Reader``."""
        event = self._consumer.poll(0.0)
        if event is not None:
            error = event.error()
            assert error is not None, f"a message of {event.topic()} came by the consumer's queue"
            require_passing(error, event.topic() or "", may_go)
        sizes = _Sizes()
        wait_ms = round(min(timeout_s, _LONGEST_WAIT_S) * 1000)
        if self._functions.tidemark_read(self._reader, wait_ms, count, ctypes.byref(sizes)):
            raise MemoryError(f"no memory to read {count} messages")
        try:
            self._check(sizes.bad, may_go)
            return self._copied(sizes) if sizes.good else []
        finally:
            self._functions.tidemark_release(self._reader)

    def _check(self, failed: int, may_go: MayGo) -> None:
        for index in range(failed):
            address = self._functions.tidemark_failed(self._reader, index)
            message = _FailedMessage.from_address(address)
            text = self._functions.rd_kafka_message_errstr(address).decode()
            topic = self._name(message.topic) if message.topic else ""
            require_passing(KafkaError(message.error, text), topic, may_go)

    def _name(self, topic: int) -> str:
        name: bytes = self._functions.rd_kafka_topic_name(topic)
        return name.decode()

    def _copied(self, sizes: _Sizes) -> MessageColumns:
        count = sizes.good
        values = _Buffers(count, sizes.value_bytes, sizes.null_values)
        keys = _Buffers(count, sizes.key_bytes, sizes.null_keys)
        offsets, timestamps = np.empty(count, np.int64), np.empty(count, np.int64)
        kinds = np.empty(count, np.int32)
        begins, topics = np.empty(sizes.runs, np.int64), np.empty(sizes.runs, np.uintp)
        numbers = np.empty(sizes.runs, np.int32)
        counts = np.empty(count if sizes.headers else 0, np.int32)
        header_sizes = np.empty((sizes.headers, 2), np.int64)
        header_data = np.empty(sizes.header_bytes, np.uint8)
        columns = _Columns(
            values.addresses(),
            keys.addresses(),
            offsets.ctypes.data,
            timestamps.ctypes.data,
            kinds.ctypes.data,
            begins.ctypes.data,
            topics.ctypes.data,
            numbers.ctypes.data,
            counts.ctypes.data if sizes.headers else None,
            header_sizes.ctypes.data,
            header_data.ctypes.data,
        )
        self._functions.tidemark_copy(self._reader, ctypes.byref(columns))
        headers = _headers(counts, header_sizes, header_data.tobytes()) if sizes.headers else None
        value_column, key_column = values.column(), keys.column()
        ends = [*begins[1:].tolist(), count]
        places = map(Partition, map(self._name, topics.tolist()), numbers.tolist())
        return MessageColumns(
            [
                Run(
                    at,
                    offsets[begin:end],
                    kinds[begin:end],
                    timestamps[begin:end],
                    key_column[begin:end],
                    value_column[begin:end],
                    None if headers is None else headers[begin:end],
                )
                for at, begin, end in zip(places, begins.tolist(), ends, strict=True)
            ]
        )

    def route(self, partitions: Iterable[Partition]) -> None:
        """Forward the queues of partitions to our own; must come before they are assigned.

        librdkafka ends the forwarding of a partition when it stops to read it, some time after an
        unassignment.  A question that it answers after that keeps the order.
        """
        self._consumer.assignment()
        for partition in partitions:
            self._forward(partition, self._queue)
            self._routed.add(partition)

    def leave(self, partitions: Iterable[Partition]) -> None:
        """Forward the queues of partitions to that of the consumer again."""
        left = self._routed.intersection(partitions)
        if left:
            queue = self._functions.rd_kafka_queue_get_consumer(self._handle)
            for partition in left:
                self._forward(partition, queue)
            self._functions.rd_kafka_queue_destroy(queue)
        self._routed -= left

    def _forward(self, partition: Partition, queue: int) -> None:
        topic, number = partition
        own = self._functions.rd_kafka_queue_get_partition(self._handle, topic.encode(), number)
        self._functions.rd_kafka_queue_forward(own, queue)
        self._functions.rd_kafka_queue_destroy(own)

    def close(self) -> None:
        """Give the queue back: a consumer with messages in it would wait for them forever."""
        if self._queue is not None:
            self.leave(list(self._routed))
            self._functions.tidemark_reader_free(self._reader)
            self._functions.rd_kafka_queue_destroy(self._queue)
            self._queue = self._reader = None


class _Buffers:
    """The buffers of a column of bytes."""

    def __init__(self, count: int, size_bytes: int, nulls: int) -> None:
        self._count, self._nulls = count, nulls
        self._data = np.empty(size_bytes, np.uint8)
        self._offsets = np.empty(count + 1, np.int64)
        self._valid = np.zeros((count + 7) // 8, np.uint8) if nulls else None

    def addresses(self) -> Bytes:
        valid = None if self._valid is None else self._valid.ctypes.data
        return Bytes(self._data.ctypes.data, self._offsets.ctypes.data, valid, 0)

    def column(self) -> Column:
        valid = None if self._valid is None else pa.py_buffer(self._valid)
        buffers = [valid, pa.py_buffer(self._offsets), pa.py_buffer(self._data)]
        type_ = pa.large_binary()
        return BinaryColumn(pa.Array.from_buffers(type_, self._count, buffers, self._nulls))


def _headers(
    counts: npt.NDArray[np.int32], sizes: npt.NDArray[np.int64], data: bytes
) -> list[Headers]:
    """Return the headers of each message; ``sizes``: of the name and the value of each header."""
    ends = np.maximum(sizes, 0).cumsum()
    pieces = list(map(data.__getitem__, map(slice, [0, *ends[:-1].tolist()], ends.tolist())))
    names = (name.decode(errors="replace") for name in pieces[::2])
    values = [
        None if size < 0 else value
        for value, size in zip(pieces[1::2], sizes[:, 1].tolist(), strict=True)
    ]
    left = iter(zip(names, values, strict=True))
    return [None if count < 0 else [next(left) for _ in range(count)] for count in counts.tolist()]


def reader_of(config: Config, consumer: Consumer, client_id: str) -> Reader:
    """Return the reader of a consumer: native where it can be; the log says which and why."""
    handle = handle_of(config, consumer, client_id)
    if isinstance(handle, str):
        _log.info("%s reads without the native library: %s", client_id, handle)
        return ObjectReader(consumer)
    _log.info("%s reads by the native library", client_id)
    return NativeReader(consumer, handle)
