"""A log partition, or one key-group slice of it, at work on Spark.

It is what a service does with a log partition, without Kafka and changelogs: the same operators, in
the order of the log, as many segments at once as are given.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from tidemark.core.operators.operator import Numbers
from tidemark.core.operators.task import LogTask, Output
from tidemark.core.time.segment import NEVER_MS, Segment
from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.runtime.keyed.changelog import chunks
from tidemark.runtime.keyed.keyed_operator import unreadable_rows_explained
from tidemark.serde.changelog import NO_COMMIT, SNAPSHOT, Piece
from tidemark.serde.segments import segment_at


class OperatorCounts(msgspec.Struct):
    """What an operator did: rows = accepted + late + dead; where its clock stands."""

    rows: int = 0
    late: int = 0
    dead: int = 0
    results: int = 0
    clock_ms: int = NEVER_MS


class SourcePosition(msgspec.Struct, frozen=True):
    """Where the last mark of a source ends, and the source's watermark there."""

    next_offset: int
    watermark_ms: int


class SegmentOutput(NamedTuple):
    """What an operator published for a run of segments.

    ``first``: offset of the first segment.  ``offsets``: by port, the offset of the segment that
    published each row.
    """

    plan: OperatorPlan
    first: int
    output: Output
    offsets: dict[str, Numbers]


class LogReplay:
    """The operators of a log at work on one slice of one partition of it."""

    def __init__(self, plan: Plan, log: Partition, slice_: int = 0) -> None:
        """Start with nothing read; ``slice_``: number of the key-group slice."""
        self.log = log
        self.slice = slice_
        self.segments = self.rows = 0
        self.offset = -1
        self.plans = [each for each in plan.operators if each.log == log.topic]
        self.reached: dict[str, SourcePosition] = {}
        self._by_name = {each.name: each for each in self.plans}
        self._task = LogTask(each.operator for each in self.plans)

    def take(self, values: Sequence[tuple[int, bytes]]) -> Iterator[SegmentOutput]:
        """Work on segments, given with their offsets; yield what each operator published.

        Raises:
            StateError: a value is no segment, or not the one that follows; names its offset.
        """
        segments = [self._next(offset, value) for offset, value in values]
        offsets = np.array([offset for offset, _ in values], np.int64)
        with unreadable_rows_explained():
            for task, steps in self._task.steps(segments):
                of_ports = {port: offsets[number] for port, number in steps.segment_of.items()}
                plan = self._by_name[task.operator.name]
                yield SegmentOutput(plan, values[0][0], steps.output, of_ports)

    def _next(self, offset: int, value: bytes) -> Segment:
        assert offset > self.offset, f"{self.log}: offset {offset} after {self.offset}"
        segment = segment_at(self.log, offset, value, self._task.streams)
        self._require_next(segment, offset)
        self.segments += 1
        self.rows += segment.height
        self.offset = offset
        return segment

    def _require_next(self, segment: Segment, offset: int) -> None:
        """Refuse a gap in the offsets of a source: a segment between is missing."""
        for mark in segment.sources:
            past = self.reached.get(mark.source)
            if past is not None and mark.first_offset > past.next_offset:
                raise StateError(
                    f"{self.log}, offset {offset}: {mark.source} goes on at offset "
                    f"{mark.first_offset} where {past.next_offset} is next; a segment before it is "
                    "missing"
                )
            if past is None or mark.next_offset >= past.next_offset:
                self.reached[mark.source] = SourcePosition(mark.next_offset, mark.watermark_ms)

    @property
    def clock_ms(self) -> int:
        """The lowest clock of the operators."""
        return self._task.clock_ms

    def snapshots(self) -> Iterator[tuple[OperatorPlan, Piece]]:
        """Yield all state, operator by operator; the commit is still to be named."""
        for plan, task in zip(self.plans, self._task.tasks, strict=True):
            clocks = task.clocks.state()
            for piece in chunks(SNAPSHOT, NO_COMMIT, task.snapshot(), clocks, self.offset + 1):
                yield plan, piece

    def counts(self) -> dict[str, OperatorCounts]:
        """Return what each operator did, by its name."""
        return {
            task.operator.name: OperatorCounts(
                task.tally.rows,
                task.tally.late,
                task.tally.dead,
                task.tally.results,
                task.clock_ms,
            )
            for task in self._task.tasks
        }
