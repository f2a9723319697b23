"""The clock of an operator, which decides when panes are published, and the floor of W.

Theory of operation (docs/semantics.md, "The clock"):

1. A table holds the own watermark, a floor and the idleness of each source of the operator's
   streams.  effective = max(floor, own).
2. The clock is the minimum of the effective watermarks of the sources that are not idle.  It is
   NEVER until every source of the set has spoken, and it never goes back.
3. A source joins the minimum when it is new, wakes, or returns with a lower watermark.  It then
   gets floor = clock, so joining cannot lower the clock.
4. When all sources are idle, the clock advances to max(own watermark + silence).  If one of them
   was declared with ``when_silent="wait"``, it advances to max(own watermark) and no further.  A
   source that is an operator bounds the clock by its own watermark, which contains all silence
   upstream.
5. The lateness of a row depends on W = max(row watermark, floor of its source), not on the clock.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.time.raw_topics import covers, is_pattern
from tidemark.core.time.segment import (
    FOREVER_MS,
    NEVER_MS,
    Segment,
    SourceMark,
    is_operator_source,
    is_rows_of_operator,
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
    """One row of the table.  ``next_offset``: the next offset to read, -1 before the first mark."""

    next_offset: int = -1
    own_ms: int = NEVER_MS
    floor_ms: int = NEVER_MS
    idle: bool = False
    silence_ms: int = 0

    @property
    def spoken(self) -> bool:
        """Whether any segment had a mark of this source."""
        return self.next_offset >= 0

    @property
    def effective_ms(self) -> int:
        """The watermark that counts in the minimum."""
        return max(self.floor_ms, self.own_ms)

    def knows(self, mark: SourceMark) -> bool:
        """Whether a mark only repeats offsets that were read before (at-least-once delivery)."""
        if mark.first_offset == mark.next_offset:
            return mark.next_offset < self.next_offset
        return mark.next_offset <= self.next_offset

    def join(self, mark: SourceMark, clock_ms: int) -> None:
        """Join the minimum at the start of a mark's range; this cannot lower the clock.

        A range that overlaps offsets read before begins with a lower watermark for that reason
        alone.  It continues and does not return.
        """
        overlaps = mark.first_offset < self.next_offset
        returns_lower = mark.watermark_before_ms < self.own_ms and not overlaps
        if not self.spoken or self.idle or returns_lower:
            self.floor_ms = clock_ms
            self.own_ms = mark.watermark_before_ms
        self.idle, self.silence_ms = False, 0

    def take(self, mark: SourceMark, clock_ms: int) -> None:
        """Move to the end of a mark's range."""
        if mark.watermark_ms < self.own_ms:
            self.floor_ms = clock_ms
        self.next_offset, self.own_ms = mark.next_offset, mark.watermark_ms
        self.idle, self.silence_ms = mark.idle, mark.silence_ms


@dataclass(frozen=True, slots=True)
class Entry:
    """The values that decide the lateness of a segment's rows, by index into ``Segment.sources``.

    ``floor_ms``: the lowest W of a row: the effective watermark that its source had when the
    segment began.  ``first_new``: rows at lower offsets are duplicates.  ``arrival``: the number to
    add to the offset of a new record, which gives its place in the log (docs/semantics.md,
    "Arrival").  ``now_ms``: time and W of all rows with processing time, else None.
    """

    floor_ms: npt.NDArray[np.int64]
    first_new: npt.NDArray[np.int64]
    arrival: npt.NDArray[np.int64]
    now_ms: int | None = None


