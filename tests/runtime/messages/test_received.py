"""Messages as columns, against the same messages as objects."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from tidemark.partition import Partition
from tidemark.runtime.client.batches import by_partition, record_batch
from tidemark.runtime.messages.received import Column, MessageColumns, Run, joined, sizes_bytes
from tidemark.serde.binary_column import BinaryColumn

TOPICS = ("a", "b")
BYTES = st.none() | st.binary(max_size=9)
HEADERS = st.none() | st.lists(
    st.tuples(st.sampled_from(["h", "é"]), BYTES), min_size=1, max_size=3
)
RECORD = st.tuples(st.sampled_from(TOPICS), st.integers(0, 2), BYTES, BYTES, HEADERS)
Records = list[tuple[str, int, bytes | None, bytes | None, Any]]


def objects(records: Records, first: int) -> list[Message]:
    return [
        Message(
            topic=topic,
            partition=number,
            offset=first + 2 * index,
            key=key,
            value=value,
            headers=headers,
            timestamp=(1, 1_000 + index),
        )
        for index, (topic, number, key, value, headers) in enumerate(records)
    ]


def column(values: Sequence[bytes | None]) -> Column:
    """Return a slice, as runs are slices of a read."""
    return BinaryColumn.of([b"before", *values, None])[1:-1]


def columns(records: Records, first: int) -> MessageColumns:
    begins = [
        index
        for index, record in enumerate(records)
        if not index or record[:2] != records[index - 1][:2]
    ]
    runs = []
    for begin, end in zip(begins, [*begins[1:], len(records)], strict=True):
        topic, number = records[begin][:2]
        _, _, keys, values, headers = zip(*records[begin:end], strict=True)
        count = end - begin
        offsets = first + 2 * np.arange(begin, end)
        timestamps = 1_000 + np.arange(begin, end)
        kinds = np.ones(count, np.int32)
        found = headers if any(headers) else None
        runs.append(
            Run(
                Partition(topic, number),
                offsets,
                kinds,
                timestamps,
                column(keys),
                column(values),
                found,
            )
        )
    return MessageColumns(runs)


def shown(message: Any) -> tuple[Any, ...]:
    return (
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp(),
        message.key(),
        message.value(),
        message.headers(),
        len(message),
    )


@given(st.lists(st.lists(RECORD, min_size=1, max_size=12), min_size=1, max_size=3))
def test_columns_say_what_objects_say(reads):
    by_objects = joined([objects(each, 100 * n) for n, each in enumerate(reads)])
    by_columns = joined([columns(each, 100 * n) for n, each in enumerate(reads)])
    assert len(by_columns) == len(by_objects)
    assert list(map(shown, by_columns)) == list(map(shown, by_objects))
    expected, found = by_partition(by_objects, TOPICS), by_partition(by_columns, TOPICS)
    assert list(found) == list(expected)
    for at, some in expected.items():
        wanted, got = record_batch(at, some, 5, 7), record_batch(at, found[at], 5, 7)
        assert got.offsets.tolist() == wanted.offsets.tolist()
        assert got.timestamp_column().tolist() == wanted.timestamp_column().tolist()
        for name in ("keys", "headers", "values"):
            assert list(getattr(got, name)) == list(getattr(wanted, name))
            assert getattr(got, name)[-1] == getattr(wanted, name)[-1]
        assert list(got.keys[1:]) == list(wanted.keys[1:])
        assert (got.next_offset, got.shift) == (wanted.next_offset, wanted.shift)


@given(st.lists(RECORD, min_size=1, max_size=12))
def test_the_size_of_columns_counts_each_key_and_value(records):
    sizes = [len(key or b"") + len(value or b"") for _, _, key, value, _ in records]
    assert sizes_bytes(columns(records, 0)) == (sum(sizes), max(sizes))


def test_no_messages_are_no_columns():
    assert list(joined([])) == []
    assert sizes_bytes([]) == (0, 0)
