"""The clock of an operator: when panes are published, and what lateness is judged against.

Theory of operation (docs/semantics.md, "The clock"):

1. A table holds, per source of the operator's streams, its own watermark, a floor, and idleness.
   effective = max(floor, own).
2. The clock is the minimum of the effective watermarks of the sources that are not idle.  It is
   NEVER until every source of the set has spoken, and it never goes back.
3. A source that joins the minimum (is new, wakes, returns with a lower watermark) gets
   floor = clock, so joining cannot lower the clock.
4. When all sources are idle the clock advances to max(own watermark + silence); where one of them
   may not advance by silence (``when_silent="wait"``), to max(own watermark) and no further.  The
   watermark of a source that is an operator bounds it: it contains all silence upstream.
5. A row is judged by W = max(its own watermark, its source's floor), never by the clock.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.time.segment import (
    FOREVER_MS,
    NEVER_MS,
    Segment,
    SourceMark,
    is_operator_source,
)

_STATE_SCHEMA: dict[str, pl.DataType] = {
    "source": pl.String(),
    "next_offset": pl.Int64(),
    "own_ms": pl.Int64(),
    "floor_ms": pl.Int64(),
    "idle": pl.Boolean(),
    "silence_ms": pl.Int64(),
    "clock_ms": pl.Int64(),
}


@dataclass(slots=True)
class SourceClock:
    """One row of the table; ``next_offset`` ends what was read, -1 before the source spoke."""

    next_offset: int = -1
    own_ms: int = NEVER_MS
    floor_ms: int = NEVER_MS
    idle: bool = False
    silence_ms: int = 0

    @property
    def spoken(self) -> bool:
        """Whether any segment had a word of this source."""
        return self.next_offset >= 0

    @property
    def effective_ms(self) -> int:
        """The watermark that counts in the minimum."""
        return max(self.floor_ms, self.own_ms)

    def knows(self, mark: SourceMark) -> bool:
        """Whether a mark only repeats what was read before (at-least-once delivery)."""
        if mark.first_offset == mark.next_offset:
            return mark.next_offset < self.next_offset
        return mark.next_offset <= self.next_offset

    def join(self, mark: SourceMark, clock_ms: int) -> None:
        """Take part from the start of a mark's range; joining the minimum cannot lower the clock.

        A range that overlaps what was read starts lower for that reason alone: it goes on.
        """
        overlaps = mark.first_offset < self.next_offset
        returns_lower = mark.watermark_before_ms < self.own_ms and not overlaps
        if not self.spoken or self.idle or returns_lower:
            self.floor_ms = clock_ms
            self.own_ms = mark.watermark_before_ms
        self.idle, self.silence_ms = False, 0

    def take(self, mark: SourceMark, clock_ms: int) -> None:
        """Stand at the end of a mark's range."""
        if mark.watermark_ms < self.own_ms:
            self.floor_ms = clock_ms
        self.next_offset, self.own_ms = mark.next_offset, mark.watermark_ms
        self.idle, self.silence_ms = mark.idle, mark.silence_ms


@dataclass(frozen=True, slots=True)
class Entry:
    """What the rows of one segment are judged with, by their index into ``Segment.sources``.

    ``floor_ms``: lowest W of a row: where its source stood, which no awake source's clock is
    above.  ``first_new``: rows at lower offsets are duplicates.  ``arrival``: added to the offset
    of a new record, its place in the log (docs/semantics.md, "Arrival").  ``now_ms``: time and W of
    all rows, where they go by processing time.
    """

    floor_ms: npt.NDArray[np.int64]
    first_new: npt.NDArray[np.int64]
    arrival: npt.NDArray[np.int64]
    now_ms: int | None = None


