"""Segments, and slices of them, as rows of Arrow batches: how they travel between Spark's tasks."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from tidemark.partition import Partition

Batches = Iterator[pa.RecordBatch]

SEGMENTS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("slice", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.binary()),
    ]
)
"""Segments as they come from a topic, an archive, or ingest run again."""

PIECES = pa.schema(
    [
        ("unit", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("slice", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.binary()),
    ]
)
"""Segments, or their slices, on the way to the task that works on them."""

_SQL = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
}


def ddl(schema: pa.Schema) -> str:
    """Return columns as Spark writes them."""
    return ", ".join(f"{field.name} {_SQL[field.type]}" for field in schema)


def batch_of(columns: Iterable[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return columns of Python values as a batch."""
    arrays = [pa.array(values, f.type) for values, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Piece(NamedTuple):
    """A segment, or its slice, as a task gets it."""

    log: Partition
    slice: int
    offset: int
    value: bytes


def segment_batch(log: Partition, offset: int, value: bytes) -> pa.RecordBatch:
    """Return the row of a segment."""
    return batch_of(([cell] for cell in (*log, 0, offset, value)), SEGMENTS)


def pieces_of(batch: pa.RecordBatch) -> Iterator[Piece]:
    """Return the segments, or slices, of a batch."""
    names = ("topic", "partition", "slice", "offset")
    topics, numbers, slices, offsets = (batch.column(name).to_pylist() for name in names)
    values = batch.column("value")
    for index, topic in enumerate(topics):
        log = Partition(topic, numbers[index])
        yield Piece(log, slices[index], offsets[index], values[index].as_py())
