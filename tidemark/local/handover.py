"""What operators hand on to each other in one process: segments for the logs of the next ones.

It keeps what services keep in Kafka: how many results each partition has handed on, and what it has
reached (docs/semantics.md, "Chains").
"""

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from tidemark.core.time.announcer import Announcer, TaskProgress
from tidemark.core.time.reached import Reached
from tidemark.core.time.segment import Segment
from tidemark.ingest.derived import derived_segments, hand_on, mark_segment
from tidemark.ingest.segment_builder import SegmentBuilder
from tidemark.plan.physical import DerivedPlan, Plan
from tidemark.serde.dead_letters import DeadLetterEncoder


class Written(NamedTuple):
    """A segment for a partition of a log."""

    log: str
    partition: int
    segment: Segment


class Handover:
    """The results that the operators of a plan hand on, and their marks."""

    def __init__(self, plan: Plan, now_ms: int) -> None:
        """Start before the first result; ``now_ms``: the wall clock, which does not move."""
        self._plan = plan
        self._now_ms = now_ms
        self._next_offset: dict[tuple[str, int], int] = {}
        partitions = {log.topic: log.partitions for log in plan.logs}
        logs = {each.name: each.log for each in plan.operators}
        self._announcers = {
            each.operator: Announcer(
                each.operator, dict.fromkeys(range(partitions[logs[each.operator]]), 0)
            )
            for each in plan.derived
        }
        self.letters: list[bytes] = []
        """Dead letters: results that a row operator or a null key refuses."""

    def rows(self, derived: DerivedPlan, partition: int, results: pl.DataFrame) -> list[Written]:
        """Return the segments with results that a partition has published."""
        at = derived.operator, partition
        handed = hand_on(derived, results, partition, self._next_offset.get(at, 0))
        self._next_offset[at] = handed.mark.next_offset
        self.letters += DeadLetterEncoder(derived.dead, "").encode(handed.dead)[1]
        builder = SegmentBuilder(epoch=0)
        builder.add(handed)
        return [
            Written(log.topic, number, segment)
            for log in self._plan.fed_by(derived)
            for number, segments in enumerate(derived_segments(builder, log, self._now_ms))
            for segment in segments
        ]

    def marks(self, derived: DerivedPlan, partition: int, reached: Reached) -> Iterator[Written]:
        """Yield the segments that say what the operator has reached, if that has changed."""
        announcer = self._announcers[derived.operator]
        announcer.take(announcer.number, TaskProgress(partition, 0, *reached))
        mark = announcer.mark()
        if mark is None:
            return
        announcer.announced(mark)
        segment = mark_segment(mark, self._now_ms, epoch=0)
        for log in self._plan.fed_by(derived):
            yield from (Written(log.topic, number, segment) for number in range(log.partitions))
