"""Ingest: raw records of one partition to the rows of every keyed stream, and to dead letters.

Pure glue, the same for the Kafka service and the in-process runner.  The order of steps:

1. parse: records are good, dead or blank (runtime/serde/json_records.py);
2. event time: of good records, and of those dead only for another column;
3. quarantine: records dated too far in the future are dead and move no time;
4. watermark before each record, over all that have an event time and are not quarantined;
5. metadata columns, where the pipeline looks at them;
6. the stateless operators.

Cutting the same records into other batches gives the same rows, watermarks and dead letters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tidemark.core.event_time import MISSING, REASONS, EventTimes, column_times, record_times
from tidemark.core.segment import EVENT_TIME, NEVER_MS, OFFSET, WATERMARK, SourceMark
from tidemark.core.watermark import ColumnTime, Mask, RecordTime, Times, future
from tidemark.errors import StateError
from tidemark.metadata_columns import with_metadata
from tidemark.plan import Plan, SourcePlan
from tidemark.records import Counts, DeadLetter, RecordBatch
from tidemark.runtime.serde.json_records import Indices, JsonRecords, Parsed

__all__ = ["Counts", "DeadLetter", "Ingest", "Progress", "RecordBatch", "Taken"]

FUTURE = "future timestamp"
NO_TIME = REASONS.index(MISSING)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far ingest is in one raw partition: all it must remember between batches."""

    next_offset: int = 0
    watermark_ms: int = NEVER_MS


@dataclass(frozen=True, slots=True)
class Taken:
    """What a batch became.  ``streams``: rows with all ROW_COLUMNS but SOURCE, in log order."""

    streams: Mapping[str, pl.DataFrame]
    dead_letters: Sequence[DeadLetter]
    counts: Counts
    mark: SourceMark
    progress: Progress


class Ingest:
    """All sources of a pipeline."""

    def __init__(self, plan: Plan) -> None:
        """Prepare a decoder per raw topic."""
        self._sources = {source.topic: _Source(source) for source in plan.sources}

    def take(self, batch: RecordBatch, progress: Progress) -> Taken:
        """Turn the next records of a raw partition into rows, dead letters and time.

        Raises:
            StateError: the batch does not begin where ``progress`` ended.
        """
        _require_order(batch, progress)
        return self._sources[batch.topic].take(batch, progress)


def _require_order(batch: RecordBatch, progress: Progress) -> None:
    offsets = np.concatenate(([progress.next_offset - 1], batch.offsets, [batch.next_offset]))
    if (np.diff(offsets[:-1]) <= 0).any() or offsets[-1] <= offsets[-2]:
        raise StateError(
            f"{batch.source}: records at {batch.offsets[:3]}... up to {batch.next_offset} do not"
            f" follow offset {progress.next_offset}"
        )


@dataclass
class _Fates:
    """Which records died, and why: the first reason counts."""

    dead: dict[int, tuple[str, str]] = field(default_factory=dict)

    def add(self, index: int, stage: str, reason: str) -> None:
        self.dead.setdefault(index, (stage, reason))

    def letters(self, batch: RecordBatch) -> list[DeadLetter]:
        return [
            DeadLetter(
                reason=reason,
                stage=stage,
                topic=batch.topic,
                partition=batch.partition,
                offset=int(batch.offsets[index]),
                timestamp_ms=int(batch.timestamps[index]),
                key=batch.keys[index],
                value=batch.values[index],
            )
            for index, (stage, reason) in sorted(self.dead.items())
        ]


@dataclass(frozen=True, slots=True)
class _Timed:
    """Time of each record of a batch: ``moves`` are those with an event time, not quarantined."""

    ms: Times
    moves: Mask
    watermarks: Times  # before each record
    largest_ms: int  # after all


