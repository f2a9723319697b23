"""The segment: the log's unit, what one ingest commit wrote to one log partition.

A segment carries everything that makes downstream a pure function of the log (docs/semantics.md,
"Segments"): the rows, each with the watermark of its source just before it, and one mark per source
that took part.  Frames of rows are keyed by stream and ordered by (source, offset, sub_row).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

NEVER_MS = -(2**63)
"""Before every event time: the watermark of a source that has seen no event."""

FOREVER_MS = 2**63 - 1
"""After every event time: the clock once input has ended."""

# Columns that lead every frame of rows; names of users never begin with "@".
SOURCE = "@source"  # index into Segment.sources
OFFSET = "@offset"  # offset in the raw partition
SUB_ROW = "@sub_row"  # position among the rows that one record became
EVENT_TIME = "@event_time"  # ms
WATERMARK = "@watermark"  # ms: of the row's source, just before the row
ARRIVAL = "@arrival"  # place of the row's record in the log; only if an operator needs it
TIE = "@tie"  # order of rows with the same event time, of an operator's results; null in raw rows
CHANGE_REVISION = "@revision"  # of results that replace each other: the revision, Int64
WITHDRAWN = "@withdrawn"  # of such results: whether the row takes an earlier one away, Boolean

CHANGE_COLUMNS: dict[str, pl.DataType] = {CHANGE_REVISION: pl.Int64(), WITHDRAWN: pl.Boolean()}

ROW_COLUMNS: dict[str, pl.DataType] = {
    SOURCE: pl.UInt16(),
    OFFSET: pl.Int64(),
    SUB_ROW: pl.Int32(),
    EVENT_TIME: pl.Int64(),
    WATERMARK: pl.Int64(),
}


OPERATOR = "op:"
"""Begins the name of a source that is an operator; no topic name holds a colon."""


def operator_source(name: str, partition: int | None = None) -> str:
    """Return the source of what an operator hands on: all its partitions are one source.

    With ``partition``, it is the name for the rows of that partition, which has offsets of its own.
    """
    source = f"{OPERATOR}{name}"
    return source if partition is None else f"{source}/{partition}"


def is_operator_source(source: str) -> bool:
    """Whether a source is an operator, not a partition of a raw topic."""
    return source.startswith(OPERATOR)


def is_rows_of_operator(source: str) -> bool:
    """Whether a source names the rows of one partition of an operator, which have no clock."""
    return is_operator_source(source) and "/" in source


def operator_of(source: str) -> str:
    """Return the name of the operator that a source is."""
    return source.removeprefix(OPERATOR)


def shown_source(source: str) -> str:
    """Return a source as text for people."""
    return f"operator {operator_of(source)}" if is_operator_source(source) else source


@dataclass(frozen=True, slots=True)
class SourceMark:
    """The progress of one source in a segment: a raw partition, or an operator as a whole.

    Offset ranges of successive marks tile the raw partition: filtered and dead records, and records
    of other log partitions, are inside the range.  A mark that is not idle wakes its source, even
    with an empty range.  The rows of an operator's partition come with a mark of their own, whose
    range only tells duplicates apart.
    """

    source: str  # "topic/partition", or operator_source(name), or that with a partition
    first_offset: int
    next_offset: int
    watermark_before_ms: int
    watermark_ms: int  # after the range
    idle: bool = False
    silence_ms: int = 0

    @property
    def topic(self) -> str:
        """The raw topic of the source; of an operator, its source without a partition."""
        topic, slash, _ = self.source.rpartition("/")
        return topic if slash else self.source

    @property
    def wakes(self) -> bool:
        """Whether the source took part: its range is not empty, or it is not idle."""
        return not self.idle or self.next_offset > self.first_offset

    def unread(self) -> "SourceMark":
        """Return the mark before its range was read: not idle if the source takes part."""
        if not self.wakes:
            return self
        return replace(
            self,
            next_offset=self.first_offset,
            watermark_ms=self.watermark_before_ms,
            idle=False,
            silence_ms=0,
        )


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows and marks of one commit for one log partition.

    ``partitions``: for each raw topic of the log, its number of partitions as ingest knows it; the
    clock waits for these sources.  ``part``: number of the part, if a commit was split for size.
    """

    epoch: int
    part: int
    sources: tuple[SourceMark, ...]
    partitions: Mapping[str, int]
    ingested_at_ms: int
    streams: Mapping[str, pl.DataFrame]

    @property
    def height(self) -> int:
        """The number of rows of all streams."""
        return sum(frame.height for frame in self.streams.values())

    def split(self, row: int) -> tuple["Segment", ...]:
        """Return the segment split before the first record that starts at ``row`` or later.

        The parts together mean the same as the whole (docs/semantics.md, "Parts"): every source
        that takes part is awake from the first part on, so all join at the same clock, and sources
        with rows still to come hold the clock back.  Returns the segment alone if no record starts
        there.
        """
        start = self._record_start(max(row, 1))
        if start is None:
            return (self,)
        source, offset, watermark_ms = start
        mark, later = self.sources[source], self.sources[source + 1 :]
        read = replace(
            mark, next_offset=offset, watermark_ms=watermark_ms, idle=False, silence_ms=0
        )
        unread = replace(mark, first_offset=offset, watermark_before_ms=watermark_ms)
        index, at = pl.col(SOURCE), pl.col(OFFSET)
        before = (index < source) | ((index == source) & (at < offset))
        head = {name: frame.filter(before) for name, frame in self.streams.items()}
        tail = {
            name: frame.filter(~before).with_columns(index - source)
            for name, frame in self.streams.items()
        }
        marks = (*self.sources[:source], read, *(other.unread() for other in later))
        return (
            replace(self, sources=marks, streams=head),
            replace(self, part=self.part + 1, sources=(unread, *later), streams=tail),
        )

    def _record_start(self, row: int) -> tuple[int, int, int] | None:
        """Return source, offset, watermark of the first record that starts at or after ``row``."""
        if self.height <= row:
            return None
        columns = (SOURCE, OFFSET, SUB_ROW, WATERMARK)
        order = pl.concat([frame.select(columns) for frame in self.streams.values()]).sort(
            SOURCE, OFFSET, SUB_ROW
        )
        record = pl.struct(SOURCE, OFFSET)
        starts = order.filter(record != record.shift(1), pl.int_range(pl.len()) >= row)
        if starts.is_empty():
            return None
        found: tuple[int, int, int] = starts.select(SOURCE, OFFSET, WATERMARK).row(0)
        return found
