"""Turns the messages of one ``consume`` into one batch of records per raw partition.

A Python call per record costs as much as all columnar work on that record.  So dense offsets are
computed from the first and last message, and keys, headers and timestamps are read only on demand.
Messages that the native library has read are columns already.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Generic, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt

from tidemark.partition import Partition
from tidemark.runtime.messages.received import MessageColumns, ReceivedMessage
from tidemark.serde.records import Headers, RecordBatch

T = TypeVar("T")


class _MessageColumn(Sequence[T], Generic[T]):
    """One attribute of many messages, read on access."""

    def __init__(
        self, read: Callable[[ReceivedMessage], T], messages: Sequence[ReceivedMessage]
    ) -> None:
        self._read, self._messages = read, messages

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[T]:
        return map(self._read, self._messages)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> "Sequence[T]": ...

    def __getitem__(self, index: int | slice) -> "T | Sequence[T]":
        if isinstance(index, slice):
            return _MessageColumn(self._read, self._messages[index])
        return self._read(self._messages[index])


def by_partition(
    messages: Sequence[ReceivedMessage], topics: Collection[str]
) -> dict[Partition, Sequence[ReceivedMessage]]:
    """Return messages by partition, in their order.

    ``topics``: all topics that the messages may come from.  Messages of one partition come in long
    runs, so the work is per run.
    """
    if isinstance(messages, MessageColumns):
        return {**messages.by_partition()}
    groups: defaultdict[Partition, list[ReceivedMessage]] = defaultdict(list)
    start = 0
    for end in _run_ends(messages, several_topics=len(topics) > 1):
        first = messages[start]
        partition = Partition(first.topic() or "", first.partition() or 0)
        groups[partition].extend(messages[start:end])
        start = end
    return {**groups}


def _run_ends(messages: Sequence[ReceivedMessage], *, several_topics: bool) -> list[int]:
    """Return the index behind the last message of each run of one partition."""
    number = np.fromiter(map(_method(messages, "partition"), messages), np.int32, len(messages))
    changes = number[1:] != number[:-1]
    if several_topics:
        topics = list(map(_method(messages, "topic"), messages))
        _, code = np.unique(topics, return_inverse=True)
        changes |= code[1:] != code[:-1]
    return [*(np.flatnonzero(changes) + 1).tolist(), len(messages)]


def record_batch(
    partition: Partition,
    messages: Sequence[ReceivedMessage],
    received_at_ms: int,
    shift: int = 0,
) -> RecordBatch:
    """Return the messages of one partition as columns.

    ``received_at_ms``: wall clock, ms UTC.  ``shift``: of the partition's offsets in the log.
    """
    offsets: npt.NDArray[np.int64]
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    headers: Sequence[Headers]
    if isinstance(messages, MessageColumns):
        offsets, timestamps = messages.offsets, cast(Sequence[int], messages.timestamps)
        keys, headers, values = messages.keys, messages.headers, messages.values()
    else:
        offsets = _offsets(messages)
        timestamps = _MessageColumn(_milliseconds, messages)
        keys = _MessageColumn(_method(messages, "key"), messages)
        headers = _MessageColumn(_method(messages, "headers"), messages)
        values = list(map(_method(messages, "value"), messages))
    return RecordBatch(
        topic=partition.topic,
        partition=partition.number,
        offsets=offsets,
        timestamps=timestamps,
        keys=keys,
        headers=headers,
        values=values,
        next_offset=int(offsets[-1]) + 1,
        received_at_ms=received_at_ms,
        shift=shift,
    )


def _method(messages: Sequence[ReceivedMessage], name: str) -> Callable[[ReceivedMessage], Any]:
    """Return a method of messages, which all have one class: a call takes half the time."""
    method: Callable[[ReceivedMessage], Any] = getattr(type(messages[0]), name)
    return method


def _milliseconds(message: ReceivedMessage) -> int:
    return message.timestamp()[1]


def _offsets(messages: Sequence[ReceivedMessage]) -> npt.NDArray[np.int64]:
    first, last = messages[0].offset() or 0, messages[-1].offset() or 0
    if last - first + 1 == len(messages):
        return np.arange(first, last + 1, dtype=np.int64)
    return np.fromiter(map(_method(messages, "offset"), messages), np.int64, len(messages))
