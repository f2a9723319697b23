"""The unit of a replay: one log partition, or one slice of it, through the operators of its log.

It is what a service does with a log partition, less Kafka and changelogs: the same operators, in
the order of the log, as many segments at once as are given.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from tidemark.core.operators.operator import Output, Steps
from tidemark.core.time.clock import ClockTable
from tidemark.core.time.segment import NEVER_MS, Segment
from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.runtime.keyed.changelog import chunks
from tidemark.serde.changelog import NO_COMMIT, SNAPSHOT, Piece
from tidemark.serde.segments import segment_at


class Tally(msgspec.Struct):
    """What an operator did in a unit: rows = accepted + late; where its clock stands."""

    rows: int = 0
    late: int = 0
    panes: int = 0
    clock_ms: int = NEVER_MS


class Reached(msgspec.Struct, frozen=True):
    """How far a source was told of: where its last mark ends, and the watermark it had then."""

    next_offset: int
    watermark_ms: int


class Given(NamedTuple):
    """What an operator gave for segments taken together, of which ``first`` is the first's offset.

    ``pane_offset``, ``late_offset``: the offset of the segment that gave each pane and late row.
    """

    plan: OperatorPlan
    first: int
    output: Output
    pane_offset: npt.NDArray[np.int64]
    late_offset: npt.NDArray[np.int64]


@dataclass
class _Running:
    plan: OperatorPlan
    clocks: ClockTable
    state: Any
    tally: Tally

    def steps(self, segments: Sequence[Segment]) -> Iterator[Steps]:
        for steps in self.plan.operator.steps(segments, self.clocks, self.state):
            self.state.changes()  # no changelog takes them here
            self.state.purge(steps.clock_ms)
            output = steps.output
            self.tally.rows += output.rows
            self.tally.late += output.late.height
            self.tally.panes += output.panes.height
            self.tally.clock_ms = steps.clock_ms
            yield steps


class Unit:
    """The operators of a log at work on one slice of one partition of it."""

    def __init__(self, plan: Plan, log: Partition, slice_: int = 0) -> None:
        """Start with nothing read."""
        self.log = log
        self.slice = slice_
        self.segments = self.rows = 0
        self.offset = -1
        self._running = [
            _Running(each, each.operator.clocks(), each.operator.body.fresh(), Tally())
            for each in plan.operators
            if each.log == log.topic
        ]
        self._streams = {name for each in self._running for name in each.plan.operator.streams}
        self.reached: dict[str, Reached] = {}

    def take(self, values: Sequence[tuple[int, bytes]]) -> Iterator[Given]:
        """Work on segments, given with their offsets; yield what each operator gave.

        Raises:
            StateError: one is no segment, or not the one that follows; names its offset.
        """
        segments = [self._next(offset, value) for offset, value in values]
        offsets = np.array([offset for offset, _ in values], np.int64)
        for running in self._running:
            for steps in running.steps(segments):
                given_by = offsets[steps.of_pane], offsets[steps.of_late]
                yield Given(running.plan, values[0][0], steps.output, *given_by)

    def _next(self, offset: int, value: bytes) -> Segment:
        assert offset > self.offset, f"{self.log}: offset {offset} after {self.offset}"
        segment = segment_at(self.log, offset, value, self._streams)
        self._require_next(segment, offset)
        self.segments += 1
        self.rows += segment.height
        self.offset = offset
        return segment

    def _require_next(self, segment: Segment, offset: int) -> None:
        """Refuse a gap in what a source says: a segment between is missing."""
        for mark in segment.sources:
            past = self.reached.get(mark.source)
            if past is not None and mark.first_offset > past.next_offset:
                raise StateError(
                    f"{self.log}, offset {offset}: {mark.source} goes on at offset "
                    f"{mark.first_offset} where {past.next_offset} is next; a segment before it is "
                    "missing"
                )
            if past is None or mark.next_offset >= past.next_offset:
                self.reached[mark.source] = Reached(mark.next_offset, mark.watermark_ms)

    @property
    def clock_ms(self) -> int:
        """The lowest clock of the operators."""
        return min(running.clocks.clock_ms for running in self._running)

    @property
    def plans(self) -> list[OperatorPlan]:
        """The operators of the log."""
        return [running.plan for running in self._running]

    def snapshots(self) -> Iterator[tuple[OperatorPlan, Piece]]:
        """Yield all state, operator by operator; of which commit it is, is yet to be said."""
        for running in self._running:
            state, clocks = running.state.snapshot(), running.clocks.state()
            for piece in chunks(SNAPSHOT, NO_COMMIT, state, clocks, self.offset + 1):
                yield running.plan, piece

    def tallies(self) -> dict[str, Tally]:
        """Return what each operator did, by its name."""
        return {running.plan.operator.name: running.tally for running in self._running}
