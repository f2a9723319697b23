"""Writes logs anew with the rows of stages that ran again: the first part of a hand-over.

A task writes the segments of one log partition behind those that are there, in transactions.  Its
group has the offset up to which the segments are written, so a repeated task, or a repeated
command, writes the rest.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import polars as pl
import pyarrow as pa

from tidemark.core.time.segment import (
    ROW_COLUMNS,
    SOURCE,
    Segment,
    SourceMark,
    is_operator_source,
    is_rows_of_operator,
)
from tidemark.ingest.segment_builder import sized
from tidemark.partition import Partition
from tidemark.runtime.client.transaction import transaction
from tidemark.runtime.config import Config
from tidemark.serde.segments import encode_segment, segment_at
from tidemark.spark.read.segment_rows import Batches, batch_of
from tidemark.spark.stage_tasks import PlacedRow, placed_rows
from tidemark.spark.task_transaction import TaskTransaction

WRITTEN = pa.schema([("place", pa.int32())])
"""A row for each log partition that is written."""


@dataclass(frozen=True)
class LogWriter:
    """Writes the segments of ``logs`` for a run of a hand-over.

    The rows that it takes (``PLACED_ROWS``) are segments of the places of log partitions, in order.
    ``group``: the consumer group of its progress.  ``max_bytes``: the size of the rows of a segment
    that fits into a message.
    """

    config: Config
    group: str
    run: str
    logs: Sequence[Partition]
    max_bytes: int

    def fence(self) -> None:
        """Fence the tasks of an earlier run: what they have not committed never becomes visible."""
        for at in self.logs:
            transaction(self.config, self._id(at))

    def _id(self, at: Partition) -> str:
        return f"{self.group}.{at}"

    def __call__(self, batches: Batches) -> Batches:
        """Yield a row (``WRITTEN``) for each log partition."""
        for place, rows in groupby(placed_rows(batches), key=lambda row: row[0]):
            self._write(self.logs[place], rows)
            yield batch_of([[place]], WRITTEN)

    def _write(self, at: Partition, rows: Iterable[PlacedRow]) -> None:
        task = TaskTransaction(self.config, self.group, self._id(at), at)
        done, end = task.committed(), 0
        begin = done.offset if done.metadata == self.run else 0
        for _, offset, *_, data in rows:
            if offset < begin:
                continue
            if task.output.is_open and (task.is_due or task.output.is_full):
                task.commit(offset, self.run)
            segment = segment_at(at, offset, data)
            values = list(map(encode_segment, written_as(segment, self.max_bytes)))
            task.output.write(at.topic, at.number, [None] * len(values), values)
            end = offset + 1
        if task.output.is_open:
            task.commit(end, self.run)
        task.close()


def written_as(segment: Segment, max_bytes: int) -> Iterator[Segment]:
    """Yield the segments to write for a segment: rows that a mark of a stage closes come first.

    So the rows can be split for their size, and each of them stays before the mark.
    """
    marks = [each for each in segment.sources if _is_of_stage(each)]
    if not marks or not segment.height:
        yield from sized(segment, max_bytes)
        return
    kept = [n for n, each in enumerate(segment.sources) if not _is_of_stage(each)]
    places = pl.Series([kept.index(n) if n in kept else None for n in range(len(segment.sources))])
    streams = {
        name: rows.with_columns(places[rows[SOURCE]].cast(ROW_COLUMNS[SOURCE]).alias(SOURCE))
        for name, rows in segment.streams.items()
    }
    sources = tuple(segment.sources[n] for n in kept)
    yield from sized(replace(segment, sources=sources, streams=streams), max_bytes)
    yield replace(segment, part=0, sources=tuple(marks), streams={})


def _is_of_stage(mark: SourceMark) -> bool:
    return is_operator_source(mark.source) and not is_rows_of_operator(mark.source)