class ClockTable:
    """The clock of one operator on one log partition; part of every checkpoint."""

    def __init__(self, topics: Iterable[str], *, advances: bool = True) -> None:
        """Start without sources, except operators.

        Args:
            topics: the raw topics of the operator's streams, by name or pattern, and operators as
                ``operator_source`` names them.  Segments name the partitions of a topic, and the
                topics of a pattern; the plan names operators.
            advances: whether the clock advances while all sources are silent.
        """
        self.topics = frozenset(topics)
        self._covered: dict[str, bool] = {}  # every segment asks for the same topics
        self.advances = advances
        self.sources: dict[str, SourceClock] = {}
        self.positions: dict[str, int] = {}
        """The next offset of the rows of each partition of an operator."""
        self._operators = sorted(filter(is_operator_source, self.topics))
        self._know_operators()
        self.clock_ms = NEVER_MS

    def _know_operators(self) -> None:
        """Add the operators of the plan that have not spoken yet."""
        for name in self._operators:
            self.sources.setdefault(name, SourceClock())

    def _knows_all_topics(self) -> bool:
        """Whether each topic has a source; asked only beside operators, known from the plan."""
        if not self._operators:
            return True
        known = {name if name in self.topics else name.rpartition("/")[0] for name in self.sources}
        return {topic for topic in self.topics if not is_pattern(topic)} <= known

    def _reads(self, topic: str) -> bool:
        if topic not in self._covered:
            self._covered[topic] = covers(self.topics, topic)
        return self._covered[topic]

    def enter(self, segment: Segment) -> Entry:
        """Let the sources of a segment join; return the values that its rows need."""
        for topic in filter(self._reads, segment.partitions):
            for partition in range(segment.partitions[topic]):
                self.sources.setdefault(f"{topic}/{partition}", SourceClock())
        floors = np.full(len(segment.sources), NEVER_MS, np.int64)
        first_new = np.zeros(len(segment.sources), np.int64)
        arrival = np.zeros(len(segment.sources), np.int64)
        reached = self._reached()
        for index, mark in enumerate(segment.sources):
            if not self._reads(mark.topic):
                continue
            rows = is_rows_of_operator(mark.source)
            source = self.sources.setdefault(mark.topic if rows else mark.source, SourceClock())
            first_new[index] = self.positions.get(mark.source, 0) if rows else source.next_offset
            begin = max(int(first_new[index]), 0)
            arrival[index] = reached - begin
            if rows or not is_operator_source(mark.source):
                reached += max(mark.next_offset - begin, 0)
            if not rows and mark.wakes and not source.knows(mark):
                source.join(mark, self.clock_ms)
            # The rows of an operator that wakes come before its mark.
            floors[index] = max(source.effective_ms, self.clock_ms if rows else NEVER_MS)
        return Entry(floors, first_new, arrival)

    def _reached(self) -> int:
        """Return the sum of the next offsets of records and rows; every new one raises it."""
        raw = (s.next_offset for name, s in self.sources.items() if not is_operator_source(name))
        return sum(max(offset, 0) for offset in (*raw, *self.positions.values()))

    def leave(self, segment: Segment) -> int:
        """Take the segment's watermarks, then its idle marks; return the clock after it."""
        for mark in segment.sources:
            if not self._reads(mark.topic):
                continue
            if is_rows_of_operator(mark.source):
                before = self.positions.get(mark.source, 0)
                self.positions[mark.source] = max(before, mark.next_offset)
                continue
            source = self.sources[mark.source]
            if not source.knows(mark):
                source.take(mark, self.clock_ms)
        self.clock_ms = max(self.clock_ms, self._reading(segment))
        return self.clock_ms

    @property
    def is_idle(self) -> bool:
        """Whether all sources have spoken and are idle."""
        sources = self.sources.values()
        return bool(sources) and all(source.spoken and source.idle for source in sources)

    def finish(self) -> int:
        """End bounded input: move the clock past every event time and return it."""
        self.clock_ms = FOREVER_MS
        return self.clock_ms

    def _reading(self, segment: Segment) -> int:  # noqa: ARG002 - processing time looks at it
        """Return the time of the clock after a segment; ``leave`` ignores an earlier time."""
        return self._minimum()

    def holder(self) -> str | None:
        """Return the name of the source that the clock waits for.

        That is a source without any mark, else the awake source with the lowest effective
        watermark.  Returns None if all sources are idle or no source is known.
        """
        unheard = [name for name, source in self.sources.items() if not source.spoken]
        if unheard:
            return min(unheard)
        awake = [(s.effective_ms, name) for name, s in self.sources.items() if not s.idle]
        return min(awake)[1] if awake else None

    def _minimum(self) -> int:
        sources = self.sources.values()
        spoken = all(source.spoken for source in sources)
        if not sources or not spoken or not self._knows_all_topics():
            return self.clock_ms
        awake = [source.effective_ms for source in sources if not source.idle]
        if awake:
            lowest = min(awake)
            assert lowest >= self.clock_ms, f"clock back from {self.clock_ms} to {lowest}"
            return lowest
        return min([self._silent_ms(), *self._derived_ms()])

    def _silent_ms(self) -> int:
        """Return the clock when all sources are idle, from raw sources; FOREVER_MS without any."""
        raw = [s for name, s in self.sources.items() if not is_operator_source(name)]
        heard = [
            s.own_ms + (s.silence_ms if self.advances else 0) for s in raw if s.own_ms > NEVER_MS
        ]
        return max(heard, default=NEVER_MS if raw else FOREVER_MS)

    def _derived_ms(self) -> list[int]:
        """Return the watermarks of operators; idle ones count, as they contain all silence."""
        return [s.own_ms for name, s in self.sources.items() if is_operator_source(name)]

    def copy(self) -> "ClockTable":
        """Return the table as it is now."""
        found = type(self)(self.topics, advances=self.advances)
        found.sources = {name: replace(source) for name, source in self.sources.items()}
        found.positions, found.clock_ms = dict(self.positions), self.clock_ms
        return found

    def state(self) -> pl.DataFrame:
        """Return table and clock as one frame (``_STATE_SCHEMA``), a row per source, sorted.

        The rows of each partition of an operator have a row, too, for their next offset.
        """
        sources = {**self.sources, **{n: SourceClock(at) for n, at in self.positions.items()}}
        rows = [
            (name, s.next_offset, s.own_ms, s.floor_ms, s.idle, s.silence_ms, self.clock_ms)
            for name, s in sorted(sources.items())
        ]
        return pl.DataFrame(rows, schema=_STATE_SCHEMA, orient="row")

    def apply(self, state: pl.DataFrame) -> None:
        """Replace table and clock by an earlier result of ``state``."""
        self.sources, self.positions = {}, {}
        for name, *values, _ in state.select(*_STATE_SCHEMA).iter_rows():
            if is_rows_of_operator(name):
                self.positions[name] = values[0]
            else:
                self.sources[name] = SourceClock(*values)
        self._know_operators()
        self.clock_ms = NEVER_MS if state.is_empty() else int(state.item(0, "clock_ms"))


class ProcessingClock(ClockTable):
    """Processing time: the latest time so far at which ingest recorded a segment of the log.

    See docs/semantics.md, "Processing time".  The event time of a segment's rows is the clock after
    the segment, so no row is late.  The table of sources only serves to find repeated offsets.
    """

    def enter(self, segment: Segment) -> Entry:
        """Let the sources of a segment join; the time of its rows is the clock after it."""
        now_ms = max(self.clock_ms, self._reading(segment))
        return replace(super().enter(segment), now_ms=now_ms)

    def _reading(self, segment: Segment) -> int:
        return segment.ingested_at_ms

    def holder(self) -> None:
        """Return None: the clock waits for any segment, not for a source."""
