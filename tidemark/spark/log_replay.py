"""Runs the operators of a log over one log partition, or one key-group slice of it, on Spark.

A log replay does what a keyed service does, without Kafka and without changelogs.  The operators
take the segments in the order of the log, a batch of segments at a time.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
import polars as pl

from tidemark.core.operators.log_task import LogTask
from tidemark.core.operators.operator import Numbers
from tidemark.core.operators.output import Tally
from tidemark.core.time.reached import Reached
from tidemark.core.time.segment import NEVER_MS, Segment, is_operator_source
from tidemark.errors import StateError, UnreadableRowsError
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.runtime.keyed.changelog import chunks
from tidemark.serde.changelog import NO_COMMIT, SNAPSHOT, Piece
from tidemark.serde.segments import segment_at


@dataclass
class OperatorCounts(Tally):
    """The counts of an operator, and its clock."""

    clock_ms: int = NEVER_MS


class SourcePosition(msgspec.Struct, frozen=True):
    """The next offset of a source after its last mark, and the source's watermark there."""

    next_offset: int
    watermark_ms: int


class SegmentOutput(NamedTuple):
    """The rows that one operator published for a batch of segments.

    ``first_offset``: the offset of the first segment.  ``frames``: the rows by port, with the
    port's columns.  ``offsets``: by port, the offset of the segment that published each row.
    ``handed_on``: how many results the operator had handed on before.
    """

    plan: OperatorPlan
    first_offset: int
    frames: Mapping[str, pl.DataFrame]
    offsets: Mapping[str, Numbers]
    handed_on: int = 0


class LogReplay:
    """The operators of a log, their state and clocks, for one key-group slice of a partition.

    ``handed_on``: how many results each stage has handed on, by its name.
    """

    def __init__(self, plan: Plan, log: Partition, slice_: int = 0) -> None:
        """Start with empty state; ``slice_``: the number of the key-group slice."""
        self.log = log
        self.slice = slice_
        self.segments = self.rows = 0
        self.offset = -1
        self.plans = [each for each in plan.operators if each.log == log.topic]
        self.reached: dict[str, SourcePosition] = {}
        self._by_name = {each.name: each for each in self.plans}
        self.derived = {
            each.operator: each for each in plan.derived if each.operator in self._by_name
        }
        self.handed_on = dict.fromkeys(self.derived, 0)
        self._task = LogTask(each.operator for each in self.plans)

    def take(self, values: Sequence[tuple[int, bytes]]) -> Iterator[SegmentOutput]:
        """Process a batch of segments; yield the output of each operator.

        Args:
            values: offset and encoded segment of each, in the order of the log.

        Raises:
            StateError: a value is not a segment, or a segment before it is missing.  The message
                names the offset.
        """
        segments = [self._next(offset, value) for offset, value in values]
        offsets = np.array([offset for offset, _ in values], np.int64)
        with unreadable_rows_explained():
            for task, steps in self._task.steps(segments):
                of_ports = {port: offsets[number] for port, number in steps.segment_of.items()}
                plan, frames = self._by_name[task.operator.name], steps.output.frames
                handed_on = self.handed_on.get(plan.name, 0)
                if plan.name in self.derived:
                    results = frames.get(self.derived[plan.name].port.name)
                    self.handed_on[plan.name] += 0 if results is None else results.height
                yield SegmentOutput(plan, values[0][0], frames, of_ports, handed_on)

    def _next(self, offset: int, value: bytes) -> Segment:
        assert offset > self.offset, f"{self.log}: offset {offset} after {self.offset}"
        segment = segment_at(self.log, offset, value, self._task.streams)
        self._require_next(segment, offset)
        self.segments += 1
        self.rows += segment.height
        self.offset = offset
        return segment

    def _require_next(self, segment: Segment, offset: int) -> None:
        """Refuse a gap in the offsets of a raw source: the segment that fills it is missing.

        Of an operator, only the partitions of the log that have rows get a segment.
        """
        for mark in segment.sources:
            if is_operator_source(mark.source):
                continue
            past = self.reached.get(mark.source)
            if past is not None and mark.first_offset > past.next_offset:
                raise StateError(
                    f"{self.log}, offset {offset}: {mark.source} continues at offset "
                    f"{mark.first_offset}, expected {past.next_offset}; a segment before it is "
                    "missing"
                )
            if past is None or mark.next_offset >= past.next_offset:
                self.reached[mark.source] = SourcePosition(mark.next_offset, mark.watermark_ms)

    @property
    def clock_ms(self) -> int:
        """The lowest clock of the operators."""
        return self._task.clock_ms

    def progress(self) -> dict[str, Reached]:
        """Return how far the results of each stage are complete, by its name."""
        tasks = (each for each in self._task.tasks if each.operator.name in self.derived)
        return {each.operator.name: each.reached() for each in tasks}

    def snapshots(self) -> Iterator[tuple[OperatorPlan, Piece]]:
        """Yield all state, operator by operator, in chunks without a commit (``NO_COMMIT``)."""
        for plan, task in zip(self.plans, self._task.tasks, strict=True):
            handed_on, clocks = self.handed_on.get(plan.name, 0), task.clocks.state()
            end = Piece(SNAPSHOT, NO_COMMIT, 0, self.offset + 1, {}, clocks, handed_on=handed_on)
            for piece in chunks(end, task.snapshot()):
                yield plan, piece

    def counts(self) -> dict[str, OperatorCounts]:
        """Return the counts of each operator, by its name."""
        return {
            task.operator.name: OperatorCounts(**vars(task.tally), clock_ms=task.clock_ms)
            for task in self._task.tasks
        }


@contextmanager
def unreadable_rows_explained() -> Iterator[None]:
    """Add the remedy to an error about rows that an earlier pipeline wrote."""
    try:
        yield
    except UnreadableRowsError as error:
        raise StateError(
            f"{error}: 'tidemark replay --from raw' computes from raw topics, 'tidemark reset' "
            "starts afresh"
        ) from error
