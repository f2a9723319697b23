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

from tidemark.core.time.segment import EVENT_TIME, FOREVER_MS, NEVER_MS
from tidemark.core.windows.pane import END, START
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.service.batch_sizer import BatchSizer
from tidemark.runtime.service.command import keep_freed_memory
from tidemark.serde.segments import MOST_TOGETHER, encode_segment, segment_at, together
from tidemark.spark.progress import CUTTING, Address, Pulse
from tidemark.spark.read.segment_rows import PIECES, Batches, Piece, batch_of, pieces_of
from tidemark.spark.read.slices import sliced
from tidemark.spark.unit import Given, Unit


class Writer(Protocol):
    """Takes the results of one unit."""

    def take(self, given: Given) -> Batches:
        """Take what an operator gave for segments."""

    def finish(self, unit: Unit) -> Batches:
        """End the results of the unit."""


class Target(Protocol):
    """Where results go; travels to the executors."""

    @property
    def ddl(self) -> str:
        """Columns of the rows that tasks return, as Spark writes them."""

    def open(self, unit: Unit) -> Writer:
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

    def of(self, given: Given) -> Given:
        """Leave out results of other times."""
        if self == ALWAYS:
            return given
        panes, late = given.output.panes, given.output.late
        time = pl.col(EVENT_TIME)
        of_panes = panes.select((pl.col(END) > self.since_ms) & (pl.col(START) < self.until_ms))
        of_late = late.select((time >= self.since_ms) & (time < self.until_ms))
        kept, kept_late = of_panes.to_series(), of_late.to_series()
        output = replace(given.output, panes=panes.filter(kept), late=late.filter(kept_late))
        return given._replace(
            output=output,
            pane_offset=given.pane_offset[kept.to_numpy()],
            late_offset=given.late_offset[kept_late.to_numpy()],
        )


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
            unit = Unit(self.plan, log, slice_)
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
    batch_sizer = BatchSizer(MOST_TOGETHER, transaction_timeout_ms)
    values = ((piece.offset, piece.value) for piece in pieces)
    for found in together(values, lambda: batch_sizer.size):
        begin_s = monotonic()
        yield found
        batch_sizer.took(len(found), monotonic() - begin_s)
