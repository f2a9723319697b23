"""Runs ingest again on Spark: raw topics in, the segments of the log out, with the live cuts.

The envelopes of the log hold what raw topics lack: the offsets of each source in each commit, and
the silence of sources.  So each log partition is built again from three inputs: its envelopes, the
raw records between their offsets, and the program, which may have changed.

1. One task reads envelopes and routes a row per mark to the mark's source.  Another task packs raw
   records into blocks of a few thousand.  Spark gathers both in one task per source, sorted by
   offset.
2. That task runs ingest over the records, cut where any mark begins or ends.  For every mark it
   yields the rows of the mark's log partition.
3. Spark gathers these rows and the envelopes in one task per log partition, in the order of the
   segments.  That task builds the segments.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

from tidemark.core.rows.copies import in_parts
from tidemark.core.rows.keys import partitions_of_source
from tidemark.core.time.segment import NEVER_MS, ROW_COLUMNS, SOURCE, TIE, SourceMark
from tidemark.errors import StateError
from tidemark.ingest.ingest import Ingest, IngestOutput, Progress
from tidemark.ingest.segment_builder import Collected
from tidemark.partition import Partition
from tidemark.plan.physical import LogPlan, Plan, StreamPlan
from tidemark.runtime.client.schema_registry import writer_schemas
from tidemark.runtime.config import Config
from tidemark.serde.frames import encode_frame
from tidemark.spark.read.envelopes import BODY, ReplayedRange, RoutedRow, routed_batch
from tidemark.spark.read.segment_rows import Batches, row_tuples
from tidemark.spark.read.source import RAW, record_batch

_BLOCK_RECORDS, _BLOCK_BYTES = 4096, 4 * 2**20


@dataclass(frozen=True)
class RecordPacker:
    """Packs the records of raw partitions into blocks; they arrive in the order of their offsets.

    The batches it takes have the columns of ``raw_records``, the ones it returns ``ROUTED_ROWS``.
    """

    sources: Sequence[Partition]

    def __call__(self, batches: Batches) -> Batches:
        """Yield a batch of one row per block: an Arrow stream of its records."""
        places = {source: place for place, source in enumerate(self.sources)}
        held: list[pa.RecordBatch] = []
        source: Partition | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            of = Partition(batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py())
            if held and (of != source or _is_block(held)):
                yield self._block(places, source, held)
                held = []
            source = of
            held.append(batch.select(RAW))
        if held:
            yield self._block(places, source, held)

    def _block(
        self, places: dict[Partition, int], source: Partition | None, held: list[pa.RecordBatch]
    ) -> pa.RecordBatch:
        assert source is not None
        table = pa.Table.from_batches(held).combine_chunks()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        data = sink.getvalue().to_pybytes()
        first = table.column("offset")[0].as_py()
        return routed_batch([(places[source], first, BODY, 0, 0, 0, data)])


def _is_block(held: Sequence[pa.RecordBatch]) -> bool:
    rows, size = sum(b.num_rows for b in held), sum(int(b.nbytes) for b in held)
    return rows >= _BLOCK_RECORDS or size >= _BLOCK_BYTES


@dataclass
class _Open:
    """A mark whose offset range is being read."""

    mark: SourceMark
    place: tuple[int, int, int]  # log, log offset, index
    before_ms: int
    frames: dict[str, list[pl.DataFrame]] = field(default_factory=dict)

    def closed(self, watermark_ms: int) -> RoutedRow:
        """Return the replayed range as a row; ``watermark_ms``: the watermark at its end."""
        log, log_offset, index = self.place
        streams = {name: encode_frame(pl.concat(each)) for name, each in self.frames.items()}
        data = msgspec.msgpack.encode(ReplayedRange(self.before_ms, watermark_ms, streams))
        return log, log_offset, BODY, index, log, log_offset, data


@dataclass(frozen=True)
class IngestReplayer:
    """Runs ingest over sources; ``begins`` and ``ends``: the offset range of each raw partition.

    The batches it takes and returns have the columns of ``ROUTED_ROWS``.
    """

    plan: Plan
    config: Config
    sources: Sequence[Partition]
    logs: Sequence[Partition]
    begins: Sequence[int]
    ends: Sequence[int]

    def __call__(self, batches: Batches) -> Batches:
        """Yield batches with a row per mark: its ``ReplayedRange``.

        Raises:
            StateError: raw records of a mark's range do not exist.
        """
        source: _Source | None = None
        for row in row_tuples(batches):
            if source is None or source.place != row[0]:
                if source is not None:
                    yield from source.finish()
                source = _Source(self, row[0])
            yield from source.take(row)
        if source is not None:
            yield from source.finish()


class _Source:
    """One source: its pending records, and the marks whose ranges are being read.

    Records below ``_position`` have been through ingest.  A mark arrives before the records of its
    range.
    """

    def __init__(self, job: IngestReplayer, place: int) -> None:
        self.place = place
        self._at = job.sources[place]
        self._begin, self._end = job.begins[place], job.ends[place]
        self._logs = job.logs
        self._plans = {log.topic: log for log in job.plan.logs}
        self._ingest = Ingest(job.plan, writer_schemas(job.config, job.plan))
        self._loads = job.plan.source_of(self._at.topic).loads
        self._progress = Progress()
        self._position: int | None = None
        self._open: list[_Open] = []
        self._pending: list[pa.Table] = []

    def take(self, row: RoutedRow) -> Iterator[pa.RecordBatch]:
        """Take a mark or a block, in the order of their offsets; yield the ranges that end."""
        _, at, kind, index, log, log_offset, data = row
        yield from self._advance(at)
        if kind == BODY:
            self._pending.append(pa.ipc.open_stream(data).read_all())
            return
        mark = msgspec.msgpack.decode(data, type=SourceMark)
        if mark.next_offset > mark.first_offset and mark.first_offset < self._begin:
            raise StateError(
                f"{self._at}: offset {mark.first_offset} is gone, the topic begins at "
                f"{self._begin}: records were deleted, so ingest cannot run again"
            )
        self._open.append(_Open(mark, (log, log_offset, index), self._shown_ms(mark)))
        yield from self._closed()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Run ingest to the end of the open marks; yield their ranges."""
        to = max((each.mark.next_offset for each in self._open), default=0)
        if to > self._end:
            raise StateError(
                f"{self._at}: the log has records up to offset {to}, the topic ends at {self._end}"
            )
        yield from self._advance(to)

    def _advance(self, to: int) -> Iterator[pa.RecordBatch]:
        if self._position is None:
            self._position = to
        while self._position < to:
            cut = min([to, *(each.mark.next_offset for each in self._open)])
            self._run(cut)
            self._position = cut
            yield from self._closed()

    def _closed(self) -> Iterator[pa.RecordBatch]:
        position = self._position or 0
        ended = [each for each in self._open if each.mark.next_offset <= position]
        if ended:
            self._open = [each for each in self._open if each.mark.next_offset > position]
            yield routed_batch([each.closed(self._shown_ms(each.mark)) for each in ended])

    def _shown_ms(self, mark: SourceMark) -> int:
        """Return the watermark that ingest shows of the source within the range of a mark."""
        return replace(self._progress, loading=self._is_loading(mark)).shown_ms

    def _is_loading(self, mark: SourceMark) -> bool:
        """Whether the records of a range were loaded: a table reads them, without a watermark."""
        return self._loads and mark.watermark_ms == NEVER_MS

    def _run(self, cut: int) -> None:
        """Run ingest over the pending records below an offset, if they are in a mark's range."""
        loading = any(self._is_loading(each.mark) for each in self._open)
        progress = replace(self._progress, next_offset=self._position or 0, loading=loading)
        for records in self._cut(cut):
            if self._open:
                output = self._ingest.take(record_batch(self._at, records, NEVER_MS), progress)
                progress = output.progress
                self._add_rows(output)
        self._progress = progress

    def _cut(self, cut: int) -> list[pa.Table]:
        """Remove and return the pending records below an offset."""
        taken, left = [], []
        for table in self._pending:
            count = int(np.searchsorted(table.column("offset").to_numpy(), cut))
            if count:
                taken.append(table.slice(0, count))
            if count < table.num_rows:
                left.append(table.slice(count))
        self._pending = left
        return taken

    def _add_rows(self, output: IngestOutput) -> None:
        """Add to every open mark the rows of its log partition."""
        split: dict[str, list[dict[str, pl.DataFrame]]] = {}
        for each in self._open:
            log = self._logs[each.place[0]]
            if log.topic not in split:
                split[log.topic] = _by_partition(output, self._plans[log.topic])
            for name, rows in split[log.topic][log.number].items():
                each.frames.setdefault(name, []).append(rows)


def _by_partition(output: IngestOutput, log: LogPlan) -> list[dict[str, pl.DataFrame]]:
    """Split the rows of streams by log partition; return a frame per stream for each."""
    split: list[dict[str, pl.DataFrame]] = [{} for _ in range(log.partitions)]
    for stream in log.streams:
        for number, rows in rows_by_partition(output, stream, log.partitions):
            split[number][stream.name] = rows
    return split


def rows_by_partition(
    output: Collected, stream: StreamPlan, partitions: int
) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield the rows of a stream in an output for each partition of its log that gets rows."""
    rows = output.streams.get(stream.name)
    if rows is None or rows.is_empty():
        return
    if TIE in stream.columns and TIE not in rows.columns:  # the stream has results of stages, too
        rows = rows.with_columns(pl.lit(None, pl.Int64).alias(TIE))
    rows = rows.select(*(name for name in ROW_COLUMNS if name != SOURCE), *stream.columns)
    if stream.is_broadcast:
        yield from enumerate(in_parts(rows, partitions))
        return
    numbers = partitions_of_source(rows, stream.key, partitions, output.mark.source)
    for number in np.unique(numbers).tolist():
        yield number, rows.filter(pl.Series(numbers == number))
