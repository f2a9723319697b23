"""The log's unit: what one ingest commit took for one log partition.

A segment carries all that downstream needs to be a pure function of the log (docs/semantics.md,
"Segments"): the rows, each with the watermark its own source had just before it, and one mark per
source that spoke.  Row frames are keyed by stream and ordered by (source, offset, sub_row).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

NEVER_MS = -(2**63)
"""Before every event time: the watermark of a source that has seen no event."""

FOREVER_MS = 2**63 - 1
"""After every event time: the clock once input has ended."""

# Columns that lead every row frame; the sign keeps them apart from the user's own names.
SOURCE = "@source"  # index into Segment.sources
OFFSET = "@offset"  # offset in the raw partition
SUB_ROW = "@sub_row"  # position among the rows that one record became
EVENT_TIME = "@event_time"  # ms
WATERMARK = "@watermark"  # ms: the source's own, just before this row
ARRIVAL = "@arrival"  # place of its record in the log; only for operators that ask for it

ROW_COLUMNS: dict[str, pl.DataType] = {
    SOURCE: pl.UInt16(),
    OFFSET: pl.Int64(),
    SUB_ROW: pl.Int32(),
    EVENT_TIME: pl.Int64(),
    WATERMARK: pl.Int64(),
}


_OPERATOR = "op:"
"""Begins the name of a source that is an operator; no topic name holds a colon."""


def operator_source(name: str) -> str:
    """Return the source of what an operator publishes: all its partitions are one source."""
    return f"{_OPERATOR}{name}"


def is_operator_source(source: str) -> bool:
    """Whether a source is an operator, not a partition of a raw topic."""
    return source.startswith(_OPERATOR)


@dataclass(frozen=True, slots=True)
class SourceMark:
    """What one source says in a segment: a raw partition, or an operator as a whole.

    Offset ranges of successive marks tile the raw partition: filtered, dead and foreign records are
    inside the range.  A mark that is not idle wakes its source, even with an empty range.
    """

    source: str  # "topic/partition", or operator_source(name)
    first_offset: int
    next_offset: int
    watermark_before_ms: int
    watermark_ms: int  # after the range
    idle: bool = False
    silence_ms: int = 0

    @property
    def topic(self) -> str:
        """The raw topic of the source; of an operator, the source itself."""
        return self.source if is_operator_source(self.source) else self.source.rpartition("/")[0]

    @property
    def wakes(self) -> bool:
        """Whether the source took part: it read something or says that it is not idle."""
        return not self.idle or self.next_offset > self.first_offset

    def unread(self) -> "SourceMark":
        """Return what the source said before its range was read: awake if it takes part at all."""
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

    ``partitions`` maps each raw topic of this log to its number of partitions as ingest knows it:
    the sources that the clock waits for.  ``part`` counts the pieces of a commit split for size.
    """

    epoch: int
    part: int
    sources: tuple[SourceMark, ...]
    partitions: Mapping[str, int]
    ingested_at_ms: int
    streams: Mapping[str, pl.DataFrame]

    @property
    def height(self) -> int:
        """Count the rows of all streams."""
        return sum(frame.height for frame in self.streams.values())

    def split(self, row: int) -> tuple["Segment", ...]:
        """Cut before the first record that starts at ``row`` or later in log order.

        The parts together mean what the whole meant (docs/semantics.md, "Parts"): every source
        that takes part is awake from the first part on, so that all join at the same clock, and
        those with rows to come hold the clock back.  Returns the segment alone when no record
        starts there.
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
        taken = (index < source) | ((index == source) & (at < offset))
        head = {name: frame.filter(taken) for name, frame in self.streams.items()}
        tail = {
            name: frame.filter(~taken).with_columns(index - source)
            for name, frame in self.streams.items()
        }
        marks = (*self.sources[:source], read, *(other.unread() for other in later))
        return (
            replace(self, sources=marks, streams=head),
            replace(self, part=self.part + 1, sources=(unread, *later), streams=tail),
        )

    def _record_start(self, row: int) -> tuple[int, int, int] | None:
        """Find the first record that starts at ``row`` or later: its source, offset, watermark."""
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
