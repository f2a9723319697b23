"""Runs a stage again and places its rows in the logs that it feeds (docs/replay.md, "Chains").

1. ``MarkReader`` reads the segments of those logs.  It routes the marks of the stage to the tasks
   of the stage, one for each partition of the stage's own log.
2. ``StageRunner`` runs the stage over its own log.  It routes each row to the segment where the log
   must have it.
3. ``StageAssembler`` (stage_segments.py) puts the rows into these segments.

A row goes to the segment whose mark has its number, or to an earlier one with the first mark of the
stage that closes its event time.  Late rows carry their W, and a mark closes them if it is later
than this W.  Rows that replace each other are closed by a mark later than the clock that the stage
had before them.  So the rows of an unchanged program are where they were, and the rows of another
program precede the marks that close their windows.  A log without a mark of the stage gets the rows
after its segments, in the order of recorded time.  So does a log that a hand-over writes anew, with
the rows that no mark follows.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, islice

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from tidemark.core.operators.ports import CHANGES, Port
from tidemark.core.time.segment import NEVER_MS, OFFSET, SourceMark, is_rows_of_operator
from tidemark.ingest.derived import HandedOn, hand_on
from tidemark.partition import Partition
from tidemark.plan.physical import DerivedPlan, LogPlan, OperatorPlan, Plan
from tidemark.serde.frames import encode_frame
from tidemark.serde.segments import MAX_BATCH_SEGMENTS, as_record, in_batches
from tidemark.spark.log_replay import LogReplay
from tidemark.spark.read.envelopes import envelopes
from tidemark.spark.read.reingest import rows_by_partition
from tidemark.spark.read.segment_rows import Batches, batch_of, row_tuples, segment_rows

PLACED_ROWS = pa.schema(
    [
        ("to", pa.int32()),
        ("at", pa.int64()),
        ("time", pa.int64()),
        ("partition", pa.int32()),
        ("kind", pa.int32()),
        ("number", pa.int64()),
        ("data", pa.binary()),
    ]
)
"""Rows for the task ``to``, sorted by all columns but the last.

``at`` is the offset of a segment, and ``data`` a segment, if ``kind`` is not one of these:

* RANGE and MARK, for the tasks of a stage.  ``time``: the end of the range, or the watermark.
  ``partition``: the place of the log partition that has the mark.  ``number``: its offset there.
* ROWS, from the task ``partition`` of a stage for the segment ``at``.  ``data``: ``StageRows``.
* REACHED, from that task.  ``number``: its watermark.  ``data``: not empty if it is idle.
  Before the first segment, ``time`` is the number of its rows.

