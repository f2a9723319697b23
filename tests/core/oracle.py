"""The specification as slow Python: one row at a time, every row kept, nothing of the core used.

``Table`` is the clock (docs/semantics.md, "The clock"), ``judged`` gives each row its W, and
``windowed`` the panes and late rows of aligned windows.  Sessions have an oracle of their own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tidemark.core.segment import NEVER_MS, OFFSET, SUB_ROW, Segment, SourceMark

FOREVER_MS = 2**63 - 1


class Judged(NamedTuple):
    """A row with its W; sorts in log order within a segment."""

    source: str
    offset: int
    sub_row: int
    at_ms: int
    w_ms: int
    key: str | None
    value: int | None


class LateRow(NamedTuple):
    """A row that counts nowhere, and the last window it could have counted in."""

    row: Judged
    start: int
    end: int
    late_by_ms: int


class Pane(NamedTuple):
    """A pane with the values of the aggregates that the properties use."""

    key: str | None
    start: int
    end: int
    revision: int
    timing: str
    final: bool
    retracted: bool
    n: int
    total: int | None
    low: int | None
    high: int | None
    first: int | None
    last: int | None


@dataclass
class Run:
    """What a log gave: panes per step, late rows, and how many rows were new."""

    steps: list[list[Pane]] = field(default_factory=list)
    late: list[LateRow] = field(default_factory=list)
    rows: int = 0
    clocks: list[int] = field(default_factory=list)

    @property
    def panes(self) -> list[Pane]:
        """Return all panes in order."""
        return [pane for step in self.steps for pane in step]

    def lasts(self) -> dict[tuple[str | None, int], Pane]:
        """Return the last pane of every key and start, without ``final``.

        Whether a pane could know that it was the last depends on how far the segment went.
        """
        return {(p.key, p.start): p._replace(final=False) for p in self.panes}

    def on_time(self) -> set[Pane]:
        """Return the on-time panes, without ``final``."""
        return {p._replace(final=False) for p in self.panes if p.timing == "on_time"}


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
        voice = table.voices[mark.source]
        if mark.topic in table.topics and row[OFFSET] >= (voice.next_offset or 0):
            w_ms = max(row["@watermark"], voice.effective())
            at_ms, w_ms = table.times(segment, row["@event_time"], w_ms)
            yield Judged(
                mark.source, row[OFFSET], row[SUB_ROW], at_ms, w_ms, row["key"], row["value"]
            )


class Aligned(NamedTuple):
    """Hopping windows and how they are published."""

    size_ms: int
    slide_ms: int
    offset_ms: int
    allowed_lateness_ms: int
    on_final: bool

    def start(self, end_ms: int) -> int:
        return end_ms - self.size_ms

    def ends(self, at_ms: int) -> list[int]:
        starts = range(at_ms - self.size_ms + 1, at_ms + 1)
        return [s + self.size_ms for s in starts if (s - self.offset_ms) % self.slide_ms == 0]


class Spec(Protocol):
    """Windows that are the same for all keys, and how they are published."""

    allowed_lateness_ms: int
    on_final: bool

    def ends(self, at_ms: int) -> list[int]: ...
    def start(self, end_ms: int) -> int: ...


class _Windows:
    """Every accepted row of every key and window."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.rows: dict[tuple[str | None, int], list[Judged]] = {}

    def fold(self, row: Judged, run: Run) -> list[tuple[str | None, int]]:
        lateness_ms = self.spec.allowed_lateness_ms
        ends = self.spec.ends(row.at_ms)
        counting = [end for end in ends if end + lateness_ms > row.w_ms]
        for end in counting:
            self.rows.setdefault((row.key, end), []).append(row)
        if not counting:
            late_by_ms = row.w_ms - ends[-1] - lateness_ms
            run.late.append(LateRow(row, self.spec.start(ends[-1]), ends[-1], late_by_ms))
        return [(row.key, end) for end in counting]

    def publish(
        self, touched: set[tuple[str | None, int]], before: int, clock: int
    ) -> Iterator[Pane]:
        lateness_ms = self.spec.allowed_lateness_ms
        for (key, end), rows in self.rows.items():
            on_time = [row for row in rows if row.w_ms < end]
            every = self._pane(key, end, rows, "late", clock)
            if self.spec.on_final:
                if before < end + lateness_ms <= clock:
                    timing = "on_time" if len(on_time) == len(rows) else "late"
                    yield every._replace(timing=timing)
            elif before < end <= clock:
                if on_time:
                    yield self._pane(key, end, on_time, "on_time", clock)
                if len(on_time) < len(rows):
                    yield every
            elif end <= before and (key, end) in touched:
                yield every

    def _pane(self, key: str | None, end: int, rows: list[Judged], timing: str, clock: int) -> Pane:
        final = end + self.spec.allowed_lateness_ms <= clock
        start = self.spec.start(end)
        return Pane(key, start, end, len(rows), timing, final, False, len(rows), *values_of(rows))


def values_of(rows: list[Judged]) -> tuple[int | None, ...]:
    told = sorted(
        (row for row in rows if row.value is not None),
        key=lambda row: (row.at_ms, row.source, row.offset, row.sub_row),
    )
    values = [row.value for row in told if row.value is not None]
    if not values:
        return (None,) * 5
    return (sum(values), min(values), max(values), values[0], values[-1])


def windowed(
    segments: Sequence[Segment], topics: Sequence[str], spec: Spec, clock: type[Table] = Table
) -> Run:
    """Run a log through aligned windows, with the end of input as the last step."""
    run, table, windows = Run(), clock(topics), _Windows(spec)
    for segment in segments:
        before = table.clock
        table.begin(segment)
        touched: set[tuple[str | None, int]] = set()
        for row in judged(segment, table):
            touched.update(windows.fold(row, run))
            run.rows += 1
        table.end(segment)
        run.steps.append(in_order(windows.publish(touched, before, table.clock)))
        run.clocks.append(table.clock)
    run.steps.append(in_order(windows.publish(set(), table.clock, FOREVER_MS)))
    return run


def in_order(panes: Iterator[Pane]) -> list[Pane]:
    """Sort one step's panes as docs/semantics.md, "Order in a topic", says; null keys first."""
    return sorted(panes, key=lambda p: (p.end, p.key is not None, p.key or "", p.start, p.revision))
