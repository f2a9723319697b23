"""Segments, and key-group slices of them, as rows of Arrow batches between Spark's tasks."""

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
"""Segments from a topic, an archive, or ingest run again; ``slice`` is 0."""

SLICED_SEGMENTS = pa.schema(
    [
        ("task", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("slice", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.binary()),
    ]
)
"""Segments, or key-group slices of them, with the number of the ``task`` that processes them."""

_SQL = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
}


def ddl(schema: pa.Schema) -> str:
    """Return a schema in Spark's DDL."""
    return ", ".join(f"{field.name} {_SQL[field.type]}" for field in schema)


def batch_of(columns: Iterable[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return columns of Python values, in the order of the schema, as a batch."""
    arrays = [pa.array(values, f.type) for values, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def row_tuples(batches: Batches) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of batches as Python values, in the order of the columns."""
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


class SegmentRow(NamedTuple):
    """A segment, or one key-group slice of it, as a task reads it."""

    log: Partition
    slice: int
    offset: int
    value: bytes


def segment_batch(log: Partition, offset: int, value: bytes) -> pa.RecordBatch:
    """Return a segment as a batch of one row (``SEGMENTS``)."""
    return batch_of(([cell] for cell in (*log, 0, offset, value)), SEGMENTS)


def segment_rows(batch: pa.RecordBatch) -> Iterator[SegmentRow]:
    """Yield the rows of a batch that has the columns of ``SEGMENTS``."""
    names = ("topic", "partition", "slice", "offset")
    topics, numbers, slices, offsets = (batch.column(name).to_pylist() for name in names)
    values = batch.column("value")
    for index, topic in enumerate(topics):
        log = Partition(topic, numbers[index])
        yield SegmentRow(log, slices[index], offsets[index], values[index].as_py())
