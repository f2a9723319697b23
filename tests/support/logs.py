"""Event logs for properties: raw topics, recordings of them, and logs with everything in them.

Three steps, each usable alone:

* ``raws()``: what producers wrote: records of one to three sources in one or two topics.
* ``recordings(raw)``: one way to ingest all of it, with no source idle: interleaving and cuts.
* ``event_logs()``: a recording with idle marks and silence, wakes, partitions that appear later,
  sources that return with a lower watermark, re-read offsets and repeated segments.

``cut_segments(segments)`` cuts any of them anew.  ``record`` turns a written-down plan into
segments, for unit tests.  ``crowds()`` are no logs but rows that were judged already.  Each topic
is a stream of the same name with the columns of ``COLUMNS``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl
from hypothesis import strategies as st

from tests.oracles.clock import Judged
from tidemark.core.time.segment import NEVER_MS, ROW_COLUMNS, Segment, SourceMark

COLUMNS: dict[str, pl.DataType] = {"key": pl.String(), "value": pl.Int64()}

Row = tuple[str | None, int | None]


@dataclass(frozen=True)
class Record:
    """A raw record: dead when it has no event time, filtered when it became no rows."""

    event_time_ms: int | None
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Raw:
    """Raw topics, before anybody read them; ``bound_ms`` as in ``bounded()``."""

    sources: Mapping[str, tuple[Record, ...]]
    bound_ms: int

    @property
    def partitions(self) -> dict[str, int]:
        """Return each topic's number of partitions."""
        counts: dict[str, int] = {}
        for source in self.sources:
            topic = source.rpartition("/")[0]
            counts[topic] = counts.get(topic, 0) + 1
        return counts

    @property
    def topics(self) -> tuple[str, ...]:
        """Return the topics, which are the streams too."""
        return tuple(sorted(self.partitions))


@dataclass(frozen=True)
class Read:
    """What one commit takes from one source.

    ``rewind``: records read again first, as after an unfinished commit.  ``forgets``: the source's
    watermark was lost and starts again with these records.
    """

    source: str
    count: int
    idle: bool = False
    silence_ms: int = 0
    rewind: int = 0
    forgets: bool = False


@dataclass(frozen=True)
class Commit:
    """What one ingest commit takes; ``partitions`` as known then, None for all."""

    reads: tuple[Read, ...]
    partitions: Mapping[str, int] | None = None