``time`` orders the other rows of a place: rows of a stage have 0, the segment has 1.  After the
last segment of a log, it is the time of record, in ms.
"""

RANGE, MARK, ROWS, REACHED, SEGMENT = range(5)
FIRST, AFTER = -1, 2**62
"""Places before the first and after the last segment of a log."""

PlacedRow = tuple[int, int, int, int, int, int, bytes]


class StageRows(msgspec.Struct, frozen=True, array_like=True):
    """Rows of a stream with numbers from ``first`` to ``end``, exclusive; ``rows``: their frame."""

    first: int
    end: int
    stream: str
    rows: bytes


@dataclass(frozen=True)
class RemadeStage:
    """A stage whose rows are made again, and the partitions of the logs concerned.

    ``plan``: the stage is its only operator.  ``partitions``: of its own log.  ``fed``: those of
    the logs that it feeds.  ``whole``: whether the logs also get the rows that no recorded mark
    follows, after their segments.
    """

    plan: Plan
    derived: DerivedPlan
    partitions: int
    fed: tuple[Partition, ...]
    whole: bool = False

    @property
    def operator(self) -> OperatorPlan:
        """The stage as an operator."""
        return self.plan.operators[0]

    @property
    def logs(self) -> list[LogPlan]:
        """The logs that the stage feeds."""
        topics = {at.topic for at in self.fed}
        return [log for log in self.plan.fed_by(self.derived) if log.topic in topics]


def placed_batch(rows: Sequence[PlacedRow]) -> pa.RecordBatch:
    """Return rows as a batch (``PLACED_ROWS``)."""
    return batch_of(zip(*rows, strict=True), PLACED_ROWS)


def placed_rows(batches: Batches) -> Iterator[PlacedRow]:
    """Return the rows of batches (``PLACED_ROWS``)."""
    return row_tuples(batches)


@dataclass(frozen=True)
class SegmentRouter:
    """Routes segments (``SEGMENTS``) of log partitions to the tasks of their places."""

    logs: Sequence[Partition]

    def __call__(self, batches: Batches) -> Batches:
        """Yield a batch of one row for each segment."""
        places = {at: place for place, at in enumerate(self.logs)}
        for batch in batches:
            for row in segment_rows(batch):
                yield placed_batch([(places[row.log], row.offset, 1, 0, SEGMENT, 0, row.value)])


@dataclass(frozen=True)
class MarkReader:
    """Reads the segments of the fed logs; routes the marks of the stage to its tasks."""

    stage: RemadeStage

    def __call__(self, batches: Batches) -> Batches:
        """Yield a batch for each segment with marks of the stage."""
        places = {at: place for place, at in enumerate(self.stage.fed)}
        for row, segment in envelopes(batches):
            found = [
                routed
                for mark in segment.sources
                for routed in self._routed(mark, places[row.log], row.offset)
            ]
            if found:
                yield placed_batch(found)

    def _routed(self, mark: SourceMark, place: int, offset: int) -> Iterator[PlacedRow]:
        source = self.stage.derived.source
        if mark.source == source:
            for task in range(self.stage.partitions):
                yield task, FIRST, mark.watermark_ms, place, MARK, offset, b""
        elif is_rows_of_operator(mark.source) and mark.topic == source:
            task = int(mark.source.rpartition("/")[2])
            yield task, FIRST, mark.next_offset, place, RANGE, offset, b""


@dataclass(frozen=True)
class StageRunner:
    """Runs the stage over its own log.

    The batches that it takes and returns have the columns ``PLACED_ROWS``.
    """

    stage: RemadeStage

    def __call__(self, batches: Batches) -> Batches:
        """Yield the rows for the fed logs, and what each task has reached."""
        for number, rows in groupby(placed_rows(batches), key=lambda row: row[0]):
            yield from _StageTask(self.stage, number).run(rows)


@dataclass
class _Marks:
    """The recorded marks of a stage in a log partition, each with the offset of its segment.

    ``ranges``: ends of ranges of rows.  ``watermarks``: of the marks of the stage as a whole.
    ``placed``: the place of the last row.
    """

    ranges: list[tuple[int, int]] = field(default_factory=list)
    watermarks: list[tuple[int, int]] = field(default_factory=list)
    placed: int = FIRST

    def places(
        self, numbers: npt.NDArray[np.int64], times_ms: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Return the segment of each of consecutive rows; ``AFTER`` if no mark follows it.

        No row is after one with a higher number: it would be taken for a repeated one.
        """
        by_number = _first_above(self.ranges, numbers)
        places = np.minimum(by_number, _first_above(self.watermarks, times_ms))
        places = np.maximum(np.minimum.accumulate(places[::-1])[::-1], self.placed)
        self.placed = int(places[-1])
        return places


def _times_ms(port: Port, results: pl.DataFrame, before_ms: int) -> npt.NDArray[np.int64]:
    """Return the time of each result that no mark before it may pass: event time, or its own W.

    Results that replace others may lie behind.  No mark before them passes ``before_ms``, the
    watermark of the stage before their segment.
    """
    if port.mode == CHANGES:
        return np.full(results.height, before_ms)
    if port.watermark:
        return results[port.watermark].to_numpy()
    return (results[port.row_time.column] + port.row_time.shift_ms).to_numpy()


