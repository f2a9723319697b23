"""Envelopes of a log: taken apart for the sources that they speak of, and filled again.

See tidemark/spark/read/reingest.py for what happens in between.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import polars as pl
import pyarrow as pa

from tidemark.core.time.segment import SOURCE, Segment
from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.serde.frames import decode_frame
from tidemark.serde.segments import decode_segment, encode_segment, segment_at
from tidemark.spark.read.segment_rows import (
    Batches,
    SegmentRow,
    batch_of,
    segment_batch,
    segment_rows,
)

ROUTED_ROWS = pa.schema(
    [
        ("to", pa.int32()),
        ("at", pa.int64()),
        ("kind", pa.int32()),
        ("index", pa.int32()),
        ("log", pa.int32()),
        ("log_offset", pa.int64()),
        ("data", pa.binary()),
    ]
)
"""Rows on the way to a source or a log partition, ``to``; sorted by ``at`` and ``kind``.

``index``: of a mark in its segment.  ``log``, ``log_offset``: of that segment.
"""

HEADER, BODY = 0, 1
"""Kinds: a mark or an envelope; and then records, or what was made of them."""

RoutedRow = tuple[int, int, int, int, int, int, bytes]


class ReplayedRange(msgspec.Struct, frozen=True, array_like=True):
    """What ingest made of the range of a mark, for one log partition."""

    watermark_before_ms: int
    watermark_ms: int
    streams: dict[str, bytes]


def routed_batch(rows: Sequence[RoutedRow]) -> pa.RecordBatch:
    """Return rows as a batch."""
    return batch_of(zip(*rows, strict=True), ROUTED_ROWS)


@dataclass(frozen=True)
class MarkExtractor:
    """Gives the marks of segments to their sources."""

    sources: Sequence[Partition]
    logs: Sequence[Partition]

    def __call__(self, batches: Batches) -> Batches:
        """Return a row per mark."""
        sources = {str(source): place for place, source in enumerate(self.sources)}
        logs = {log: place for place, log in enumerate(self.logs)}
        for row, segment in _envelopes(batches):
            log = logs[row.log]
            rows: list[RoutedRow] = []
            for index, mark in enumerate(segment.sources):
                if mark.source not in sources:
                    raise StateError(
                        f"{row.log}, offset {row.offset}: the log was made of {mark.source}, "
                        "which the pipeline does not read or which is not there"
                    )
                to, data = sources[mark.source], msgspec.msgpack.encode(mark)
                rows.append((to, mark.first_offset, HEADER, index, log, row.offset, data))
            if rows:
                yield routed_batch(rows)


def _envelopes(batches: Batches) -> Iterator[tuple[SegmentRow, Segment]]:
    for batch in batches:
        for row in segment_rows(batch):
            yield row, segment_at(row.log, row.offset, row.value, streams=())


@dataclass(frozen=True)
class EnvelopeExtractor:
    """Gives the envelopes of segments to their log partitions."""

    logs: Sequence[Partition]

    def __call__(self, batches: Batches) -> Batches:
        """Return a row per segment."""
        logs = {log: place for place, log in enumerate(self.logs)}
        for row, segment in _envelopes(batches):
            log, data = logs[row.log], encode_segment(segment)
            yield routed_batch([(log, row.offset, HEADER, -1, log, row.offset, data)])


@dataclass(frozen=True)
class SegmentAssembler:
    """Makes segments of envelopes and of what ingest made for their marks."""

    plan: Plan
    logs: Sequence[Partition]

    def __call__(self, batches: Batches) -> Batches:
        """Return a row per segment, as the log has them."""
        envelope: Segment | None = None
        made: dict[int, ReplayedRange] = {}
        at = (0, 0)
        for batch in batches:
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                to, offset, kind, index, _, _, data = row
                if kind == HEADER:
                    if envelope is not None:
                        yield self._segment(at, envelope, made)
                    envelope, made, at = decode_segment(data), {}, (to, offset)
                else:
                    made[index] = msgspec.msgpack.decode(data, type=ReplayedRange)
        if envelope is not None:
            yield self._segment(at, envelope, made)

    def _segment(
        self, at: tuple[int, int], envelope: Segment, made: dict[int, ReplayedRange]
    ) -> pa.RecordBatch:
        log, offset = self.logs[at[0]], at[1]
        marks = []
        for index, mark in enumerate(envelope.sources):
            if index not in made:
                raise StateError(f"{log}, offset {offset}: nothing was made for {mark.source}")
            of = made[index]
            marks.append(
                replace(
                    mark,
                    watermark_before_ms=of.watermark_before_ms,
                    watermark_ms=of.watermark_ms,
                )
            )
        (plan,) = (each for each in self.plan.logs if each.topic == log.topic)
        streams = {stream.name: _rows(stream.name, made) for stream in plan.streams}
        filled = {name: frame for name, frame in streams.items() if frame is not None}
        segment = replace(envelope, sources=tuple(marks), streams=filled)
        return segment_batch(log, offset, encode_segment(segment))


def _rows(stream: str, made: dict[int, ReplayedRange]) -> pl.DataFrame | None:
    """Join what sources gave to a stream, in the order of the sources."""
    frames = [
        decode_frame(of.streams[stream], stream).select(
            pl.lit(index, pl.UInt16).alias(SOURCE), pl.all()
        )
        for index, of in sorted(made.items())
        if stream in of.streams
    ]
    return pl.concat(frames) if frames else None
