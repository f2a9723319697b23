"""The time of one source's records: event time, quarantine, and the watermark before each record.

1. Event time and watermark depend on few columns, the *time columns*.  They are read from every
   good record, and from every dead record whose only fault is another column: such a record moves
   time as well.
2. A record is dead and moves no time if its event time is missing, out of range, or too far in the
   future, or if an expression of time fails on it.
3. The watermark before a record follows from all records before it that move time, even if they
   become dead letters in a later step.
4. A record with several rows is one record of time.  It is dead if any of its rows is.  It has the
   latest event time and the largest candidate of its rows.
5. A flush record has a candidate and no event time.

See docs/semantics.md, "Sources, event time, watermarks".
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidemark.core.rows.expression import metadata_used, output_types
from tidemark.core.rows.nested import nested_column
from tidemark.core.rows.row_values import row_values
from tidemark.core.time.assigners import ColumnTime, ExpressionTime, IngestTime, RecordTime
from tidemark.core.time.column_times import column_times, value_times
from tidemark.core.time.event_time import MISSING, REASONS, EventTimes, record_times
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.time.text_times import Mask, Times
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
from tidemark.serde.parsed_batch import Indices, ParsedBatch, has_repeats
from tidemark.serde.records import RecordBatch

FUTURE = "future timestamp"

_NO_TIME = REASONS.index(MISSING)
_RECORD = "@record"  # keeps the height of a frame without time columns


@dataclass(frozen=True, slots=True)
class RecordTimes:
    """The time of a batch's records.

    ``row_ms``: the event times of the rows of good records.  ``moves``: a mask of the records that
    have an event time and are not quarantined.  ``watermarks``: before each record.
    ``watermark_ms``: after all records.  ``unflushed_ms``: the watermark that these records would
    give alone, without the flush records.
    """

    row_ms: Times
    moves: Mask
    watermarks: Times
    watermark_ms: int
    unflushed_ms: int


@dataclass(frozen=True)
class _TimeInput:
    """The rows of the records of a batch that may move time, in order, with their time columns.

    ``records``: of each row.  ``height``: of the whole batch.
    """

    records: Indices
    rows: pl.DataFrame
    height: int

    def values(self, expression: pl.Expr, dtype: pl.DataType) -> tuple[pl.Series, dict[int, str]]:
        """Return the values of an expression, and the reason by record where it fails."""
        values, faults = row_values(expression, self.rows, dtype)
        reasons: dict[int, str] = {}
        for row, reason in faults.items():
            reasons.setdefault(int(self.records[row]), reason)
        return values, reasons

    def by_record(self, times: EventTimes) -> tuple[EventTimes, Indices | None]:
        """Return the event time of each record, from those of the rows.

        It is that of the first row without time, or of the latest row.  Also returns the position
        of that row among several of its record; -1 for a record with one row, None if all have.
        """
        if not has_repeats(self.records):
            return times.spread(self.records, self.height), None
        first = np.flatnonzero(np.diff(self.records, prepend=-1))  # row of each record
        last_first = -np.arange(len(self.records))
        rank = np.where(times.known, times.ms, last_first)
        ends = np.append(first[1:], len(self.records))
        chosen = np.lexsort((rank, ~times.known, self.records))[ends - 1]
        places = np.where(ends - first > 1, chosen - first, -1)
        position = np.full(self.height, -1, np.intp)
        position[self.records[chosen]] = places
        return times.at(chosen).spread(self.records[chosen], self.height), position

    def largest(self, candidates: Times, mask: Mask) -> tuple[Times, Mask]:
        """Return the largest candidate in ``mask`` of each record, and which records have one."""
        records = self.records[mask]
        largest, counts = np.full(self.height, NEVER_MS, np.int64), np.zeros(self.height, np.bool_)
        np.maximum.at(largest, records, candidates[mask])
        counts[records] = True
        return largest, counts

    def of_good(self, times: Times, parsed: ParsedBatch) -> Times:
        """Return the event times of the rows of good records; 0 for rows that are no input."""
        if len(self.records) == len(parsed.records) and not len(parsed.dead_with_time):
            return times
        has_input, good = np.zeros(self.height, np.bool_), np.zeros(self.height, np.bool_)
        has_input[self.records], good[parsed.records] = True, True
        of_good = np.zeros(len(parsed.records), np.int64)
        of_good[has_input[parsed.records]] = times[good[self.records]]
        return of_good


class SourceTime:
    """Event time and watermarks of one source."""

    def __init__(self, plan: SourcePlan) -> None:
        """Find the time columns; ``plan``: of the source."""
        self._plan = plan
        self._delay_ms, self._min_ms = delay_ms(plan.watermark), plan.min_time_ms
        expressions = list(_expressions(plan))
        roots = {name for expression in expressions for name in expression.meta.root_names()}
        if isinstance(plan.event_time, ColumnTime):
            roots.add(plan.event_time.path[0])
        self.columns = [name for name in plan.schema if name in roots]
        self._metadata = metadata_used(expressions)
        self._dtypes = [
            next(iter(output_types([expression], plan.schema, plan.name).values()))
            for expression in expressions
        ]

    def of(
        self,
        batch: RecordBatch,
        parsed: ParsedBatch,
        watermark_ms: int,
        report_dead: ReportDead,
        flushes: Mapping[int, int],
    ) -> RecordTimes:
        """Return the time of a batch's records; ``watermark_ms``: before the batch.

        Good records without time are reported to ``report_dead``.  ``flushes``: the time of
        each flush, by the index of its record.
        """
        largest_ms = largest_of(watermark_ms, self._delay_ms)
        time_input = self._time_input(batch, parsed, report_dead)
        row_times = self._row_times(time_input, report_dead)
        if row_times is None:
            times, position = self._clock_times(batch, parsed, largest_ms, flushes), None
            row_ms, good_ms = times.ms[time_input.records], times.ms[parsed.records]
        else:
            times, position = time_input.by_record(row_times)
            row_ms, good_ms = row_times.ms, time_input.of_good(row_times.ms, parsed)
        candidates, counts, failed = self._candidates(time_input, times, row_ms)
        for index, reason in failed.items():
            report_dead(index, "watermark", reason)
        known = times.known
        known[list(failed)] = False
        candidates, counts = self._with_flushes(candidates, counts & known, flushes)
        future_ms = self._plan.max_future_ms
        if future_ms is not None and not isinstance(self._plan.event_time, IngestTime):
            latest = np.where(counts, np.maximum(times.ms, candidates), times.ms)
            records = QuarantineInput(latest, known, candidates, counts, batch.timestamp_column())
            ahead = is_quarantined(records, largest_ms, future_ms)
            known, counts = known & ~ahead, counts & ~ahead
        timeless = parsed.records[~known[parsed.records]]
        self._report_timeless(np.unique(timeless), times, position, report_dead)
        watermarks, largest_ms = watermarks_before(candidates, counts, largest_ms, self._delay_ms)
        watermark_ms = watermark_of(largest_ms, self._delay_ms)
        counts[[*flushes]] = False
        unflushed_ms = watermark_of(int(candidates[counts].max(initial=NEVER_MS)), self._delay_ms)
        return RecordTimes(good_ms, known, watermarks, watermark_ms, unflushed_ms)

    def _time_input(
        self, batch: RecordBatch, parsed: ParsedBatch, report_dead: ReportDead
    ) -> _TimeInput:
        records = parsed.records
        rows = pl.DataFrame([parsed.columns[name] for name in self.columns])
        if len(parsed.dead_with_time):
            records = np.concatenate([records, parsed.dead_with_time])
            order = np.argsort(records, kind="stable")
            records, rows = records[order], pl.concat([rows, parsed.times])[order]
        rows = pl.DataFrame([pl.Series(_RECORD, records), *rows.get_columns()])
        records, rows = with_metadata(self._metadata, records, rows, batch, report_dead)
        return _TimeInput(records, rows, len(batch))

    def _row_times(self, time_input: _TimeInput, report_dead: ReportDead) -> EventTimes | None:
        """Return the event times of the rows; None if time does not come from their values."""
        spec = self._plan.event_time
        if isinstance(spec, ColumnTime):
            column = nested_column(time_input.rows, spec.path)
            return self._bounded(column_times(spec, column))
        if isinstance(spec, ExpressionTime):
            values, failed = time_input.values(spec.expression, self._dtypes[0])
            for index, reason in failed.items():
                report_dead(index, "event time", reason)
            return self._bounded(value_times(values))
        return None

    def _clock_times(
        self,
        batch: RecordBatch,
        parsed: ParsedBatch,
        largest_ms: int,
        flushes: Mapping[int, int],
    ) -> EventTimes:
        """Return the event time of every record, from Kafka or from ingest; blank ones have none.

        ``largest_ms``: the largest watermark candidate before the batch.
        """
        if isinstance(self._plan.event_time, RecordTime):
            times = record_times(batch.timestamp_column())
        else:
            now_ms = np.full(len(batch), max(batch.received_at_ms, largest_ms), np.int64)
            at, candidates = self._flush_candidates(flushes)
            now_ms[at] = np.maximum(now_ms[at], candidates)
            times = record_times(np.maximum.accumulate(now_ms))
        times.reason[list(parsed.blank)] = _NO_TIME
        return self._bounded(times)

    def _with_flushes(
        self, candidates: Times, counts: Mask, flushes: Mapping[int, int]
    ) -> tuple[Times, Mask]:
        """Return the candidates and their mask, with those of flush records."""
        if flushes:
            at, flushed = self._flush_candidates(flushes)
            candidates = candidates.copy()
            candidates[at] = flushed
            counts[at] = True
        return candidates, counts

    def _flush_candidates(self, flushes: Mapping[int, int]) -> tuple[Indices, Times]:
        """Return the indexes of flush records, and their watermark candidates."""
        until_ms = np.fromiter(flushes.values(), np.int64, len(flushes))
        return np.fromiter(flushes, np.intp, len(flushes)), until_ms + self._delay_ms

    def _bounded(self, times: EventTimes) -> EventTimes:
        return times.not_before(self._min_ms).with_windows(self._plan.longest_window_ms)

    def _candidates(
        self, time_input: _TimeInput, times: EventTimes, row_ms: Times
    ) -> tuple[Times, Mask, dict[int, str]]:
        """Return watermark candidates, a mask of the records with one, and reasons of failures.

        ``times``: of the records.  ``row_ms``: of the rows.
        """
        watermark = self._plan.watermark
        if isinstance(watermark, Punctuated):
            marked, failed = time_input.values(watermark.when, pl.Boolean())
            is_marked = marked.fill_null(value=False).to_numpy()
            return *time_input.largest(row_ms, is_marked), failed
        if isinstance(watermark, FromExpression):
            values, failed = time_input.values(watermark.candidate, self._dtypes[-1])
            candidates = value_times(values).not_before(self._min_ms)
            refused = (candidates.reason != 0) & (candidates.reason != _NO_TIME)
            for row in np.flatnonzero(refused).tolist():
                failed[int(time_input.records[row])] = (
                    f"watermark: {candidates.why(row, self._min_ms)}"
                )
            return *time_input.largest(candidates.ms, candidates.known), failed
        return times.ms, times.known, {}

    def _report_timeless(
        self,
        records: Indices,
        times: EventTimes,
        position: Indices | None,
        report_dead: ReportDead,
    ) -> None:
        """Report records without time; ``position``: of the row that lacks it."""
        spec = self._plan.event_time
        what = f"event time {spec.column}" if isinstance(spec, ColumnTime) else "event time"
        for index in records.tolist():
            reason = times.why(index, self._min_ms)
            at = -1 if position is None else position[index]
            element = "" if at < 0 else f"element {at}: "
            report_dead(index, "event time", f"{element}{what}: {reason}" if reason else FUTURE)


def _expressions(plan: SourcePlan) -> Iterator[pl.Expr]:
    if isinstance(plan.event_time, ExpressionTime):
        yield plan.event_time.expression
    if isinstance(plan.watermark, Punctuated):
        yield plan.watermark.when
    if isinstance(plan.watermark, FromExpression):
        yield plan.watermark.candidate
