"""What Spark's tasks run: segments in, results out, in Arrow batches.

Both callables travel to the executors with the plan inside.  Where a log partition is one unit, a
task reads it from Kafka and works on it at once.  Where it is cut into slices, a first task cuts
the segments, and Spark brings the pieces of a slice together, sorted by offset.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from time import monotonic
from typing import Any, Protocol

import polars as pl
import pyarrow as pa

from tidemark.core.operators.ports import DEAD, LATE, PANES, Port
from tidemark.core.time.segment import EVENT_TIME, FOREVER_MS, NEVER_MS
from tidemark.core.windows.pane import END, START
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.service.batch_sizer import BatchSizer
from tidemark.runtime.service.command import keep_freed_memory
from tidemark.serde.segments import MAX_BATCH_SEGMENTS, encode_segment, in_batches, segment_at
from tidemark.spark.log_replay import LogReplay, SegmentOutput
from tidemark.spark.progress import CUTTING, Address, Pulse
from tidemark.spark.read.segment_rows import PIECES, Batches, Piece, batch_of, pieces_of
from tidemark.spark.read.slices import sliced


class Writer(Protocol):
    """Takes the results of one unit."""

    def take(self, given: SegmentOutput) -> Batches:
        """Take what an operator gave for segments."""

    def finish(self, unit: LogReplay) -> Batches:
        """End the results of the unit."""


class Target(Protocol):
    """Where results go; travels to the executors."""

    @property
    def ddl(self) -> str:
        """Columns of the rows that tasks return, as Spark writes them."""

    def open(self, unit: LogReplay) -> Writer:
        """Begin with the results of a unit."""


@dataclass(frozen=True)
class Slicing:
    """Cuts segments into slices; ``logs`` gives each log partition its place."""

    plan: Plan
    logs: Sequence[Partition]
    slices: int
    driver: Address | None = None

    def __call__(self, batches: Batches) -> Batches:
        """Return the pieces of each batch of segments."""
        keep_freed_memory()
        places = {log: place for place, log in enumerate(self.logs)}
        shapes = {log.topic: (list(log.key), log.partitions) for log in self.plan.logs}
        pulse = Pulse(self.driver)
        for batch in batches:
            for piece in pieces_of(batch):
                values = self._cut(piece, *shapes[piece.log.topic])
                yield self._batch(piece, places[piece.log], values)
                pulse.beat(piece.log, CUTTING, piece.offset, 0, NEVER_MS)

    def _cut(self, piece: Piece, key: list[str], partitions: int) -> list[bytes]:
        if self.slices == 1:
            return [piece.value]
        segment = segment_at(piece.log, piece.offset, piece.value)
        return list(map(encode_segment, sliced(segment, key, partitions, self.slices)))

    def _batch(self, piece: Piece, place: int, values: Sequence[bytes]) -> pa.RecordBatch:
        slices = range(self.slices)
        columns: list[Sequence[Any]] = [
            [place * self.slices + slice_ for slice_ in slices],
            [piece.log.topic] * self.slices,
            [piece.log.number] * self.slices,
            list(slices),
            [piece.offset] * self.slices,
            values,
        ]
        return batch_of(columns, PIECES)


@dataclass(frozen=True)
class Period:
    """Event time whose results are wanted: of windows that overlap it, of late rows in it."""

    since_ms: int = NEVER_MS
    until_ms: int = FOREVER_MS

    def of(self, given: SegmentOutput) -> SegmentOutput:
        """Leave out results of other times."""
        if self == ALWAYS:
            return given
        frames, offsets = dict(given.output.frames), dict(given.offsets)
        for each in given.plan.ports:
            name = each.port.name
            if name in frames:
                kept = frames[name].select(self._holds(each.port)).to_series()
                frames[name] = frames[name].filter(kept)
                offsets[name] = offsets[name][kept.to_numpy()]
        return given._replace(output=replace(given.output, frames=frames), offsets=offsets)

    def _holds(self, port: Port) -> pl.Expr:
        """Say of an operator's rows whether they are of the period."""
        if port.kind == PANES:
            return (pl.col(END) > self.since_ms) & (pl.col(START) < self.until_ms)
        at = port.row_time
        time = pl.col(EVENT_TIME) if port.kind in (LATE, DEAD) else pl.col(at.column) + at.shift_ms
        return (time >= self.since_ms) & (time < self.until_ms)


ALWAYS = Period()


@dataclass(frozen=True)
class Operating:
    """Runs operators over the segments of units, which come one after another.

    ``transaction_timeout_ms``: of the transactions that the target may have open.
    """

    plan: Plan
    target: Target
    transaction_timeout_ms: int
    period: Period = ALWAYS
    driver: Address | None = None

    def __call__(self, batches: Batches) -> Batches:
        """Return what the target has to say of each batch."""
        keep_freed_memory()
        pulse = Pulse(self.driver)
        pieces = (piece for batch in batches for piece in pieces_of(batch))
        for (log, slice_), found in groupby(pieces, key=lambda piece: piece[:2]):
            unit = LogReplay(self.plan, log, slice_)
            writer = self.target.open(unit)
            for values in in_portions(found, self.transaction_timeout_ms):
                for given in unit.take(values):
                    yield from writer.take(self.period.of(given))
                pulse.beat(log, slice_, unit.offset, unit.rows, unit.clock_ms)
            yield from writer.finish(unit)


def in_portions(
    pieces: Iterable[Piece], transaction_timeout_ms: int
) -> Iterator[list[tuple[int, bytes]]]:
    """Yield the offsets and values of a log partition, as many as can be worked on at once.

    They are so few that the work on them, until the next are asked for, takes a small part of the
    timeout: a transaction is committed between portions, never within one.
    """
    batch_sizer = BatchSizer(MAX_BATCH_SEGMENTS, transaction_timeout_ms)
    values = ((piece.offset, piece.value) for piece in pieces)
    for found in in_batches(values, lambda: batch_sizer.size):
        begin_s = monotonic()
        yield found
        batch_sizer.took(len(found), monotonic() - begin_s)
