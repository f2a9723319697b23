"""The callables that Spark's tasks run: segments in, results out, in Arrow batches.

Both callables travel to the executors with the plan inside.  Without key-group slices, a task reads
a log partition from Kafka and processes it directly.  With key-group slices, a first task cuts each
segment.  Spark then gathers the rows of a key-group slice in one task, sorted by offset.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from time import monotonic
from typing import Any, Protocol

import polars as pl
import pyarrow as pa

from tidemark.core.operators.ports import FAILED, PANES, Port
from tidemark.core.time.segment import EVENT_TIME, FOREVER_MS, NEVER_MS
from tidemark.core.windows.pane import END, START
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.service.batch_sizer import BatchSizer
from tidemark.runtime.service.command import keep_freed_memory
from tidemark.serde.segments import MAX_BATCH_SEGMENTS, encode_segment, in_batches, segment_at
from tidemark.spark.log_replay import LogReplay, SegmentOutput
from tidemark.spark.progress import CUTTING, Address, ProgressSender
from tidemark.spark.read.segment_rows import (
    SLICED_SEGMENTS,
    Batches,
    SegmentRow,
    batch_of,
    segment_rows,
)
from tidemark.spark.read.slices import slice_segment


class ResultWriter(Protocol):
    """Writes the results of one log replay."""

    def take(self, output: SegmentOutput) -> Batches:
        """Write the output of an operator; yield rows for the driver, if there are any."""

    def finish(self, replay: LogReplay) -> Batches:
        """Complete the results; yield the last rows for the driver."""


class ReplayTarget(Protocol):
    """The place where a replay writes its results; it travels to the executors."""

    @property
    def ddl(self) -> str:
        """Columns of the rows that the tasks return, in Spark's DDL."""

    def open(self, replay: LogReplay) -> ResultWriter:
        """Return a writer for the results of a log replay."""


@dataclass(frozen=True)
class SegmentSlicer:
    """Cuts segments into key-group slices; ``logs`` gives each log partition its number.

    The batches it takes have the columns ``SEGMENTS``, the ones it returns ``SLICED_SEGMENTS``.
    """

    plan: Plan
    logs: Sequence[Partition]
    slices: int
    driver: Address | None = None

    def __call__(self, batches: Batches) -> Batches:
        """Yield a batch per segment, with a row per key-group slice."""
        keep_freed_memory()
        places = {log: place for place, log in enumerate(self.logs)}
        shapes = {log.topic: (list(log.key), log.partitions) for log in self.plan.logs}
        sender = ProgressSender(self.driver)
        for batch in batches:
            for row in segment_rows(batch):
                values = self._cut(row, *shapes[row.log.topic])
                yield self._batch(row, places[row.log], values)
                sender.send(row.log, CUTTING, row.offset, 0, NEVER_MS)

    def _cut(self, row: SegmentRow, key: list[str], partitions: int) -> list[bytes]:
        if self.slices == 1:
            return [row.value]
        segment = segment_at(row.log, row.offset, row.value)
        return list(map(encode_segment, slice_segment(segment, key, partitions, self.slices)))

    def _batch(self, row: SegmentRow, place: int, values: Sequence[bytes]) -> pa.RecordBatch:
        slices = range(self.slices)
        columns: list[Sequence[Any]] = [
            [place * self.slices + slice_ for slice_ in slices],
            [row.log.topic] * self.slices,
            [row.log.number] * self.slices,
            list(slices),
            [row.offset] * self.slices,
            values,
        ]
        return batch_of(columns, SLICED_SEGMENTS)


@dataclass(frozen=True)
class EventTimeRange:
    """A range of event time that selects results.

    It selects windows that overlap it, and other rows whose event time is in it.
    """

    since_ms: int = NEVER_MS
    until_ms: int = FOREVER_MS

    def select(self, output: SegmentOutput) -> SegmentOutput:
        """Return the output without rows outside the range."""
        if self == ALL_TIMES:
            return output
        frames, offsets = dict(output.frames), dict(output.offsets)
        for each in output.plan.ports:
            name = each.port.name
            if name in frames:
                selected = frames[name].select(self._selects(each.port)).to_series()
                frames[name] = frames[name].filter(selected)
                offsets[name] = offsets[name][selected.to_numpy()]
        return output._replace(frames=frames, offsets=offsets)

    def _selects(self, port: Port) -> pl.Expr:
        """Return an expression that is true for rows of a port in the range."""
        if port.kind in (PANES, FAILED):
            return (pl.col(END) > self.since_ms) & (pl.col(START) < self.until_ms)
        at = port.row_time
        time = pl.col(EVENT_TIME) if port.rejects else pl.col(at.column) + at.shift_ms
        return (time >= self.since_ms) & (time < self.until_ms)


ALL_TIMES = EventTimeRange()


@dataclass(frozen=True)
class OperatorRunner:
    """Runs operators over segments; log partitions, or their key-group slices, follow each other.

    The batches it takes have the columns ``SEGMENTS``, the ones it returns those of the target.
    ``transaction_timeout_ms``: the timeout of the transactions that the target may open.
    """

    plan: Plan
    target: ReplayTarget
    transaction_timeout_ms: int
    event_times: EventTimeRange = ALL_TIMES
    driver: Address | None = None

    def __call__(self, batches: Batches) -> Batches:
        """Yield what the target returns for each batch of segments."""
        keep_freed_memory()
        sender = ProgressSender(self.driver)
        rows = (row for batch in batches for row in segment_rows(batch))
        for (log, slice_), found in groupby(rows, key=lambda row: row[:2]):
            replay = LogReplay(self.plan, log, slice_)
            writer = self.target.open(replay)
            for values in in_short_batches(found, self.transaction_timeout_ms):
                for output in replay.take(values):
                    yield from writer.take(self.event_times.select(output))
                sender.send(log, slice_, replay.offset, replay.rows, replay.clock_ms)
            yield from writer.finish(replay)


def in_short_batches(
    rows: Iterable[SegmentRow], transaction_timeout_ms: int
) -> Iterator[list[tuple[int, bytes]]]:
    """Yield offsets and values of the segments of a log partition in batches of limited work.

    The work on a batch, until the next batch is requested, takes a small part of the timeout.
    A transaction is committed between batches, never within a batch.
    """
    batch_sizer = BatchSizer(MAX_BATCH_SEGMENTS, transaction_timeout_ms)
    values = ((row.offset, row.value) for row in rows)
    for found in in_batches(values, lambda: batch_sizer.size):
        begin_s = monotonic()
        yield found
        batch_sizer.took(len(found), monotonic() - begin_s)
