"""The time of one source's records: event time, quarantine, and the watermark before each record.

1. Event time and watermark depend on few columns, the *time columns*.  They are read from every
   good record, and from every dead record whose only fault is another column: such a record moves
   time as well.
2. A record is dead and moves no time if its event time is missing or out of range, if an expression
   of time fails on it, or if it is too far in the future.
3. The watermark before a record follows from all records before it that move time, even if they
   become dead letters in a later step.

See docs/semantics.md, "Sources, event time, watermarks".
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidemark.core.rows.expression import metadata_used, output_types
from tidemark.core.rows.row_values import row_values
from tidemark.core.time.assigners import ColumnTime, ExpressionTime, IngestTime, RecordTime
from tidemark.core.time.event_time import (
    MISSING,
    REASONS,
    EventTimes,
    column_times,
    record_times,
    value_times,
)
from tidemark.core.time.iso8601 import Mask, Times
from tidemark.core.time.watermark import (
    FromExpression,
    Punctuated,
    QuarantineInput,
    delay_ms,
    is_quarantined,
    largest_of,
    watermark_of,
    watermarks_before,
)
from tidemark.ingest.metadata_columns import ReportDead, with_metadata
from tidemark.plan.physical import SourcePlan
from tidemark.serde.json_records import Indices, ParsedBatch
from tidemark.serde.records import RecordBatch

FUTURE = "future timestamp"

_NO_TIME = REASONS.index(MISSING)
_RECORD = "@record"  # keeps the height of a frame without time columns


@dataclass(frozen=True, slots=True)
class RecordTimes:
    """The time of each record of a batch.

    ``ms``: event times.  ``moves``: a mask of the records that have an event time and are not
    quarantined.  ``watermarks``: before each record.  ``watermark_ms``: after all records.
    """

    ms: Times
    moves: Mask
    watermarks: Times
    watermark_ms: int


@dataclass(frozen=True, slots=True)
class _TimeInput:
    """The records of a batch that may move time, in order, with their time columns as rows.

    ``height``: of the whole batch.
    """

    records: Indices
    rows: pl.DataFrame
    height: int

    def values(self, expression: pl.Expr, dtype: pl.DataType) -> tuple[pl.Series, dict[int, str]]:
        """Return the values of an expression, and the reason by record where it fails."""
        values, faults = row_values(expression, self.rows, dtype)
        return values, {int(self.records[row]): reason for row, reason in faults.items()}

    def spread(self, mask: Mask) -> Mask:
        """Return a mask of the rows as a mask of all records, false for the others."""
        spread = np.zeros(self.height, np.bool_)
        spread[self.records] = mask
        return spread


class SourceTime:
    """Event time and watermarks of one source."""

    def __init__(self, plan: SourcePlan) -> None:
        """Find the time columns; ``plan``: of the source."""
        self._plan = plan
        self._delay_ms, self._min_ms = delay_ms(plan.watermark), plan.min_time_ms
        expressions = list(_expressions(plan))
        roots = {name for expression in expressions for name in expression.meta.root_names()}
        if isinstance(plan.event_time, ColumnTime):
            roots.add(plan.event_time.column)
        self.columns = [name for name in plan.schema if name in roots]
        self._metadata = metadata_used(expressions)
        self._dtypes = [
            next(iter(output_types([expression], plan.schema, plan.name).values()))
            for expression in expressions
        ]

    def of(
        self, batch: RecordBatch, parsed: ParsedBatch, watermark_ms: int, report_dead: ReportDead
    ) -> RecordTimes:
        """Return the time of a batch's records; ``watermark_ms``: before the batch.

        Good records without time are reported to ``report_dead``.
        """
        largest_ms = largest_of(watermark_ms, self._delay_ms)
        time_input = self._time_input(batch, parsed, report_dead)
        times = self._times(batch, parsed, time_input, largest_ms, report_dead)
        times = times.not_before(self._min_ms).with_windows(self._plan.longest_window_ms)
        candidates, counts, failed = self._candidates(time_input, times)
        for index, reason in failed.items():
            report_dead(index, "watermark", reason)
        known = times.known
        known[list(failed)] = False
        counts &= known
        future_ms = self._plan.max_future_ms
        if future_ms is not None and not isinstance(self._plan.event_time, IngestTime):
            latest = np.where(counts, np.maximum(times.ms, candidates), times.ms)
            records = QuarantineInput(latest, known, candidates, counts, batch.timestamp_column())
            ahead = is_quarantined(records, largest_ms, future_ms)
            known, counts = known & ~ahead, counts & ~ahead
        self._report_timeless(parsed.good[~known[parsed.good]], times, report_dead)
        watermarks, largest_ms = watermarks_before(candidates, counts, largest_ms, self._delay_ms)
        return RecordTimes(times.ms, known, watermarks, watermark_of(largest_ms, self._delay_ms))

    def _time_input(
        self, batch: RecordBatch, parsed: ParsedBatch, report_dead: ReportDead
    ) -> _TimeInput:
        records = parsed.good
        rows = pl.DataFrame([parsed.columns[name] for name in self.columns])
        if len(parsed.dead_with_time):
            records = np.concatenate([records, parsed.dead_with_time])
            order = np.argsort(records)
            records, rows = records[order], pl.concat([rows, parsed.times])[order]
        rows = pl.DataFrame([pl.Series(_RECORD, records), *rows.get_columns()])
        records, rows = with_metadata(self._metadata, records, rows, batch, report_dead)
        return _TimeInput(records, rows, len(batch))

    def _times(
        self,
        batch: RecordBatch,
        parsed: ParsedBatch,
        time_input: _TimeInput,
        largest_ms: int,
        report_dead: ReportDead,
    ) -> EventTimes:
        """Return the event time of every record; blank ones have none."""
        spec, height = self._plan.event_time, len(batch)
        if isinstance(spec, ColumnTime):
            return column_times(spec, time_input.rows[spec.column]).spread(
                time_input.records, height
            )
        if isinstance(spec, ExpressionTime):
            values, failed = time_input.values(spec.expression, self._dtypes[0])
            for index, reason in failed.items():
                report_dead(index, "event time", reason)
            return value_times(values).spread(time_input.records, height)
        if isinstance(spec, RecordTime):
            times = record_times(batch.timestamp_column())
        else:
            now_ms = max(batch.received_at_ms, largest_ms)
            times = record_times(np.full(height, now_ms, np.int64))
        times.reason[list(parsed.blank)] = _NO_TIME
        return times

    def _candidates(
        self, time_input: _TimeInput, times: EventTimes
    ) -> tuple[Times, Mask, dict[int, str]]:
        """Return watermark candidates, a mask of the records with one, and reasons of failures."""
        watermark = self._plan.watermark
        if isinstance(watermark, Punctuated):
            marked, failed = time_input.values(watermark.when, pl.Boolean())
            return times.ms, time_input.spread(marked.fill_null(value=False).to_numpy()), failed
        if isinstance(watermark, FromExpression):
            values, failed = time_input.values(watermark.candidate, self._dtypes[-1])
            candidates = value_times(values).not_before(self._min_ms)
            refused = (candidates.reason != 0) & (candidates.reason != _NO_TIME)
            for row in np.flatnonzero(refused).tolist():
                failed[int(time_input.records[row])] = (
                    f"watermark: {candidates.why(row, self._min_ms)}"
                )
            candidates = candidates.spread(time_input.records, time_input.height)
            return candidates.ms, candidates.known, failed
        return times.ms, times.known, {}

    def _report_timeless(
        self, records: Indices, times: EventTimes, report_dead: ReportDead
    ) -> None:
        spec = self._plan.event_time
        what = f"event time {spec.column}" if isinstance(spec, ColumnTime) else "event time"
        for index in records.tolist():
            reason = times.why(index, self._min_ms)
            report_dead(index, "event time", f"{what}: {reason}" if reason else FUTURE)


def _expressions(plan: SourcePlan) -> Iterator[pl.Expr]:
    if isinstance(plan.event_time, ExpressionTime):
        yield plan.event_time.expression
    if isinstance(plan.watermark, Punctuated):
        yield plan.watermark.when
    if isinstance(plan.watermark, FromExpression):
        yield plan.watermark.candidate
