"""Puts the rows of a stage that was run again into the segments of a log (stage_tasks.py)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from types import MappingProxyType

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
        self._numbers: dict[str, int] = {}
        tasks = dict.fromkeys(range(stage.partitions), 0)
        self._announcer = Announcer(stage.derived.operator, tasks)
        self._last: SourceMark | None = None  # of the stage as a whole
        self._offset = -1

    def segments(self, rows: Iterator[PlacedRow]) -> Batches:
        """Yield the recorded segments with the new rows, then segments of the rows after them."""
        for (at, time), found in groupby(rows, key=lambda row: row[1:3]):
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
                    name = operator_source(self._stage.derived.operator, partition)
                    self._reached[partition], self._numbers[name] = number, time
            if at == AFTER:
                yield from self._after(time)

    def _filled(self, at: int, data: bytes) -> bytes:
        """Return a recorded segment with the rows that were made again."""
        segment = segment_at(self._at, at, data)
        source = self._stage.derived.source
        if not self._rows and all(mark.topic != source for mark in segment.sources):
            return data
        is_complete = len(self._reached) == self._stage.partitions
        until_ms = min(self._reached.values()) if is_complete else NEVER_MS
        rows, self._rows = self._rows, []
        filled = with_rows(segment, source, rows, until_ms, self._numbers)
        self._last = next((each for each in filled.sources if each.source == source), self._last)
        return encode_segment(filled)

    def _after(self, time_ms: int) -> Iterator[pa.RecordBatch]:
        """Yield a segment with rows and with the mark that is due, if there are any."""
        mark = self._due()
        rows, self._rows = self._rows, []
        if rows or mark is not None:
            self._offset += 1
            marks = () if mark is None else (mark,)
            segment = Segment(EPOCH, 0, marks, {}, time_ms, {})
            filled = with_rows(segment, self._stage.derived.source, rows, None)
            yield segment_batch(self._at, self._offset, encode_segment(filled))

    def _due(self) -> SourceMark | None:
        """Return the mark that is due after the recorded segments; None if it says nothing new.

        It has the number of the last recorded one: the marks of services have higher numbers.
        """
        mark = self._announcer.mark()
        if mark is None:
            return None
        self._announcer.announced(mark)
        last = self._last or replace(mark, first_offset=1, next_offset=1, watermark_ms=NEVER_MS)
        watermark_ms = max(last.watermark_ms, mark.watermark_ms)
        if self._last is not None and (watermark_ms, mark.idle) == (last.watermark_ms, last.idle):
            return None
        self._last = replace(
            last,
            watermark_before_ms=last.watermark_ms,
            watermark_ms=watermark_ms,
            idle=mark.idle,
        )
        return self._last


def with_rows(
    segment: Segment,
    source: str,
    rows: Sequence[TaskRows],
    until_ms: int | None,
    numbers: Mapping[str, int] = MappingProxyType({}),
) -> Segment:
    """Return a segment with other rows of an operator.

    Args:
        segment: a segment of a log that the operator feeds.
        source: the operator as a source.
        rows: its rows in the segment, from each of its tasks in order.
        until_ms: the highest watermark that the operator has reached; None: any.
        numbers: how many rows each of its tasks has, by source.  Those of another program may have
            had more; later rows of these numbers are no repeated ones.
    """
    marks = [_limited(_numbered(mark, numbers), source, until_ms) for mark in segment.sources]
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


def _numbered(mark: SourceMark, numbers: Mapping[str, int]) -> SourceMark:
    """Return a mark of rows with no higher numbers than there are; others as they are."""
    end = numbers.get(mark.source, mark.next_offset)
    if mark.next_offset <= end:
        return mark
    return replace(mark, first_offset=min(mark.first_offset, end), next_offset=end)


def _widened(mark: SourceMark, part: StageRows) -> SourceMark:
    first, end = min(mark.first_offset, part.first), max(mark.next_offset, part.end)
    return replace(mark, first_offset=first, next_offset=end)


def _joined(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return rows of a stream in the order of a segment."""
    kept = [frame for frame in frames if frame.height]
    if len(kept) < 2:
        return kept[0] if kept else pl.DataFrame()
    return pl.concat(kept, how="diagonal").sort(SOURCE, OFFSET, SUB_ROW, maintain_order=True)
