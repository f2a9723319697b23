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

ROW_COLUMNS: dict[str, pl.DataType] = {
    SOURCE: pl.UInt16(),
    OFFSET: pl.Int64(),
    SUB_ROW: pl.Int32(),
    EVENT_TIME: pl.Int64(),
    WATERMARK: pl.Int64(),
}


@dataclass(frozen=True, slots=True)
class SourceMark:
    """What one source (one raw partition) says in a segment.

    Offset ranges of successive marks tile the raw partition: filtered, dead and foreign records are
    inside the range.  A mark that is not idle wakes its source, even with an empty range.
    """

    source: str  # "topic/partition"
    first_offset: int
    next_offset: int
    watermark_before_ms: int
    watermark_ms: int  # after the range
    idle: bool = False
    silence_ms: int = 0

    @property
    def topic(self) -> str:
        """The raw topic of the source."""
        return self.source.rpartition("/")[0]

    @property
    def wakes(self) -> bool:
        """Whether the source took part: it read something or says that it is not idle."""
        return not self.idle or self.next_offset > self.first_offset


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
        """Cut after about ``row`` rows in log order, never inside a record.

        The parts together mean exactly what the whole meant (docs/semantics.md, "Parts"): every
        source that takes part wakes in the first part, and idleness is said in the last one.
        Returns the segment alone when no record boundary follows ``row``.
        """
        cut = self._record_boundary(row)
        if cut is None:
            return (self,)
        source, offset, watermark_ms = cut
        heads, tails = [], []
        for index, mark in enumerate(self.sources):
            awake = replace(mark, idle=False, silence_ms=0)
            if index < source:
                heads.append(awake)
                rest = replace(
                    mark,
                    first_offset=mark.next_offset,
                    watermark_before_ms=mark.watermark_ms,
                )
                tails.append(rest if mark.idle else replace(rest, idle=False))
            elif index == source:
                heads.append(replace(awake, next_offset=offset, watermark_ms=watermark_ms))
                tails.append(replace(mark, first_offset=offset, watermark_before_ms=watermark_ms))
            else:
                heads.append(
                    replace(
                        awake if mark.wakes else mark,
                        next_offset=mark.first_offset,
                        watermark_ms=mark.watermark_before_ms,
                    )
                )
                tails.append(mark)
        before = (pl.col(SOURCE) < source) | (
            (pl.col(SOURCE) == source) & (pl.col(OFFSET) < offset)
        )
        first = {name: frame.filter(before) for name, frame in self.streams.items()}
        rest_rows = {name: frame.filter(~before) for name, frame in self.streams.items()}
        return (
            replace(self, sources=tuple(heads), streams=first),
            replace(self, part=self.part + 1, sources=tuple(tails), streams=rest_rows),
        )

    def _record_boundary(self, row: int) -> tuple[int, int, int] | None:
        """Find the first record that starts at or after ``row``: its source, offset, watermark."""
        order = pl.concat(
            [f.select(SOURCE, OFFSET, SUB_ROW, WATERMARK) for f in self.streams.values()]
        ).sort(SOURCE, OFFSET, SUB_ROW)
        starts = (
            order.with_row_index("row")
            .filter(
                (pl.col("row") > 0)
                & (
                    (pl.col(SOURCE) != pl.col(SOURCE).shift(1))
                    | (pl.col(OFFSET) != pl.col(OFFSET).shift(1))
                )
            )
            .filter(pl.col("row") >= row)
        )
        if starts.is_empty():
            return None
        found: tuple[int, int, int] = starts.select(SOURCE, OFFSET, WATERMARK).row(0)
        return found
