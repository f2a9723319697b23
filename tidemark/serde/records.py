"""Raw records of a partition, dead letters, and counts of records."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Headers: TypeAlias = Sequence[tuple[str, bytes | None]] | None

NO_TIMESTAMP = -1
"""The timestamp of a record without a Kafka timestamp."""


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Consecutive records of one raw partition, as columns.

    ``offsets`` ascend and may have gaps.  ``next_offset``: where reading continues, after records
    that only the broker sees, such as markers of transactions.  ``received_at_ms``: the wall clock
    when the records were read; only INGEST_TIME uses it.  ``shift``: what the log adds to offsets;
    above 0 if the raw topic was created again, because sources never go back in the log.
    """

    topic: str
    partition: int
    offsets: npt.NDArray[np.int64]
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    headers: Sequence[Headers]
    values: Sequence[bytes | None]
    next_offset: int
    received_at_ms: int
    shift: int = 0

    @classmethod
    def of_values(
        cls,
        topic: str,
        partition: int,
        first_offset: int,
        values: Sequence[bytes | None],
        received_at_ms: int,
    ) -> "RecordBatch":
        """Return a batch of values only, without keys, headers and timestamps; without gaps."""
        count = len(values)
        return cls(
            topic=topic,
            partition=partition,
            offsets=np.arange(first_offset, first_offset + count),
            timestamps=[NO_TIMESTAMP] * count,
            keys=[None] * count,
            headers=[None] * count,
            values=values,
            next_offset=first_offset + count,
            received_at_ms=received_at_ms,
        )

    @property
    def source(self) -> str:
        """The raw partition as segments name it: topic/partition."""
        return f"{self.topic}/{self.partition}"

    @property
    def log_offsets(self) -> npt.NDArray[np.int64]:
        """The offsets of the records in the log."""
        return self.offsets + self.shift if self.shift else self.offsets

    @property
    def log_next_offset(self) -> int:
        """The offset in the log where reading continues."""
        return self.next_offset + self.shift

    def pieces(
        self, most_bytes: int, size_of: Callable[[bytes], int] = len
    ) -> "Iterator[RecordBatch]":
        """Yield the batch in parts with values of at most ``most_bytes``, or one record.

        ``size_of``: of a value: a record may take far more memory than its bytes.
        """
        if sum(map(size_of, filter(None, self.values))) <= most_bytes:
            yield self
            return
        sizes = [size_of(value) if value else 0 for value in self.values]
        begin, held = 0, 0
        for index, size in enumerate(sizes):
            if index > begin and held + size > most_bytes:
                yield self._part(begin, index)
                begin, held = index, 0
            held += size
        yield self._part(begin, len(self))

    def _part(self, begin: int, end: int) -> "RecordBatch":
        return replace(
            self,
            offsets=self.offsets[begin:end],
            timestamps=self.timestamps[begin:end],
            keys=self.keys[begin:end],
            headers=self.headers[begin:end],
            values=self.values[begin:end],
            next_offset=int(self.offsets[end]) if end < len(self) else self.next_offset,
        )

    def until(self, log_offset: int) -> "RecordBatch":
        """Return the part before an offset in the log."""
        if log_offset >= self.log_next_offset:
            return self
        end = int(np.searchsorted(self.log_offsets, log_offset))
        return replace(self._part(0, end), next_offset=log_offset - self.shift)

    def timestamp_column(self) -> npt.NDArray[np.int64]:
        """Return all timestamps, Int64; makes one call per record."""
        return np.fromiter(self.timestamps, np.int64, len(self))

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that became no row, with the reason.

    ``stage``: where it failed: "parse", "event time", "watermark", "tombstone", a metadata column,
    the label of an operator, or "log".
    """

    reason: str
    stage: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of records by outcome; always ``records`` = passed + filtered + dead + blank.

    ``converted``: the number of lenient values of rows that were converted.
    """

    records: int = 0
    passed: int = 0
    filtered: int = 0
    dead: int = 0
    blank: int = 0
    converted: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.records + other.records,
            self.passed + other.passed,
            self.filtered + other.filtered,
            self.dead + other.dead,
            self.blank + other.blank,
            self.converted + other.converted,
        )
