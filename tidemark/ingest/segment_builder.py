"""Build the segments of one ingest commit: for each log partition the rows of its keys, all marks.

Every log partition gets the marks of all sources of the log, so each reader has the whole clock.
The rows of a broadcast stream go to every partition, too.  A segment too large for a message is
split between two records (Segment.split), which changes nothing downstream.  A single record larger
than that stays whole.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import polars as pl

from tidemark.core.rows.copies import COPY, in_parts
from tidemark.core.rows.keys import partitions_of
from tidemark.core.state.blocks import in_one_chunk, lines_at
from tidemark.core.time.segment import ROW_COLUMNS, SOURCE, TIE, Segment, SourceMark
from tidemark.plan.physical import LogPlan, StreamPlan

EPOCH = 0
"""The epoch of all logs so far."""

MAX_BYTES = 4 * 2**20
"""Maximum size of a segment, uncompressed; topics of logs accept messages four times as large."""


class Collected(Protocol):
    """Rows of keyed streams with the mark of their source: from ingest, or from an operator."""

    @property
    def streams(self) -> Mapping[str, pl.DataFrame]:
        """Rows by stream, with all ROW_COLUMNS except SOURCE."""

    @property
    def mark(self) -> SourceMark:
        """The mark of the range that the rows come from."""


class SegmentBuilder:
    """Collects the output of ingest since the last commit, and builds its segments."""

    def __init__(self, epoch: int, max_bytes: int = MAX_BYTES) -> None:
        """Start empty; ``epoch``: of the log."""
        self._epoch = epoch
        self._max_bytes = max_bytes
        self._outputs: dict[str, list[Collected]] = {}
        self.size_bytes = 0
        """The approximate size of all rows collected."""

    @property
    def is_empty(self) -> bool:
        """Whether no batch was added since the last commit."""
        return not self._outputs

    def add(self, output: Collected) -> None:
        """Add the output of a batch; batches of one source must come in order."""
        batches = self._outputs.setdefault(output.mark.source, [])
        if batches:
            ended, begins = batches[-1].mark.next_offset, output.mark.first_offset
            assert ended == begins, f"{output.mark.source}: batch from {begins} after {ended}"
        batches.append(output)
        self.size_bytes += sum(int(rows.estimated_size()) for rows in output.streams.values())

    def clear(self) -> None:
        """Drop all batches, after all logs are built and committed."""
        self._outputs.clear()
        self.size_bytes = 0

    def build(
        self,
        log: LogPlan,
        now_ms: int,
        partitions: Mapping[str, int],
        marks: Iterable[SourceMark] = (),
        without: Collection[str] = (),
    ) -> list[list[Segment]]:
        """Return the segments of each partition of a log, in the order to write them.

        ``partitions``: the number of partitions of each raw topic that is there now.  ``marks``:
        marks of sources in addition to those of batches, about idleness or presence.  ``without``:
        sources to leave out.  Without any mark each list is empty.
        """
        sources = [mark for mark in self._marks(log, marks) if mark.source not in without]
        if not sources:
            return [[] for _ in range(log.partitions)]
        whole = Segment(
            epoch=self._epoch,
            part=0,
            sources=tuple(sources),
            partitions={
                topic: count for topic, count in sorted(partitions.items()) if log.reads(topic)
            },
            ingested_at_ms=now_ms,
            streams={},
        )
        frames = {
            stream.name: self._split(stream, log.partitions, sources) for stream in log.streams
        }
        return [
            sized(replace(whole, streams=_filled(frames, partition)), self._max_bytes)
            for partition in range(log.partitions)
        ]

    def _marks(self, log: LogPlan, marks: Iterable[SourceMark]) -> list[SourceMark]:
        """Return one mark per source that has one, sorted by source."""
        of_source = {source: _joined(batches) for source, batches in self._outputs.items()}
        for mark in marks:
            read = of_source.get(mark.source)
            of_source[mark.source] = (
                mark if read is None else replace(read, idle=mark.idle, silence_ms=mark.silence_ms)
            )
        mine = [mark for mark in of_source.values() if log.reads(mark.topic)]
        return sorted(mine, key=lambda mark: (mark.topic, int(mark.source.rpartition("/")[2])))

    def _split(
        self, stream: StreamPlan, partitions: int, marks: Sequence[SourceMark]
    ) -> list[pl.DataFrame]:
        """Return a stream's rows by log partition, in log order; copies go to every partition."""
        frames = [
            _marked(output.streams[stream.name], index, stream)
            for index, mark in enumerate(marks)
            for output in self._outputs.get(mark.source, ())
            if stream.name in output.streams
        ]
        if not frames:
            return [pl.DataFrame()] * partitions
        rows = in_one_chunk(pl.concat(frames)[[*ROW_COLUMNS, *stream.columns]])
        if COPY in stream.columns:
            return in_parts(rows, partitions)
        names = [mark.source for mark in marks]
        numbers = partitions_of(rows, stream.key, partitions, names)
        rows = lines_at(rows, np.argsort(numbers, kind="stable"))
        ends = np.bincount(numbers, minlength=partitions).cumsum().tolist()
        return [rows[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def _marked(rows: pl.DataFrame, source: int, stream: StreamPlan) -> pl.DataFrame:
    """Return rows with SOURCE, the position of their source among the marks; raw ones with TIE."""
    added = [pl.Series(SOURCE, np.full(rows.height, source, np.uint16))]
    if TIE in stream.columns and TIE not in rows.columns:
        added.append(pl.repeat(None, rows.height, dtype=pl.Int64, eager=True).alias(TIE))
    return rows.hstack(added)


def _joined(batches: Sequence[Collected]) -> SourceMark:
    first, last = batches[0].mark, batches[-1].mark
    return replace(
        last, first_offset=first.first_offset, watermark_before_ms=first.watermark_before_ms
    )


def _filled(
    frames: Mapping[str, Sequence[pl.DataFrame]], partition: int
) -> dict[str, pl.DataFrame]:
    rows = {name: split[partition] for name, split in frames.items()}
    return {name: frame for name, frame in rows.items() if frame.height}


def sized(segment: Segment, max_bytes: int) -> list[Segment]:
    """Return a segment split until each part fits, with the parts numbered."""
    fitting: list[Segment] = []
    waiting = [segment]
    while waiting:
        part = waiting.pop()
        halves = _halves(part) if _size(part) > max_bytes else (part,)
        if len(halves) > 1:
            waiting += reversed(halves)
        else:
            fitting.append(part)
    return [replace(part, part=number) for number, part in enumerate(fitting)]


def _size(segment: Segment) -> int:
    return sum(int(frame.estimated_size()) for frame in segment.streams.values())


def _halves(segment: Segment) -> Sequence[Segment]:
    halves = segment.split(segment.height // 2)
    return halves if len(halves) > 1 else segment.split(1)