def _first_above(
    marks: Sequence[tuple[int, int]], values: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return, for each value, the offset of the first mark that is higher."""
    highest, offsets = np.array([*sorted(marks, key=lambda each: each[1]), (0, AFTER)]).T
    highest = np.maximum.accumulate(highest[:-1])
    found: npt.NDArray[np.int64] = offsets[np.searchsorted(highest, values, "right")]
    return found


class _StageTask:
    """A stage on one partition of its log."""

    def __init__(self, stage: RemadeStage, number: int) -> None:
        self._stage, self._number = stage, number
        self._marks = [_Marks() for _ in stage.fed]
        self._replay = LogReplay(stage.plan, Partition(stage.operator.log, number))
        self._time_ms = NEVER_MS
        self._is_past_marks = False

    def run(self, rows: Iterator[PlacedRow]) -> Batches:
        """Take the marks, then the segments; yield rows for the fed logs."""
        segments = self._after_marks(rows)
        held = list(islice(segments, 1))  # all marks come before it
        new = self._logs_without_marks()
        is_apart = new or self._stage.derived.port.mode == CHANGES
        size = 1 if is_apart else MAX_BATCH_SEGMENTS
        for batch in in_batches(chain(held, segments), lambda: size):
            yield from self._take(batch, new)
        yield self._reached(FIRST, [*range(len(self._marks))])
        marked = [n for n, at in enumerate(self._stage.fed) if at.topic not in new]
        if marked and self._stage.whole and self._replay.segments:
            yield self._reached(AFTER, marked)

    def _after_marks(self, rows: Iterator[PlacedRow]) -> Iterator[tuple[int, bytes]]:
        for _, at, time, place, kind, number, data in rows:
            if kind == RANGE:
                self._marks[place].ranges.append((time, number))
            elif kind == MARK:
                self._marks[place].watermarks.append((time, number))
            else:
                yield at, data

    def _logs_without_marks(self) -> frozenset[str]:
        fed = [*zip(self._stage.fed, self._marks, strict=True)]
        marked = {at.topic for at, marks in fed if marks.watermarks or marks.ranges}
        return frozenset(at.topic for at, _ in fed) - marked

    def _take(self, batch: Sequence[tuple[int, bytes]], new: Collection[str]) -> Batches:
        """Process segments; ``new``: the fed logs without marks, which also get reports."""
        if new or self._stage.whole:
            recorded_ms = as_record(batch[0][1])["ingested_at_ms"]
            self._time_ms = max(self._time_ms, recorded_ms)
        derived = self._stage.derived
        before_ms = self._replay.progress()[derived.operator].watermark_ms
        for output in self._replay.take(batch):
            results = output.frames.get(derived.port.name)
            if results is not None and results.height:
                handed = hand_on(derived, results, self._number, output.handed_on)
                times_ms = _times_ms(derived.port, results, before_ms)
                yield from self._placed(handed, times_ms, new)
        fed = enumerate(self._stage.fed)
        after = [place for place, at in fed if at.topic in new or self._is_past_marks]
        if after:
            yield self._reached(AFTER, after)

    def _reached(self, at: int, places: Sequence[int]) -> pa.RecordBatch:
        """Return what the task has reached, for the tasks of log partitions."""
        name = self._stage.derived.operator
        time = self._replay.handed_on[name] if at == FIRST else self._time_ms
        watermark_ms, is_idle = self._replay.progress()[name]
        idle = b"1" if is_idle else b""
        return placed_batch(
            [(place, at, time, self._number, REACHED, watermark_ms, idle) for place in places]
        )

    def _placed(
        self, handed: HandedOn, times_ms: npt.NDArray[np.int64], new: Collection[str]
    ) -> Batches:
        """Yield the rows for each log partition; those that no mark follows only if all are wanted.

        ``times_ms``: of each result, as ``_times_ms`` returns them.
        """
        first, end = handed.mark.first_offset, handed.mark.next_offset
        numbers = np.arange(first, end)
        places: dict[int, npt.NDArray[np.int64]] = {}
        for log, stream, number, rows in self._by_partition(handed):
            to = self._stage.fed.index(Partition(log.topic, number))
            if log.topic in new:
                yield self._rows(to, AFTER, self._time_ms, stream, rows)
                continue
            if to not in places:
                places[to] = self._marks[to].places(numbers, times_ms)
            at = places[to][rows[OFFSET].to_numpy() - first]
            for place in np.unique(at[at < AFTER]).tolist():
                yield self._rows(to, place, 0, stream, rows.filter(pl.Series(at == place)))
            rest = rows.filter(pl.Series(at == AFTER))
            if self._stage.whole and rest.height:
                self._is_past_marks = True
                yield self._rows(to, AFTER, self._time_ms, stream, rest)

    def _by_partition(self, handed: HandedOn) -> Iterator[tuple[LogPlan, str, int, pl.DataFrame]]:
        """Yield the rows of each stream of each log by the number of the log partition."""
        for log in self._stage.logs:
            for stream in log.streams:
                for number, rows in rows_by_partition(handed, stream, log.partitions):
                    yield log, stream.name, number, rows

    def _rows(
        self, to: int, at: int, time_ms: int, stream: str, rows: pl.DataFrame
    ) -> pa.RecordBatch:
        lowest, highest = rows[OFFSET][0], rows[OFFSET][-1]
        data = msgspec.msgpack.encode(StageRows(lowest, highest + 1, stream, encode_frame(rows)))
        return placed_batch([(to, at, time_ms, self._number, ROWS, lowest, data)])