@dataclass(frozen=True)
class EventLog:
    """A log partition and the raw topics that it was recorded from."""

    raw: Raw
    segments: tuple[Segment, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """Return the raw topics, which are the streams too."""
        return self.raw.topics


@dataclass
class _Reader:
    """A position in a source, with the watermark before each offset as it was recorded."""

    records: tuple[Record, ...]
    bound_ms: int
    position: int = 0
    watermarks: list[int] = field(default_factory=lambda: [NEVER_MS])

    def read(self, read: Read, index: int) -> tuple[SourceMark, list[tuple[object, ...]]]:
        first = max(0, self.position - read.rewind)
        stop = min(len(self.records), self.position + read.count)
        if read.forgets and not read.rewind:
            self.watermarks[first] = NEVER_MS
        rows: list[tuple[object, ...]] = []
        for offset in range(first, stop):
            record, own_ms = self.records[offset], self.watermarks[offset]
            for sub_row, values in enumerate(record.rows):
                rows.append((index, offset, sub_row, record.event_time_ms, own_ms, *values))
            if record.event_time_ms is not None:
                own_ms = max(own_ms, record.event_time_ms - self.bound_ms)
            del self.watermarks[offset + 1 :]
            self.watermarks.append(own_ms)
        self.position = stop
        before_ms, after_ms = self.watermarks[first], self.watermarks[stop]
        mark = SourceMark(read.source, first, stop, before_ms, after_ms, read.idle, read.silence_ms)
        return mark, rows


def record(raw: Raw, commits: Sequence[Commit]) -> tuple[Segment, ...]:
    """Ingest raw topics commit by commit."""
    readers = {name: _Reader(records, raw.bound_ms) for name, records in raw.sources.items()}
    return tuple(_segment(raw, commit, readers, part) for part, commit in enumerate(commits))


def _segment(raw: Raw, commit: Commit, readers: dict[str, _Reader], number: int) -> Segment:
    marks = []
    rows: dict[str, list[tuple[object, ...]]] = {}
    for index, read in enumerate(sorted(commit.reads, key=lambda r: r.source)):
        mark, new = readers[read.source].read(read, index)
        marks.append(mark)
        rows.setdefault(mark.topic, []).extend(new)
    streams = {
        topic: pl.DataFrame(frame, schema={**ROW_COLUMNS, **COLUMNS}, orient="row")
        for topic, frame in rows.items()
    }
    partitions = raw.partitions if commit.partitions is None else commit.partitions
    return Segment(0, 0, tuple(marks), partitions, 1_000 * number, streams)


DELAYS_MS = (0, 0, 1, 3, 8, 20, 45)
KEYS = ("a", "a", "b", "c", None)
COUNTS = (1, 1, 1, 1, 1, 0, 2, 3)
"""Of a record's rows."""

_RECORD = st.integers(0, 13 * len(DELAYS_MS) * len(COUNTS) * 10 - 1)
_ROW = st.integers(0, len(KEYS) * 204 - 1)


@st.composite
def records(draw: st.DrawFn, most: int = 12) -> tuple[Record, ...]:
    """Draw the records of one source: time that moves on, out of order by some, also below 0.

    One number for each record and row: most of the time of a property would go by in draws.
    """
    now_ms = draw(st.integers(-30, 20))
    made = []
    for _ in range(draw(st.integers(0, most))):
        rest, step_ms = divmod(draw(_RECORD), 13)
        rest, delay = divmod(rest, len(DELAYS_MS))
        chance, count = divmod(rest, len(COUNTS))
        now_ms += step_ms
        at_ms = now_ms - DELAYS_MS[delay]
        rows = tuple(row(draw(_ROW)) for _ in range(COUNTS[count]))
        made.append(Record(None, ()) if chance == 9 else Record(at_ms, rows))
    return tuple(made)


def row(number: int) -> Row:
    """Return a row's values: few keys, so that they meet; nulls among them."""
    value, key = divmod(number, len(KEYS))
    return KEYS[key], None if value % 4 == 0 else value // 2 * (-1) ** value


@st.composite
def raws(draw: st.DrawFn) -> Raw:
    """Draw raw topics."""
    names = draw(st.sampled_from((("t/0",), ("t/0", "t/1"), ("t/0", "u/0"), ("t/0", "t/1", "u/0"))))
    return Raw({name: draw(records()) for name in names}, draw(st.sampled_from((0, 2, 10))))


@st.composite
def recordings(draw: st.DrawFn, raw: Raw) -> EventLog:
    """Draw one way to ingest all of the raw topics, with no source ever idle."""
    left = {name: len(made) for name, made in raw.sources.items()}
    commits = []
    while any(left.values()):
        reads = []
        for name in raw.sources:
            if draw(st.booleans()):
                count = min(left[name], draw(st.integers(0, 5)))
                left[name] -= count
                reads.append(Read(name, count))
        commits.append(Commit(tuple(reads)))
        if len(commits) == 8:
            break
    commits.append(Commit(tuple(Read(name, count) for name, count in left.items())))
    return EventLog(raw, record(raw, commits))


@st.composite
def event_logs(
    draw: st.DrawFn, repeats: bool = True, topics: st.SearchStrategy[Raw] | None = None
) -> EventLog:
    """Draw a log with everything in it, of raw ``topics``.

    ``repeats``: also read offsets and segments twice.
    """
    raw = draw(raws() if topics is None else topics)
    commits = []
    idle: set[str] = set()
    known = dict.fromkeys(raw.topics, 1) if draw(st.booleans()) else dict(raw.partitions)
    for _ in range(draw(st.integers(1, 8))):
        if draw(st.integers(0, 2)) == 2:
            known = dict(raw.partitions)
        here = [s for s in raw.sources if int(s.rpartition("/")[2]) < known[s.rpartition("/")[0]]]
        reads = tuple(draw(_reads(s, s in idle, repeats)) for s in here if draw(st.booleans()))
        idle = (idle - {r.source for r in reads}) | {r.source for r in reads if r.idle}
        commits.append(Commit(reads, dict(known)))
    segments = record(raw, commits)
    return EventLog(raw, draw(_repeated(segments)) if repeats else segments)


@st.composite
def _reads(draw: st.DrawFn, source: str, was_idle: bool, repeats: bool) -> Read:
    read = Read(source, draw(st.integers(0, 6)))
    kind = draw(st.sampled_from(("plain", "plain", "idle", "silent", "forgets", "rewind")))
    if kind == "idle":
        return replace(read, idle=True, silence_ms=draw(st.integers(0, 30)))
    if kind == "silent":
        return replace(read, count=0, idle=True, silence_ms=draw(st.integers(0, 30)))
    if kind == "rewind" and repeats and not was_idle:
        return replace(read, rewind=draw(st.integers(1, 3)))
    return replace(read, forgets=kind == "forgets")


@st.composite
def _repeated(draw: st.DrawFn, segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    made = list(segments)
    for _ in range(draw(st.sampled_from((0, 0, 1, 2)))):
        original = draw(st.integers(0, len(made) - 1))
        made.insert(draw(st.integers(original + 1, len(made))), made[original])
    return tuple(made)


@st.composite
def cut_segments(draw: st.DrawFn, segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Draw other cuts of the same log: each segment split none, one or several times."""
    made: list[Segment] = []
    for segment in segments:
        rest: tuple[Segment, ...] = (segment,)
        while rest[-1].height > 1 and draw(st.booleans()):
            rest = (*rest[:-1], *rest[-1].split(draw(st.integers(1, rest[-1].height - 1))))
        made.extend(rest)
    return tuple(made)


@st.composite
def crowds(
    draw: st.DrawFn, at_ms: tuple[int, int], w_ms: tuple[int, int]
) -> list[tuple[list[Judged], int]]:
    """Draw steps of one key whose rows come with any W from the clock on, so that most meet.

    ``at_ms`` and ``w_ms``: how far from the clock times and Ws are.
    """
    clock_ms, offset, steps = 0, 0, []
    for _ in range(draw(st.integers(1, 6))):
        rows = []
        for _ in range(draw(st.integers(0, 5))):
            at, w = (clock_ms + draw(st.integers(*ends)) for ends in (at_ms, w_ms))
            rows.append(Judged("t/0", offset, 0, at, w, "a", offset))
            offset += 1
        clock_ms += draw(st.sampled_from((0, 1, 5, 15)))
        steps.append((rows, clock_ms))
    return steps
