"""Turns the messages of one ``consume`` into one batch of records per raw partition.

A Python call per record costs as much as all columnar work on that record.  So dense offsets are
computed from the first and last message, and keys, headers and timestamps are read only on demand.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Generic, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt
from confluent_kafka import Message

from tidemark.partition import Partition
from tidemark.serde.records import Headers, RecordBatch

T = TypeVar("T")


class _MessageColumn(Sequence[T], Generic[T]):
    """One attribute of many messages, read on access."""

    def __init__(self, read: Callable[[Message], T], messages: Sequence[Message]) -> None:
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
    messages: Sequence[Message], topics: Collection[str]
) -> dict[Partition, list[Message]]:
    """Return messages by partition, in their order.

    ``topics``: all topics that the messages may come from.  Messages of one partition come in long
    runs, so the work is per run.
    """
    groups: dict[Partition, list[Message]] = {}
    start = 0
    for end in _run_ends(messages, several_topics=len(topics) > 1):
        first = messages[start]
        partition = Partition(first.topic() or "", first.partition() or 0)
        groups.setdefault(partition, []).extend(messages[start:end])
        start = end
    return groups


def _run_ends(messages: Sequence[Message], *, several_topics: bool) -> list[int]:
    """Return the index behind the last message of each run of one partition."""
    number = np.fromiter(map(Message.partition, messages), np.int32, len(messages))
    changes = number[1:] != number[:-1]
    if several_topics:
        _, code = np.unique(list(map(Message.topic, messages)), return_inverse=True)
        changes |= code[1:] != code[:-1]
    return [*(np.flatnonzero(changes) + 1).tolist(), len(messages)]


def record_batch(
    partition: Partition, messages: Sequence[Message], received_at_ms: int, shift: int = 0
) -> RecordBatch:
    """Return the messages of one partition as columns.

    ``received_at_ms``: wall clock, ms UTC.  ``shift``: of the partition's offsets in the log.
    """
    offsets = _offsets(messages)
    return RecordBatch(
        topic=partition.topic,
        partition=partition.number,
        offsets=offsets,
        timestamps=_MessageColumn(_milliseconds, messages),
        keys=_MessageColumn(Message.key, messages),
        headers=_MessageColumn(cast(Callable[[Message], Headers], Message.headers), messages),
        values=list(map(Message.value, messages)),
        next_offset=int(offsets[-1]) + 1,
        received_at_ms=received_at_ms,
        shift=shift,
    )


def _milliseconds(message: Message) -> int:
    timestamp_ms: int = message.timestamp()[1]
    return timestamp_ms


def _offsets(messages: Sequence[Message]) -> npt.NDArray[np.int64]:
    first, last = messages[0].offset() or 0, messages[-1].offset() or 0
    if last - first + 1 == len(messages):
        return np.arange(first, last + 1, dtype=np.int64)
    return np.fromiter(map(Message.offset, messages), np.int64, len(messages))
