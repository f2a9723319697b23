"""Envelopes of a log: split into marks for the sources, and filled with rows again.

An envelope is a segment without its rows.  Between the two steps ingest runs again
(tidemark/spark/read/reingest.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import polars as pl
import pyarrow as pa

from tidemark.core.time.segment import SOURCE, Segment, is_operator_source
from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.serde.frames import decode_frame
from tidemark.serde.segments import decode_segment, encode_segment, segment_at
from tidemark.spark.read.segment_rows import (
    Batches,
    SegmentRow,
    batch_of,
    row_tuples,
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
"""Rows for the task ``to`` of a source or a log partition, sorted by ``at`` and ``kind``.

``at``: an offset of that source or log partition.  ``index``: the place of a mark in its segment.
``log``, ``log_offset``: the log partition, by number, and the offset of that segment.
"""

HEADER, BODY = 0, 1
"""Kinds of rows.  HEADER: a mark or an envelope.  BODY: raw records, or a ``ReplayedRange``."""

RoutedRow = tuple[int, int, int, int, int, int, bytes]


class ReplayedRange(msgspec.Struct, frozen=True, array_like=True):
    """The output of ingest for the offset range of a mark, for one log partition.

    ``streams``: the encoded frame of each stream that has rows, by name.
    """

    watermark_before_ms: int
    watermark_ms: int
    streams: dict[str, bytes]


def routed_batch(rows: Sequence[RoutedRow]) -> pa.RecordBatch:
    """Return rows as a batch (``ROUTED_ROWS``)."""
    return batch_of(zip(*rows, strict=True), ROUTED_ROWS)


@dataclass(frozen=True)
class MarkExtractor:
    """Reads segments; routes each mark to its source."""

    sources: Sequence[Partition]
    logs: Sequence[Partition]

    def __call__(self, batches: Batches) -> Batches:
        """Yield a batch per segment, with a row per mark: the encoded ``SourceMark``.

        Raises:
            StateError: a mark is of a source that the pipeline does not read.
        """
        sources = {str(source): place for place, source in enumerate(self.sources)}
        logs = {log: place for place, log in enumerate(self.logs)}
        for row, segment in envelopes(batches):
            log = logs[row.log]
            rows: list[RoutedRow] = []
            for index, mark in enumerate(segment.sources):
                if is_operator_source(mark.source):
                    continue
                if mark.source not in sources:
                    raise StateError(
                        f"{row.log}, offset {row.offset}: the segment has a mark of "
                        f"{mark.source}, but the pipeline does not read it, or it does not exist: "
                        "replay from the log"
                    )
                to, data = sources[mark.source], msgspec.msgpack.encode(mark)
                rows.append((to, mark.first_offset, HEADER, index, log, row.offset, data))
            if rows:
                yield routed_batch(rows)


def envelopes(batches: Batches) -> Iterator[tuple[SegmentRow, Segment]]:
    """Yield each segment of batches (``SEGMENTS``), as a row and decoded without its rows."""
    for batch in batches:
        for row in segment_rows(batch):
            yield row, segment_at(row.log, row.offset, row.value, streams=())


@dataclass(frozen=True)
class EnvelopeExtractor:
    """Reads segments; routes each envelope to its log partition."""

    logs: Sequence[Partition]

    def __call__(self, batches: Batches) -> Batches:
        """Yield a batch of one row per segment: the encoded envelope.

        A segment of a stage keeps its rows.
        """
        logs = {log: place for place, log in enumerate(self.logs)}
        for row, segment in envelopes(batches):
            is_raw = not any(is_operator_source(mark.source) for mark in segment.sources)
            log, data = logs[row.log], encode_segment(segment) if is_raw else row.value
            yield routed_batch([(log, row.offset, HEADER, -1, log, row.offset, data)])


@dataclass(frozen=True)
class SegmentAssembler:
    """Builds segments from envelopes and the replayed ranges of their marks."""

    plan: Plan
    logs: Sequence[Partition]

    def __call__(self, batches: Batches) -> Batches:
        """Yield a batch per segment (``SEGMENTS``), in the order of the log."""
        envelope: Segment | None = None
        ranges: dict[int, ReplayedRange] = {}
        at = (0, 0)
        for to, offset, kind, index, _, _, data in row_tuples(batches):
            if kind == HEADER:
                if envelope is not None:
                    yield self._segment(at, envelope, ranges)
                envelope, ranges, at = decode_segment(data), {}, (to, offset)
            else:
                ranges[index] = msgspec.msgpack.decode(data, type=ReplayedRange)
        if envelope is not None:
            yield self._segment(at, envelope, ranges)

    def _segment(
        self, at: tuple[int, int], envelope: Segment, ranges: dict[int, ReplayedRange]
    ) -> pa.RecordBatch:
        log, offset = self.logs[at[0]], at[1]
        marks = []
        for index, mark in enumerate(envelope.sources):
            if is_operator_source(mark.source):
                marks.append(mark)
                continue
            if index not in ranges:
                raise StateError(f"{log}, offset {offset}: ingest has no output for {mark.source}")
            range_ = ranges[index]
            marks.append(
                replace(
                    mark,
                    watermark_before_ms=range_.watermark_before_ms,
                    watermark_ms=range_.watermark_ms,
                )
            )
        (plan,) = (each for each in self.plan.logs if each.topic == log.topic)
        streams = {stream.name: _rows(stream.name, ranges) for stream in plan.streams}
        filled = {name: frame for name, frame in streams.items() if frame is not None}
        segment = replace(envelope, sources=tuple(marks), streams={**envelope.streams, **filled})
        return segment_batch(log, offset, encode_segment(segment))


def _rows(stream: str, ranges: dict[int, ReplayedRange]) -> pl.DataFrame | None:
    """Return the rows of a stream, in the order of the sources; None without rows."""
    frames = [
        decode_frame(range_.streams[stream], stream).select(
            pl.lit(index, pl.UInt16).alias(SOURCE), pl.all()
        )
        for index, range_ in sorted(ranges.items())
        if stream in range_.streams
    ]
    return pl.concat(frames) if frames else None
