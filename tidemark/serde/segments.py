"""Segments as records of a log topic: ``schemas/segment.avsc``."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any

from tidemark.core.time.segment import ROW_COLUMNS, Segment, SourceMark
from tidemark.errors import StateError
from tidemark.serde.avro import AvroType
from tidemark.serde.frames import decode_tables, encode_tables

_SEGMENT = AvroType.of_file("segment")

MAX_BATCH_SEGMENTS = 1024
"""Maximum segments of a batch of segments ..."""

_MAX_BATCH_BYTES = 16 * 2**20
"""... or its size in bytes: larger batches take more memory and save little time."""


def encode_segment(segment: Segment) -> bytes:
    """Return a segment as the value of a log record."""
    return _SEGMENT.encode(
        {
            "epoch": segment.epoch,
            "part": segment.part,
            "sources": [asdict(mark) for mark in segment.sources],
            "partitions": segment.partitions,
            "ingested_at_ms": segment.ingested_at_ms,
            "streams": encode_tables(segment.streams),
        }
    )


def as_record(data: bytes) -> dict[str, Any]:
    """Return a segment as an Avro record, its frames not decoded.

    Raises:
        StateError: the bytes have another schema, or are damaged.
    """
    return _SEGMENT.decode(data)


def from_record(record: dict[str, Any]) -> bytes:
    """Return the value of a log record; the inverse of ``as_record``."""
    return _SEGMENT.encode(record)


def in_batches(
    values: Iterable[tuple[int, bytes]], most: Callable[[], int] = lambda: MAX_BATCH_SEGMENTS
) -> Iterator[list[tuple[int, bytes]]]:
    """Yield log records, as offset and value, in batches of segments for operators.

    ``most``: returns the maximum segments of the next batch; it is called for each record.
    """
    batch: list[tuple[int, bytes]] = []
    size_bytes = 0
    for offset, value in values:
        batch.append((offset, value))
        size_bytes += len(value)
        if size_bytes >= _MAX_BATCH_BYTES or len(batch) >= most():
            yield batch
            batch, size_bytes = [], 0
    if batch:
        yield batch


def segment_at(
    log: object, offset: int, data: bytes, streams: Iterable[str] | None = None
) -> Segment:
    """Return the segment at an offset of a log partition, as ``decode_segment`` does.

    Raises:
        StateError: as ``decode_segment``, with log and offset.
    """
    try:
        return decode_segment(data, streams)
    except StateError as error:
        raise StateError(f"{log}, offset {offset}: {error}") from error


def decode_segment(data: bytes, streams: Iterable[str] | None = None) -> Segment:
    """Return a segment; only the rows of ``streams``, if given.

    Raises:
        StateError: the bytes have another schema, or are damaged.
    """
    record = _SEGMENT.decode(data)
    wanted = None if streams is None else frozenset(streams)
    frames = decode_tables(record["streams"], "Segment", wanted)
    for name, frame in frames.items():
        if [*frame.schema.items()][: len(ROW_COLUMNS)] != [*ROW_COLUMNS.items()]:
            raise StateError(f"Segment, {name!r}: columns are {frame.schema}")
    return Segment(
        epoch=record["epoch"],
        part=record["part"],
        sources=tuple(SourceMark(**mark) for mark in record["sources"]),
        partitions=record["partitions"],
        ingested_at_ms=record["ingested_at_ms"],
        streams=frames,
    )
