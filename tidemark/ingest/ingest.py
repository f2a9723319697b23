"""Ingest: raw records of one partition become rows of every keyed stream, or dead letters.

It is pure, and the same for the Kafka service, the in-process runner and Spark.  The steps, in
order:

1. parse: records are rows, dead or blank (serde/parsed_batch.py);
2. event time, quarantine and the watermark before each record (source_time.py);
3. metadata columns, if the pipeline names them (metadata_columns.py);
4. the stateless operators (core/rows/stateless.py);
5. the rows of tombstones, in the streams that tables read (tombstones.py).

A flush record is blank, and moves the watermark in step 2 (docs/semantics.md, "Flush").

The same records in other batches give the same rows, watermarks and dead letters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, OFFSET, WATERMARK, SourceMark
from tidemark.core.time.text_times import Times
from tidemark.errors import StateError
from tidemark.ingest.metadata_columns import with_metadata
from tidemark.ingest.source_time import RecordTimes, SourceTime
from tidemark.ingest.tombstones import Tombstones
from tidemark.plan.physical import Plan, SourcePlan
from tidemark.serde.decoders import record_decoder
from tidemark.serde.formats.avro_values import WriterSchemas
from tidemark.serde.formats.flushes import flushes_of
from tidemark.serde.parsed_batch import Indices, ParsedBatch, has_repeats
from tidemark.serde.records import Counts, DeadLetter, RecordBatch

__all__ = ["Counts", "DeadLetter", "Ingest", "IngestOutput", "Progress", "RecordBatch"]


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of ingest in one raw partition: its whole state between batches.

    ``loading``: the partition of a table is read to its end first (docs/semantics.md, "Loading").
    Until then rows and marks have no watermark, and ``watermark_ms`` grows unseen.
    ``unflushed_ms``: the watermark without flush records; None if these have not moved it.
    """

    next_offset: int = 0
    watermark_ms: int = NEVER_MS
    loading: bool = False
    unflushed_ms: int | None = None

    @property
    def shown_ms(self) -> int:
        """The watermark that marks have."""
        return NEVER_MS if self.loading else self.watermark_ms

    def reached(self, next_offset: int, timed: RecordTimes) -> "Progress":
        """Return the progress after the records up to an offset."""
        before_ms = self.watermark_ms if self.unflushed_ms is None else self.unflushed_ms
        unflushed_ms = max(before_ms, timed.unflushed_ms)
        return Progress(
            next_offset,
            timed.watermark_ms,
            self.loading,
            None if unflushed_ms == timed.watermark_ms else unflushed_ms,
        )

    def idle_mark(self, source: str, silence_ms: int = 0) -> SourceMark:
        """Return the mark that says that the source is silent from here on, or gone."""
        offset, watermark_ms = self.next_offset, self.shown_ms
        return SourceMark(source, offset, offset, watermark_ms, watermark_ms, True, silence_ms)


@dataclass(frozen=True, slots=True)
class IngestOutput:
    """The output of ingest for one batch.

    ``streams``: by name, rows in log order, with all ROW_COLUMNS except SOURCE.  ``mark``: the
    batch's source mark.  ``progress``: after the batch.  ``flushes``: the time of each flush, by
    the offset of its record.
    """

    streams: Mapping[str, pl.DataFrame]
    dead_letters: Sequence[DeadLetter]
    counts: Counts
    mark: SourceMark
    progress: Progress
    flushes: Mapping[int, int] = field(default_factory=dict)


class Ingest:
    """Ingest of all sources of a pipeline."""

    def __init__(self, plan: Plan, writers: WriterSchemas | None = None) -> None:
        """Prepare the decoder of each source; ``writers``: for formats with a registry."""
        self._plan = plan
        self._sources = {
            source.name: _Source(source, plan.pipeline, writers) for source in plan.sources
        }

    def take(self, batch: RecordBatch, progress: Progress) -> IngestOutput:
        """Return the rows, dead letters and time of the next batch of a raw partition.

        ``progress``: after the batch before.

        Raises:
            StateError: the batch does not follow ``progress``.
        """
        _require_order(batch, progress)
        source = self._plan.source_of(batch.topic)
        return self._sources[source.name].take(batch, progress)


