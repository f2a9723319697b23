"""Puts the rows of a stage that was run again into the segments of a log (stage_tasks.py)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import msgspec
import polars as pl
import pyarrow as pa

from tidemark.core.time.announcer import Announcer, TaskProgress
from tidemark.core.time.segment import (
    NEVER_MS,
    OFFSET,
    ROW_COLUMNS,
    SOURCE,
    SUB_ROW,
    Segment,
    SourceMark,
    operator_of,
    operator_source,
)
from tidemark.ingest.segment_builder import EPOCH
from tidemark.partition import Partition
from tidemark.serde.frames import decode_frame
from tidemark.serde.segments import encode_segment, segment_at
from tidemark.spark.read.segment_rows import Batches, segment_batch
from tidemark.spark.stage_tasks import (
    AFTER,
    ROWS,
    SEGMENT,
    PlacedRow,
    RemadeStage,
    StageRows,
    placed_rows,
)

TaskRows = tuple[int, StageRows]
"""The number of a task of the stage, and rows of it."""


@dataclass(frozen=True)
class StageAssembler:
    """Builds the segments of the fed logs.

    The batches that it takes have the columns ``PLACED_ROWS``, those that it returns ``SEGMENTS``.
    """

    stage: RemadeStage

    def __call__(self, batches: Batches) -> Batches:
        """Yield a batch for each segment, in the order of each log."""
        for place, rows in groupby(placed_rows(batches), key=lambda row: row[0]):
            yield from _LogPartition(self.stage, self.stage.fed[place]).segments(rows)


class _LogPartition:
    """One partition of a fed log."""

    def __init__(self, stage: RemadeStage, at: Partition) -> None:
        self._stage, self._at = stage, at
        self._rows: list[TaskRows] = []
        self._reached: dict[int, int] = {}
        tasks = dict.fromkeys(range(stage.partitions), 0)
        self._announcer = Announcer(stage.derived.operator, tasks)
        self._offset = -1

    def segments(self, rows: Iterator[PlacedRow]) -> Batches:
        """Yield the recorded segments with the new rows, then segments of the rows after them."""
        for (at, time_ms), found in groupby(rows, key=lambda row: row[1:3]):
            for _, _, _, partition, kind, number, data in found:
                if kind == ROWS:
                    self._rows.append((partition, msgspec.msgpack.decode(data, type=StageRows)))
                elif kind == SEGMENT:
                    self._offset = at
                    yield segment_batch(self._at, at, self._filled(at, data))
                elif at == AFTER:
                    progress = TaskProgress(partition, 0, number, bool(data))
                    self._announcer.take(self._announcer.number, progress)
                else:
                    self._reached[partition] = number
            if at == AFTER:
                yield from self._after(time_ms)

    def _filled(self, at: int, data: bytes) -> bytes:
        """Return a recorded segment with the rows that were made again."""
        segment = segment_at(self._at, at, data)
        source = self._stage.derived.source
        if not self._rows and all(mark.topic != source for mark in segment.sources):
            return data
        is_complete = len(self._reached) == self._stage.partitions
        until_ms = min(self._reached.values()) if is_complete else NEVER_MS
        rows, self._rows = self._rows, []
        return encode_segment(with_rows(segment, source, rows, until_ms))

    def _after(self, time_ms: int) -> Iterator[pa.RecordBatch]:
        """Yield a segment with rows and with the mark that is due, if there are any."""
        mark = self._announcer.mark()
        if mark is not None:
            self._announcer.announced(mark)
        rows, self._rows = self._rows, []
        if rows or mark is not None:
            self._offset += 1
            marks = () if mark is None else (mark,)
            segment = Segment(EPOCH, 0, marks, {}, time_ms, {})
            filled = with_rows(segment, self._stage.derived.source, rows, None)
            yield segment_batch(self._at, self._offset, encode_segment(filled))


def with_rows(
    segment: Segment, source: str, rows: Sequence[TaskRows], until_ms: int | None
) -> Segment:
    """Return a segment with other rows of an operator.

    Args:
        segment: a segment of a log that the operator feeds.
        source: the operator as a source.
        rows: its rows in the segment, from each of its tasks in order.
        until_ms: the highest watermark that the operator has reached; None: any.
    """
    marks = [_limited(mark, source, until_ms) for mark in segment.sources]
    own = [index for index, mark in enumerate(marks) if mark.topic == source]
    found: dict[str, list[pl.DataFrame]] = {
        name: [frame.filter(~pl.col(SOURCE).is_in(own))] for name, frame in segment.streams.items()
    }
    places = {mark.source: index for index, mark in enumerate(marks)}
    for task, part in rows:
        name = operator_source(operator_of(source), task)
        if name not in places:
            places[name] = len(marks)
            marks.append(SourceMark(name, part.first, part.end, NEVER_MS, NEVER_MS))
        index = places[name]
        marks[index] = _widened(marks[index], part)
        frame = decode_frame(part.rows, part.stream)
        numbered = frame.select(pl.lit(index, ROW_COLUMNS[SOURCE]).alias(SOURCE), pl.all())
        found.setdefault(part.stream, []).append(numbered)
    streams = {name: _joined(frames) for name, frames in found.items()}
    filled = {name: frame for name, frame in streams.items() if frame.height}
    return replace(segment, sources=tuple(marks), streams=filled)


def _limited(mark: SourceMark, source: str, until_ms: int | None) -> SourceMark:
    """Return a mark of the operator with no more than it has reached; others as they are."""
    if until_ms is None or mark.source != source or mark.watermark_ms <= until_ms:
        return mark
    before_ms = min(mark.watermark_before_ms, until_ms)
    return replace(mark, watermark_before_ms=before_ms, watermark_ms=until_ms, idle=False)


def _widened(mark: SourceMark, part: StageRows) -> SourceMark:
    first, end = min(mark.first_offset, part.first), max(mark.next_offset, part.end)
    return replace(mark, first_offset=first, next_offset=end)


def _joined(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return rows of a stream in the order of a segment."""
    kept = [frame for frame in frames if frame.height]
    if len(kept) < 2:
        return kept[0] if kept else pl.DataFrame()
    return pl.concat(kept, how="diagonal").sort(SOURCE, OFFSET, SUB_ROW, maintain_order=True)