class ClockTable:
    """The clock of one operator on one log partition; part of every checkpoint."""

    def __init__(self, topics: Iterable[str], *, advances: bool = True) -> None:
        """Start with no source known.

        Args:
            topics: the raw topics of the operator's streams, and operators as ``operator_source``
                names them.  The partitions of a topic become known with segments, an operator is
                known from the plan.
            advances: whether silence of all sources moves the clock past what they have seen.
        """
        self.topics = frozenset(topics)
        self.advances = advances
        self.sources = {
            name: SourceClock() for name in sorted(filter(is_operator_source, self.topics))
        }
        self.clock_ms = NEVER_MS

    def enter(self, segment: Segment) -> Entry:
        """Let the sources of a segment join, before its rows are folded."""
        for topic in self.topics & segment.partitions.keys():
            for partition in range(segment.partitions[topic]):
                self.sources.setdefault(f"{topic}/{partition}", SourceClock())
        floors = np.full(len(segment.sources), NEVER_MS, np.int64)
        first_new = np.zeros(len(segment.sources), np.int64)
        arrival = np.zeros(len(segment.sources), np.int64)
        reached = self._reached()
        for index, mark in enumerate(segment.sources):
            if mark.topic not in self.topics:
                continue
            source = self.sources.setdefault(mark.source, SourceClock())
            first_new[index] = source.next_offset
            arrival[index] = reached - max(source.next_offset, 0)
            reached += max(mark.next_offset - max(source.next_offset, 0), 0)
            if mark.wakes and not source.knows(mark):
                source.join(mark, self.clock_ms)
            floors[index] = source.effective_ms
        return Entry(floors, first_new, arrival)

    def _reached(self) -> int:
        """Add up the offsets that the sources stand at; every new record raises it."""
        return sum(max(source.next_offset, 0) for source in self.sources.values())

    def leave(self, segment: Segment) -> int:
        """Take the segment's watermarks, then its idle marks; return the clock after it."""
        for mark in segment.sources:
            if mark.topic not in self.topics:
                continue
            source = self.sources[mark.source]
            if not source.knows(mark):
                source.take(mark, self.clock_ms)
        self.clock_ms = max(self.clock_ms, self._reading(segment))
        return self.clock_ms

    def finish(self) -> int:
        """End of bounded input: move the clock past every event time."""
        self.clock_ms = FOREVER_MS
        return self.clock_ms

    def _reading(self, segment: Segment) -> int:  # noqa: ARG002 - processing time looks at it
        """Return where the clock stands after a segment, if that is not before it."""
        return self._minimum()

    def holder(self) -> str | None:
        """Name the source that the clock waits for, None where all are silent or none is known.

        It is one that never spoke, else the awake one that is furthest behind.
        """
        unheard = [name for name, source in self.sources.items() if not source.spoken]
        if unheard:
            return min(unheard)
        awake = [(s.effective_ms, name) for name, s in self.sources.items() if not s.idle]
        return min(awake)[1] if awake else None

    def _minimum(self) -> int:
        sources = self.sources.values()
        if not sources or not all(source.spoken for source in sources):
            return self.clock_ms
        awake = [source.effective_ms for source in sources if not source.idle]
        if awake:
            lowest = min(awake)
            assert lowest >= self.clock_ms, f"clock back from {self.clock_ms} to {lowest}"
            return lowest
        return min([self._silent_ms(), *self._derived_ms()])

    def _silent_ms(self) -> int:
        """Return where silence of all raw sources puts the clock; without any, nowhere."""
        raw = [s for name, s in self.sources.items() if not is_operator_source(name)]
        heard = [
            s.own_ms + (s.silence_ms if self.advances else 0) for s in raw if s.own_ms > NEVER_MS
        ]
        return max(heard, default=NEVER_MS if raw else FOREVER_MS)

    def _derived_ms(self) -> list[int]:
        """Return the watermarks of operators: idle ones too, since they contain all silence."""
        return [s.own_ms for name, s in self.sources.items() if is_operator_source(name)]

    def state(self) -> pl.DataFrame:
        """Return the table and the clock as one frame, a row per source, sorted by source."""
        rows = [
            (name, s.next_offset, s.own_ms, s.floor_ms, s.idle, s.silence_ms, self.clock_ms)
            for name, s in sorted(self.sources.items())
        ]
        return pl.DataFrame(rows, schema=_STATE_SCHEMA, orient="row")

    def apply(self, state: pl.DataFrame) -> None:
        """Replace the table by what ``state`` returned earlier."""
        self.sources = {
            row[0]: SourceClock(*row[1:-1]) for row in state.select(*_STATE_SCHEMA).iter_rows()
        }
        self.clock_ms = NEVER_MS if state.is_empty() else int(state.item(0, "clock_ms"))


class ProcessingClock(ClockTable):
    """Processing time: the latest moment so far at which ingest recorded a segment of the log.

    See docs/semantics.md, "Processing time".  All rows of a segment have the time of the clock
    after it, so none is ever late.  What sources say is kept only to know repeated offsets.
    """

    def enter(self, segment: Segment) -> Entry:
        """Let the sources of a segment join; its rows have the clock's next reading as time."""
        now_ms = max(self.clock_ms, self._reading(segment))
        return replace(super().enter(segment), now_ms=now_ms)

    def _reading(self, segment: Segment) -> int:
        return segment.ingested_at_ms

    def holder(self) -> None:
        """Name no source: the clock waits for any segment."""