def _require_order(batch: RecordBatch, progress: Progress) -> None:
    offsets = np.concatenate(
        ([progress.next_offset - 1], batch.log_offsets, [batch.log_next_offset])
    )
    if (np.diff(offsets[:-1]) <= 0).any() or offsets[-1] <= offsets[-2]:
        raise StateError(
            f"{batch.source}: records at {batch.log_offsets[:3]}... up to "
            f"{batch.log_next_offset} do not follow offset {progress.next_offset}"
        )


@dataclass
class _DeadLetterCollector:
    """Collects dead records with stage and reason; the first reason of a record counts."""

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
    """Ingest of one source: its decoder, its time and its stateless operators."""

    def __init__(self, plan: SourcePlan, pipeline: str, writers: WriterSchemas | None) -> None:
        self._plan, self._pipeline = plan, pipeline
        self._time = SourceTime(plan)
        self._records = record_decoder(plan.format, plan.schema, self._time.columns, writers)
        self._tombstones = Tombstones(plan)

    def take(self, batch: RecordBatch, progress: Progress) -> IngestOutput:
        collector = _DeadLetterCollector()
        parsed = self._records.parse(batch)
        for dead in parsed.dead:
            collector.add(dead.index, "parse", dead.reason)
        before = len(collector.dead)
        flushes, blank = flushes_of(batch, parsed.blank, self._pipeline, collector.add)
        unread = len(collector.dead) - before
        timed = self._time.of(batch, parsed, progress.watermark_ms, collector.add, flushes)
        shown = timed.watermarks
        if progress.loading:
            shown = np.full_like(shown, NEVER_MS)
        records, rows = _timely(batch, parsed, timed, shown)
        reached = progress.reached(batch.log_next_offset, timed)
        metadata = self._plan.graph.metadata
        records, rows = with_metadata(metadata, records, rows, batch, collector.add)
        distinct, numbers = records, None
        if has_repeats(records):
            is_first = np.diff(records, prepend=-1) != 0
            distinct, numbers = records[is_first], is_first.cumsum() - 1
        evaluated = self._plan.graph.evaluate(rows, numbers)
        for record, operator, reason in evaluated.dead.iter_rows():
            collector.add(int(distinct[record]), operator, reason)
        with_deleted = self._tombstones.added(
            evaluated.streams,
            batch,
            blank,
            timed.watermarks,
            shown,
            collector.add,
        )
        ignored = len(parsed.blank) - unread - with_deleted.passed - with_deleted.dead
        return IngestOutput(
            streams=with_deleted.streams,
            dead_letters=collector.letters(batch),
            counts=Counts(
                records=len(batch),
                passed=int(evaluated.passed.sum()) + with_deleted.passed,
                filtered=evaluated.filtered,
                dead=len(collector.dead),
                blank=ignored,
                converted=parsed.converted,
            ),
            mark=SourceMark(
                source=batch.source,
                first_offset=progress.next_offset,
                next_offset=batch.log_next_offset,
                watermark_before_ms=progress.shown_ms,
                watermark_ms=reached.shown_ms,
                idle=self._plan.static is not None and not progress.loading,
            ),
            progress=reached,
            flushes={int(batch.offsets[n]): until_ms for n, until_ms in flushes.items()},
        )


def _timely(
    batch: RecordBatch, parsed: ParsedBatch, timed: RecordTimes, shown: Times
) -> tuple[Indices, pl.DataFrame]:
    """Return the rows of the good records that have event time, with the record of each.

    ``shown``: the watermark that rows of each record have.
    """
    fits = timed.moves[parsed.records]
    records = parsed.records[fits]
    lead = {
        OFFSET: batch.log_offsets[records],
        EVENT_TIME: timed.row_ms[fits],
        WATERMARK: shown[records],
    }
    columns = parsed.columns if fits.all() else parsed.columns.filter(pl.Series(fits))
    return records, pl.DataFrame(lead).hstack(columns)
