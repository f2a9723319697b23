"""The clock as slow Python, written down again from docs/semantics.md, "The clock".

``Table`` is the clock, ``judged`` gives each row its W, and ``heard`` takes a log through both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidemark.core.time.segment import NEVER_MS, OFFSET, SUB_ROW, Segment, SourceMark

RowId = tuple[str, int, int]


class Judged(NamedTuple):
    """A row with its W; sorts in log order within a segment."""

    source: str
    offset: int
    sub_row: int
    at_ms: int
    w_ms: int
    key: str | None
    value: int | None


def row_id(row: Judged) -> RowId:
    """Return the raw identity of a row."""
    return row.source, row.offset, row.sub_row


def by_time(row: Judged) -> tuple[int, RowId]:
    """Return what rows in order of event time sort by: their time, then their identity."""
    return row.at_ms, row_id(row)


@dataclass
class _Voice:
    own: int = NEVER_MS
    floor: int = NEVER_MS
    next_offset: int | None = None
    idle: bool = False
    silence: int = 0

    def effective(self) -> int:
        return max(self.own, self.floor)


class Table:
    """The clock, written down again from the specification."""

    def __init__(self, topics: Sequence[str], advances: bool = True) -> None:
        self.topics = set(topics)
        self.advances = advances
        self.voices: dict[str, _Voice] = {}
        self.clock = NEVER_MS

    def times(self, segment: Segment, at_ms: int, w_ms: int) -> tuple[int, int]:
        """Return time and W of a row."""
        return at_ms, w_ms

    def begin(self, segment: Segment) -> None:
        for topic, count in segment.partitions.items():
            for number in range(count if topic in self.topics else 0):
                self.voices.setdefault(f"{topic}/{number}", _Voice())
        for mark in self._new(segment):
            voice = self.voices[mark.source]
            if mark.idle and mark.first_offset == mark.next_offset:
                continue
            overlaps = voice.next_offset is not None and mark.first_offset < voice.next_offset
            lower = mark.watermark_before_ms < voice.own and not overlaps
            if voice.next_offset is None or voice.idle or lower:
                voice.own, voice.floor = mark.watermark_before_ms, self.clock
            voice.idle, voice.silence = False, 0

    def end(self, segment: Segment) -> None:
        for mark in self._new(segment):
            voice = self.voices[mark.source]
            if mark.watermark_ms < voice.own:
                voice.floor = self.clock
            voice.own, voice.next_offset = mark.watermark_ms, mark.next_offset
            voice.idle, voice.silence = mark.idle, mark.silence_ms
        voices = self.voices.values()
        if not voices or any(v.next_offset is None for v in voices):
            return
        awake = [v.effective() for v in voices if not v.idle]
        silent = [v.silence if self.advances else 0 for v in voices]
        heard = [v.own + s for v, s in zip(voices, silent, strict=True) if v.own != NEVER_MS]
        self.clock = max([self.clock, min(awake)] if awake else [self.clock, *heard])

    def _new(self, segment: Segment) -> list[SourceMark]:
        return [m for m in segment.sources if m.topic in self.topics and not self._repeated(m)]

    def _repeated(self, mark: SourceMark) -> bool:
        reached = self.voices[mark.source].next_offset
        if reached is None:
            return False
        empty = mark.first_offset == mark.next_offset
        return mark.next_offset < reached or (mark.next_offset == reached and not empty)


class WallClock(Table):
    """Processing time: the latest that a segment says, for rows and clock."""

    def times(self, segment: Segment, at_ms: int, w_ms: int) -> tuple[int, int]:
        now_ms = max(self.clock, segment.ingested_at_ms)
        return now_ms, now_ms

    def end(self, segment: Segment) -> None:
        now_ms, _ = self.times(segment, 0, 0)
        super().end(segment)
        self.clock = now_ms


def judged(segment: Segment, table: Table) -> list[Judged]:
    """Return the segment's new rows in log order; call between ``begin`` and ``end``."""
    rows = [row for name in segment.streams for row in _rows(segment, name, table)]
    order = [mark.source for mark in segment.sources]
    return sorted(rows, key=lambda row: (order.index(row.source), row.offset, row.sub_row))


def _rows(segment: Segment, stream: str, table: Table) -> Iterator[Judged]:
    for row in segment.streams[stream].iter_rows(named=True):
        mark = segment.sources[row["@source"]]
        if mark.topic not in table.topics:
            continue
        voice = table.voices[mark.source]
        if row[OFFSET] >= (voice.next_offset or 0):
            w_ms = max(row["@watermark"], voice.effective())
            at_ms, w_ms = table.times(segment, row["@event_time"], w_ms)
            yield Judged(
                mark.source, row[OFFSET], row[SUB_ROW], at_ms, w_ms, row["key"], row["value"]
            )


class Step(NamedTuple):
    """A segment as an operator hears it: its new rows, processing time, the clock around it."""

    rows: list[Judged]
    now: int
    before: int
    clock: int


def heard(segments: Sequence[Segment], table: Table) -> Iterator[Step]:
    """Yield a log segment by segment; the clock is moved on as it goes."""
    for segment in segments:
        before = table.clock
        table.begin(segment)
        rows = judged(segment, table)
        table.end(segment)
        yield Step(rows, segment.ingested_at_ms, before, table.clock)