class _Source:
    """One raw topic: its decoder, its time and its operators."""

    def __init__(self, plan: SourcePlan) -> None:
        self._plan = plan
        time = plan.event_time
        self._time_column = time.column if isinstance(time, ColumnTime) else None
        self._records = JsonRecords(plan.schema, self._time_column)

    def take(self, batch: RecordBatch, progress: Progress) -> Taken:
        fates = _Fates()
        parsed = self._records.parse(batch.values)
        for dead in parsed.dead:
            fates.add(dead.index, "parse", dead.reason)
        timed = self._timed(batch, parsed, progress, fates)
        good, rows = _timely(batch, parsed, timed)
        good, rows = with_metadata(self._plan.graph.metadata, good, rows, batch, fates.add)
        evaluated = self._plan.graph.evaluate(rows)
        for record, operator, reason in evaluated.dead.iter_rows():
            fates.add(int(good[record]), operator, reason)
        watermark_ms = self._plan.watermark.watermark_ms(timed.largest_ms)
        return Taken(
            streams=evaluated.streams,
            dead_letters=fates.letters(batch),
            counts=Counts(
                records=len(batch),
                passed=int(evaluated.passed.sum()),
                filtered=evaluated.filtered,
                dead=len(fates.dead),
                blank=len(parsed.blank),
            ),
            mark=SourceMark(
                source=batch.source,
                first_offset=progress.next_offset,
                next_offset=batch.next_offset,
                watermark_before_ms=progress.watermark_ms,
                watermark_ms=watermark_ms,
            ),
            progress=Progress(batch.next_offset, watermark_ms),
        )

    def _timed(
        self, batch: RecordBatch, parsed: Parsed, progress: Progress, fates: _Fates
    ) -> _Timed:
        largest_ms = self._plan.watermark.largest_ms(progress.watermark_ms)
        times = self._times(batch, parsed, largest_ms)
        moves = times.known
        if self._time_column is not None and self._plan.max_future_ms is not None:
            stamps = batch.timestamp_column()
            ahead = future(times.ms, times.known, stamps, largest_ms, self._plan.max_future_ms)
            moves = moves & ~ahead
        for index in parsed.good[~moves[parsed.good]].tolist():
            reason = REASONS[times.reason[index]]
            what = f"event time {self._time_column}" if self._time_column else "event time"
            fates.add(index, "event time", f"{what}: {reason}" if reason else FUTURE)
        watermarks, largest_ms = self._plan.watermark.before(times.ms, moves, largest_ms)
        return _Timed(times.ms, moves, watermarks, largest_ms)

    def _times(self, batch: RecordBatch, parsed: Parsed, largest_ms: int) -> EventTimes:
        """Return the event time of every record; blank ones have none."""
        spec = self._plan.event_time
        if isinstance(spec, ColumnTime):
            return self._column_times(spec, parsed, len(batch))
        if isinstance(spec, RecordTime):
            times = record_times(batch.timestamp_column())
        else:
            now_ms = max(batch.received_at_ms, largest_ms)
            times = record_times(np.full(len(batch), now_ms, np.int64))
        times.reason[list(parsed.blank)] = NO_TIME
        return times

    def _column_times(self, spec: ColumnTime, parsed: Parsed, height: int) -> EventTimes:
        column = parsed.columns[spec.column]
        times = column_times(spec, column)
        if len(parsed.good) == height:
            return times
        ms, reason = np.zeros(height, np.int64), np.full(height, NO_TIME, np.uint8)
        ms[parsed.good], reason[parsed.good] = times.ms, times.reason
        rest = [dead for dead in parsed.dead if dead.time is not None]
        others = column_times(spec, pl.Series([dead.time for dead in rest], dtype=column.dtype))
        at = np.array([dead.index for dead in rest], np.intp)
        ms[at], reason[at] = others.ms, others.reason
        return EventTimes(ms, reason)


def _timely(batch: RecordBatch, parsed: Parsed, timed: _Timed) -> tuple[Indices, pl.DataFrame]:
    """Return the good records that have time, by index and as rows."""
    fits = timed.moves[parsed.good]
    good = parsed.good[fits]
    lead = {
        OFFSET: batch.offsets[good],
        EVENT_TIME: timed.ms[good],
        WATERMARK: timed.watermarks[good],
    }
    columns = parsed.columns if fits.all() else parsed.columns.filter(pl.Series(fits))
    return good, pl.DataFrame(lead).hstack(columns)
