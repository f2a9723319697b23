"""What a bounded search reads and what it names as unread: docs/monitor.md, "Find a record"."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tidemark.partition import Partition
from tidemark.runtime.client.consumer import EARLIEST
from tidemark.runtime.client.range_reader import Range
from tidemark.why import reading
from tidemark.why.reading import Bound, Reading

VALUE = b"four"


@dataclass
class Record:
    """The part of a message that is read here."""

    place: Partition
    number: int

    def topic(self) -> str:
        return self.place.topic

    def partition(self) -> int:
        return self.place.number

    def offset(self) -> int:
        return self.number

    def value(self) -> bytes:
        return VALUE


@dataclass
class Topics:
    """Partitions of a topic with records of four bytes; it counts the consumers that are made.

    ``since``: the first offset of each partition that was written since any time; -1 for none.
    """

    ends: dict[Partition, int]
    since: dict[Partition, int] = field(default_factory=dict)
    consumers: int = 0

    def read(self, _config: Any, ranges: Mapping[Partition, Range]) -> Iterator[Record]:
        self.consumers += 1
        for at, (begin, end) in ranges.items():
            yield from (Record(at, offset) for offset in range(begin, end))

    def offsets(self, _admin: Any, of: list[Partition], which: Any) -> dict[Partition, int]:
        first = which is EARLIEST
        return {at: 0 if first else self.since.get(at, -1) for at in of}


def raw(
    monkeypatch: pytest.MonkeyPatch, topics: Topics, bound: Bound | None, since_ms: int | None
) -> tuple[list[tuple[Partition, list[int]]], list[str]]:
    """Return the offsets of each raw batch, and what was not read."""
    monkeypatch.setattr(reading, "read", topics.read)
    monkeypatch.setattr(reading, "offsets", topics.offsets)
    monkeypatch.setattr(reading, "committed_ends", lambda *_: topics.ends)
    monkeypatch.setattr(reading, "partition_counts", lambda _: {"t": len(topics.ends)})
    monkeypatch.setattr(
        reading, "record_batch", lambda at, held, _: (at, [each.offset() for each in held])
    )
    found = Reading(cast(Any, None), cast(Any, None), cast(Any, None), bound)
    batches: list[Any] = [*found.raw_batches(["t"], since_ms)]
    return batches, found.unread


FIRST, SECOND, THIRD = (Partition("t", number) for number in range(3))


def test_no_partition_is_asked_for_after_enough_bytes_are_read(monkeypatch):
    topics = Topics({FIRST: 2, SECOND: 3, THIRD: 4})
    batches, unread = raw(monkeypatch, topics, Bound(10, 3 * len(VALUE), 0), None)
    assert batches == [(FIRST, [0, 1]), (SECOND, [0, 1])]
    assert topics.consumers == 2
    assert unread == [
        "t/1: nothing is read from offset 2 on, after 0 MiB",
        "t/2: nothing is read from offset 0 on, after 0 MiB",
    ]


@pytest.mark.parametrize("bound", [None, Bound(2, 1_000, 0)])
def test_a_partition_without_records_since_a_time_is_not_read(monkeypatch, bound):
    topics = Topics({FIRST: 5, SECOND: 5}, since={SECOND: 3})
    assert raw(monkeypatch, topics, bound, since_ms=1) == ([(SECOND, [3, 4])], [])


def test_of_a_long_partition_the_part_that_was_written_since_a_time_is_read(monkeypatch):
    topics = Topics({FIRST: 5, SECOND: 2}, since={FIRST: 1})
    batches, unread = raw(monkeypatch, topics, Bound(2, 1_000, 0), None)
    assert batches == [(FIRST, [1, 2]), (SECOND, [0, 1])]
    assert unread == ["t/0: only offsets 1 to 3 of 0 to 5 are read"]
