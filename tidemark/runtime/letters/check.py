"""Runs the present program over raw records, in this process, as if they came next.  Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import polars as pl

from tidemark.core.operators.log_task import LogTask
from tidemark.core.operators.ports import DEAD, REASON
from tidemark.core.time.segment import EVENT_TIME, OFFSET
from tidemark.errors import UserCodeError
from tidemark.ingest.ingest import Ingest, IngestOutput, Progress
from tidemark.ingest.segment_builder import SegmentBuilder
from tidemark.plan.physical import LogPlan, Plan
from tidemark.runtime.letters.raw_records import RawRecord
from tidemark.serde.formats.avro_values import WriterSchemas
from tidemark.serde.records import RecordBatch


@dataclass
class Verdict:
    """What becomes of a record.

    ``stage`` and ``reason``: of its dead letter; empty if it is not refused.  ``rows``: by
    operator, how many rows of it the operator gets.  ``event_time_ms``: of its first row, None
    without rows.
    """

    stage: str = ""
    reason: str = ""
    rows: Counter[str] = field(default_factory=Counter)
    event_time_ms: int | None = None

    @property
    def is_dead(self) -> bool:
        """Whether ingest or an operator refuses the record, or a row of it."""
        return bool(self.stage)

    def clear(self) -> None:
        """Forget everything."""
        self.stage = self.reason = ""
        self.rows.clear()
        self.event_time_ms = None


class Check:
    """The present program of a pipeline."""

    def __init__(self, plan: Plan, now_ms: int, writers: WriterSchemas | None = None) -> None:
        """``now_ms``: the wall clock, for INGEST_TIME.  ``writers``: see ``Ingest``."""
        self._plan = plan
        self._now_ms = now_ms
        self._ingest = Ingest(plan, writers)

    def verdicts(self, records: Sequence[RawRecord]) -> list[Verdict]:
        """Return what becomes of each record, whatever the others are.

        A record that would be late is no dead letter: only the live clocks know that.
        """
        found = [Verdict() for _ in records]
        numbers = sorted(range(len(records)), key=lambda at: _source(records[at]))
        for _, group in groupby(numbers, key=lambda at: _source(records[at])):
            some = list(group)
            self._judge([records[at] for at in some], [found[at] for at in some])
        return found

    def _judge(self, records: Sequence[RawRecord], verdicts: Sequence[Verdict]) -> None:
        """Judge records of one raw partition; their offsets are their positions."""
        for verdict in verdicts:
            verdict.clear()
        taken = self._ingest.take(_batch(records, self._now_ms), Progress())
        for letter in taken.dead_letters:
            verdict = verdicts[letter.offset]
            verdict.stage, verdict.reason = letter.stage, letter.reason
        for log in self._plan.logs:
            self._note_rows(log, taken, verdicts)
            try:
                refusals = list(self._refusals(log, taken))
            except UserCodeError as error:  # of on_error="stop": only a record alone tells which
                if len(records) > 1:
                    for record, verdict in zip(records, verdicts, strict=True):
                        self._judge([record], [verdict])
                    return
                refusals = [(0, "on_error='stop'", str(error))]
            for at, stage, reason in refusals:
                verdicts[at].stage, verdicts[at].reason = stage, reason

    def _note_rows(self, log: LogPlan, taken: IngestOutput, verdicts: Sequence[Verdict]) -> None:
        for operator in self._plan.operators:
            streams = operator.operator.streams if operator.log == log.topic else ()
            for name in streams:
                for at, event_time_ms in _rows(taken.streams.get(name)):
                    verdicts[at].rows[operator.name] += 1
                    verdicts[at].event_time_ms = event_time_ms

    def _refusals(self, log: LogPlan, taken: IngestOutput) -> Iterator[tuple[int, str, str]]:
        """Yield position, operator and reason of rows that operators refuse."""
        builder = SegmentBuilder(epoch=0)
        builder.add(taken)
        operators = [each.operator for each in self._plan.operators if each.log == log.topic]
        topic, _, partition = taken.mark.source.rpartition("/")
        partitions = {topic: int(partition) + 1}
        for segments in builder.build(log, self._now_ms, partitions):
            for task, steps in LogTask(operators).steps(segments):
                dead = steps.output.frames.get(DEAD)
                if dead is not None:
                    for at, reason in dead.select(OFFSET, REASON).iter_rows():
                        yield at, task.operator.name, reason


def _source(record: RawRecord) -> tuple[str, int]:
    return record.topic, record.partition


def _rows(rows: pl.DataFrame | None) -> Iterable[tuple[int, int]]:
    return () if rows is None else rows.select(OFFSET, EVENT_TIME).iter_rows()


def _batch(records: Sequence[RawRecord], now_ms: int) -> RecordBatch:
    first = records[0]
    return RecordBatch(
        topic=first.topic,
        partition=first.partition,
        offsets=np.arange(len(records)),
        timestamps=[record.timestamp_ms for record in records],
        keys=[record.key for record in records],
        headers=[record.headers for record in records],
        values=[record.value for record in records],
        next_offset=len(records),
        received_at_ms=now_ms,
    )
