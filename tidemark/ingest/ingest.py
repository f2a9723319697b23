"""Ingest: raw records of one partition to the rows of every keyed stream, and to dead letters.

Pure glue, the same for the Kafka service and the in-process runner.  The order of steps:

1. parse: records are good, dead or blank (serde/json_records.py);
2. event time, quarantine and the watermark before each record (source_time.py);
3. metadata columns, where the pipeline looks at them;
4. the stateless operators.

Cutting the same records into other batches gives the same rows, watermarks and dead letters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, OFFSET, WATERMARK, SourceMark
from tidemark.errors import StateError
from tidemark.ingest.metadata_columns import with_metadata
from tidemark.ingest.source_time import RecordTimes, SourceTime
from tidemark.plan.physical import Plan, SourcePlan
from tidemark.serde.json_records import Indices, JsonRecords, ParsedBatch
from tidemark.serde.records import Counts, DeadLetter, RecordBatch

__all__ = ["Counts", "DeadLetter", "Ingest", "Progress", "RecordBatch", "IngestOutput"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far ingest is in one raw partition: all it must remember between batches."""

    next_offset: int = 0
    watermark_ms: int = NEVER_MS


@dataclass(frozen=True, slots=True)
class IngestOutput:
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

    def take(self, batch: RecordBatch, progress: Progress) -> IngestOutput:
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
class _DeadLetterCollector:
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


class _Source:
    """One raw topic: its decoder, its time and its operators."""

    def __init__(self, plan: SourcePlan) -> None:
        self._plan = plan
        self._time = SourceTime(plan)
        self._records = JsonRecords(plan.schema, self._time.columns)

    def take(self, batch: RecordBatch, progress: Progress) -> IngestOutput:
        fates = _DeadLetterCollector()
        parsed = self._records.parse(batch.values)
        for dead in parsed.dead:
            fates.add(dead.index, "parse", dead.reason)
        timed = self._time.of(batch, parsed, progress.watermark_ms, fates.add)
        good, rows = _timely(batch, parsed, timed)
        good, rows = with_metadata(self._plan.graph.metadata, good, rows, batch, fates.add)
        evaluated = self._plan.graph.evaluate(rows)
        for record, operator, reason in evaluated.dead.iter_rows():
            fates.add(int(good[record]), operator, reason)
        return IngestOutput(
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
                watermark_ms=timed.watermark_ms,
            ),
            progress=Progress(batch.next_offset, timed.watermark_ms),
        )


def _timely(
    batch: RecordBatch, parsed: ParsedBatch, timed: RecordTimes
) -> tuple[Indices, pl.DataFrame]:
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
