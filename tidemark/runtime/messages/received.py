"""Messages that a consumer has read: the interface, and messages as columns.

The Python client has an object for each message.  The native reader has columns, and makes objects
only where code asks for single messages.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Protocol, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemark.partition import Partition
from tidemark.serde.binary_column import BinaryColumn
from tidemark.serde.records import Headers

Column = BinaryColumn[bytes | None]


class ReceivedMessage(Protocol):
    """One message, with the methods of the Python client's ``Message``."""

    def topic(self) -> str | None:
        """Return the topic."""

    def partition(self) -> int | None:
        """Return the number of the partition."""

    def offset(self) -> int | None:
        """Return the offset."""

    def timestamp(self) -> tuple[int, int]:
        """Return the kind of the timestamp, and the timestamp in ms."""

    def key(self) -> bytes | None:
        """Return the key."""

    def value(self) -> bytes | None:
        """Return the value; None for a tombstone."""

    def headers(self) -> Any:
        """Return the headers: ``Headers`` of a message that was read."""

    def __len__(self) -> int:
        """Return the size of the value."""


class ColumnMessage:
    """One message of columns."""

    __slots__ = ("_headers", "_key", "_kind", "_offset", "_partition", "_timestamp_ms", "_value")

    def __init__(
        self,
        partition: Partition,
        offset: int,
        kind: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
    ) -> None:
        self._partition, self._offset = partition, offset
        self._kind, self._timestamp_ms = kind, timestamp_ms
        self._key, self._value, self._headers = key, value, headers

    def topic(self) -> str:
        """Return the topic."""
        return self._partition.topic

    def partition(self) -> int:
        """Return the number of the partition."""
        return self._partition.number

    def offset(self) -> int:
        """Return the offset."""
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        """Return the kind of the timestamp, and the timestamp in ms."""
        return self._kind, self._timestamp_ms

    def key(self) -> bytes | None:
        """Return the key."""
        return self._key

    def value(self) -> bytes | None:
        """Return the value; None for a tombstone."""
        return self._value

    def headers(self) -> Headers:
        """Return the headers, None without any."""
        return self._headers

    def __len__(self) -> int:
        return len(self._value or b"")


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive messages of one partition, as columns of equal lengths.

    ``kinds``: of the timestamps.  ``headers``: None if no message has any.
    """

    partition: Partition
    offsets: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int32]
    timestamps: npt.NDArray[np.int64]
    keys: Column
    values: Column
    headers: Sequence[Headers] | None

    def sizes_bytes(self) -> npt.NDArray[np.int64]:
        """Return the size of each message: of its key and its value."""
        return self.keys.lengths_bytes + self.values.lengths_bytes

    def messages(self) -> Iterator[ColumnMessage]:
        """Yield an object for each message."""
        return map(
            ColumnMessage,
            repeat(self.partition),
            self.offsets.tolist(),
            self.kinds.tolist(),
            self.timestamps.tolist(),
            self.keys,
            self.values,
            repeat(None) if self.headers is None else self.headers,
        )


class MessageColumns(Sequence[ReceivedMessage]):
    """Messages as columns, in runs of one partition each."""

    def __init__(self, runs: Sequence[Run]) -> None:
        """Wrap runs, in the order of reading."""
        self.runs = runs
        self._count = sum(len(run.offsets) for run in runs)
        self._listed: list[ReceivedMessage] | None = None

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return iter(self._messages)

    @overload
    def __getitem__(self, index: int) -> ReceivedMessage: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[ReceivedMessage]: ...

    def __getitem__(self, index: int | slice) -> "ReceivedMessage | Sequence[ReceivedMessage]":
        return self._messages[index]

    @property
    def _messages(self) -> list[ReceivedMessage]:
        """An object for each message; made once, if code asks for single messages."""
        if self._listed is None:
            self._listed = [message for run in self.runs for message in run.messages()]
        return self._listed

    def by_partition(self) -> dict[Partition, "MessageColumns"]:
        """Return the messages of each partition, in their order."""
        groups: dict[Partition, list[Run]] = {}
        for run in self.runs:
            groups.setdefault(run.partition, []).append(run)
        return {at: MessageColumns(runs) for at, runs in groups.items()}

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """The offsets of all messages."""
        return np.concatenate([run.offsets for run in self.runs])

    @property
    def timestamps(self) -> npt.NDArray[np.int64]:
        """The timestamps of all messages, in ms."""
        return np.concatenate([run.timestamps for run in self.runs])

    @property
    def keys(self) -> Column:
        """The keys of all messages."""
        return BinaryColumn(pa.concat_arrays([run.keys.array for run in self.runs]))

    def values(self) -> list[bytes | None]:
        """Return the values of all messages."""
        return [value for run in self.runs for value in run.values]

    @property
    def headers(self) -> Sequence[Headers]:
        """The headers of all messages."""
        if all(run.headers is None for run in self.runs):
            return [None] * len(self)
        return [each for run in self.runs for each in run.headers or [None] * len(run.offsets)]


def joined(parts: Iterable[Sequence[ReceivedMessage]]) -> Sequence[ReceivedMessage]:
    """Return the messages of several reads of one reader, in order."""
    some = list(parts)
    columns = [part for part in some if isinstance(part, MessageColumns)]
    if not columns:
        return [message for part in some for message in part]
    return MessageColumns([run for part in columns for run in part.runs])


def sizes_bytes(messages: Sequence[ReceivedMessage]) -> tuple[int, int]:
    """Return the size of messages, and of the largest of them: keys and values.

    To ask each object for its key would cost much, so the first and the last key stand for all.
    """
    if isinstance(messages, MessageColumns):
        each_bytes = [run.sizes_bytes() for run in messages.runs]
        return sum(int(own.sum()) for own in each_bytes), max(int(own.max()) for own in each_bytes)
    values_bytes = list(map(len, messages))
    ends = (*messages[:1], *messages[-1:])
    key_bytes = max((len(each.key() or b"") for each in ends), default=0)
    total_bytes = sum(values_bytes) + key_bytes * len(messages)
    return total_bytes, max(values_bytes, default=0) + key_bytes
