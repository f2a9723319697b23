"""Whether the stages of a run handed on what they must (docs/semantics.md, "Chains").

1. The rows of a stage are in the logs of its readers, each once: those that it makes of its log.
2. Marks of a stage only go on; each row precedes the marks behind its time; the last mark says what
   all partitions of the stage have reached, in all partitions of the logs alike.
3. No row is late for the operator after a stage.
4. Where no source with records fell idle, the results of a chain are what slow Python makes of the
   rows that ingest makes of the raw records.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from tests.chaos.joining import stages_of
from tests.chaos.pipelines import END, chain_name
from tests.chaos.recorded import Recorded
from tests.oracles.chain import Result, Row, results
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.segment import (
    EVENT_TIME,
    NEVER_MS,
    SOURCE,
    WATERMARK,
    Segment,
    is_rows_of_operator,
)
from tidemark.ingest.derived import derived_segments, hand_on
from tidemark.ingest.segment_builder import SegmentBuilder
from tidemark.plan.physical import DerivedPlan, OperatorPlan, Plan

Log = Mapping[int, Sequence[Segment]]
"""The segments of each partition of a log."""


class Stages:
    """What the stages of a plan make of the logs of a run."""

    def __init__(self, plan: Plan, logs: Mapping[str, Log]) -> None:
        """Run every stage over its log."""
        self._plan = plan
        self._logs = logs
        self._last: dict[str, tuple[int, bool]] = {}
        """By source: the watermark and idleness of the last mark."""
        builder = SegmentBuilder(0)
        for derived in plan.derived:
            self._run(derived, builder)
        self.rows: dict[str, dict[int, list[Segment]]] = {
            log.topic: dict(enumerate(derived_segments(builder, log, 0))) for log in plan.logs
        }
        """By log and partition: what the stages hand on."""
        self.height = sum(
            segment.height
            for log in self.rows.values()
            for segments in log.values()
            for segment in segments
        )

    def _run(self, derived: DerivedPlan, builder: SegmentBuilder) -> None:
        operator = operator_of(self._plan, derived.operator)
        reached = []
        for number, segments in self._logs[operator.log].items():
            task, handed_on = OperatorTask(operator.operator), 0
            for segment in segments:
                found = task.step(segment).frames.get(derived.port.name)
                if found is not None and found.height:
                    handed = hand_on(derived, found, number, handed_on)
                    handed_on = handed.mark.next_offset
                    builder.add(handed)
            reached.append(task.reached())
        watermark_ms = min(each.watermark_ms for each in reached)
        self._last[derived.source] = watermark_ms, all(each.is_idle for each in reached)

    def differences(self, recorded: Recorded) -> Iterator[str]:
        """Say what is wrong with the marks, and which rows were late."""
        for derived in self._plan.derived:
            for log in self._plan.fed_by(derived):
                for number, segments in self._logs[log.topic].items():
                    found = self._of_marks(derived, segments)
                    yield from (f"{log.topic}/{number}: {each}" for each in found)
        sources = {each.source for each in self._plan.derived}
        for each in self._plan.operators:
            if each.operator.sources <= sources:
                late = len(recorded.values(each.port("late").topic))
                if late:
                    yield f"{late} rows of stages are late for {each.name}"

    def _of_marks(self, derived: DerivedPlan, segments: Iterable[Segment]) -> Iterator[str]:
        source, last = derived.source, (NEVER_MS, False)
        offsets: dict[str, int] = {}
        for segment in segments:
            for row in _early(source, segment, last[0]):
                yield f"a row of {source} at {row} comes behind the mark {last[0]}"
            for mark in segment.sources:
                if mark.source == source:
                    if mark.watermark_before_ms != last[0] or mark.watermark_ms < last[0]:
                        yield f"{source} goes from {last[0]} to {mark}"
                    last = mark.watermark_ms, mark.idle
                if mark.topic == source:
                    if mark.first_offset < offsets.get(mark.source, 0):
                        yield f"{mark.source} goes back to {mark.first_offset}"
                    offsets[mark.source] = mark.next_offset
        if last != self._last[source]:
            yield f"{source} ends at {last}, its log gives {self._last[source]}"


def _early(source: str, segment: Segment, watermark_ms: int) -> list[int]:
    """Return event times of rows of a stage that its mark has passed."""
    mine = [
        number
        for number, mark in enumerate(segment.sources)
        if is_rows_of_operator(mark.source) and mark.topic == source
    ]
    return [
        at_ms
        for frame in segment.streams.values()
        for at_ms in frame.filter(pl.col(SOURCE).is_in(mine), pl.col(EVENT_TIME) < watermark_ms)[
            EVENT_TIME
        ]
    ]


def chains(
    plan: Plan, made: Sequence[Any], wanted: Mapping[str, Log]
) -> Iterator[tuple[OperatorPlan, set[Result]]]:
    """Yield the outputs of chains, each with the results of slow Python.

    ``made``: the chains, as ``build`` takes them.  ``wanted``: rows that ingest makes, by log.
    """
    for number, chain in enumerate(made):
        output = first = operator_of(plan, chain_name(number))
        while before := [each for each in plan.derived if each.source in first.operator.sources]:
            first = operator_of(plan, before[0].operator)
        rows = _rows(first, wanted[first.log])
        yield output, results(stages_of(chain), rows)


def _rows(first: OperatorPlan, log: Log) -> Iterator[Row]:
    streams = [name for each in first.operator.inputs for name in each.streams]
    for segments in log.values():
        for segment in segments:
            for name in streams:
                if name in segment.streams:
                    found = segment.streams[name].filter(pl.col("key") != END)
                    yield from map(
                        Row._make,
                        found.select(EVENT_TIME, "key", "value", WATERMARK).iter_rows(),
                    )


def operator_of(plan: Plan, name: str) -> OperatorPlan:
    """Return the operator with a name."""
    return next(each for each in plan.operators if each.name == name)
