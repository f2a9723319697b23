"""Segments as messages of a log topic: ``schemas/segment.avsc``."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any

from tidemark.core.time.segment import ROW_COLUMNS, Segment, SourceMark
from tidemark.errors import StateError
from tidemark.serde.avro import AvroType
from tidemark.serde.frames import decode_tables, encode_tables

_SEGMENT = AvroType.of_file("segment")

MAX_BATCH_SEGMENTS = 1024
"""Segments, or ..."""

_MAX_BATCH_BYTES = 16 * 2**20
"""... bytes of them, that operators take at once: more cost memory and save little."""


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
    """Return a segment as a record of its schema, its columns untouched.

    Raises:
        StateError: the bytes are no segment of this version, or damaged.
    """
    return _SEGMENT.decode(data)


def from_record(record: dict[str, Any]) -> bytes:
    """Return the value of a log record again."""
    return _SEGMENT.encode(record)


def in_batches(
    values: Iterable[tuple[int, bytes]], most: Callable[[], int] = lambda: MAX_BATCH_SEGMENTS
) -> Iterator[list[tuple[int, bytes]]]:
    """Yield values of log records with their offsets, as many at once as operators should take.

    ``most``: asked each time, if fewer may be needed.
    """
    found: list[tuple[int, bytes]] = []
    size_bytes = 0
    for offset, value in values:
        found.append((offset, value))
        size_bytes += len(value)
        if size_bytes >= _MAX_BATCH_BYTES or len(found) >= most():
            yield found
            found, size_bytes = [], 0
    if found:
        yield found


def segment_at(
    log: object, offset: int, data: bytes, streams: Iterable[str] | None = None
) -> Segment:
    """Read the segment at an offset of a log partition, as ``decode_segment`` does.

    Raises:
        StateError: names both too.
    """
    try:
        return decode_segment(data, streams)
    except StateError as error:
        raise StateError(f"{log}, offset {offset}: {error}") from error


def decode_segment(data: bytes, streams: Iterable[str] | None = None) -> Segment:
    """Read a segment; of the rows only those of ``streams``, if given.

    Raises:
        StateError: the bytes are no segment of this version, or damaged.
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
