"""The rows that stages hand on, as messages: those of a replay, and those that the logs hold.

Both sides are compared as multisets: the order of rows of several partitions is not fixed, so the
place of a message is a hash of its value (docs/replay.md, "Diff").
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from tidemark.core.aggregates.stable_hash import stable_hashes
from tidemark.core.operators.ports import shown_key
from tidemark.core.rows.copies import in_parts
from tidemark.core.rows.keys import partitions_of_source
from tidemark.core.time.segment import (
    EVENT_TIME,
    OFFSET,
    SOURCE,
    Segment,
    is_rows_of_operator,
)
from tidemark.ingest.derived import hand_on
from tidemark.partition import Partition
from tidemark.plan.physical import DerivedPlan, LogPlan, Plan, StreamPlan
from tidemark.serde.json_rows import json_arrays, json_objects
from tidemark.serde.segments import segment_at
from tidemark.spark.read.live_position import logs_of_stages
from tidemark.spark.read.segment_rows import Batches, segment_rows

MESSAGES = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("place", pa.int64()),
        ("sure", pa.bool_()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
"""Messages of results or rows, see ``Messages``."""

_END, _STREAM = "end", "@stream"


@dataclass(frozen=True)
class HandsOn:
    """A stage, and a log that it hands rows on to."""

    derived: DerivedPlan
    log: LogPlan

    @property
    def topic(self) -> str:
        """What stands for the topic of the rows."""
        return f"rows of {self.derived.operator} in {self.log.topic}"

    def hands_on(self, operator: str, port: str) -> bool:
        """Whether rows of a port of an operator are handed on."""
        return (self.derived.operator, self.derived.port.name) == (operator, port)

    def messages(
        self, results: pl.DataFrame, partition: int, offsets: npt.NDArray[np.int64], before: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the stage makes of its results as messages.

        ``partition``: of the stage.  ``offsets``: of the segment that published each result.
        Rows of segments below ``before`` must be in the log.
        """
        handed = hand_on(self.derived, results, partition, 0)
        for stream in self.log.streams:
            rows = handed.streams.get(stream.name)
            if rows is not None and rows.height:
                at = offsets[rows[OFFSET].to_numpy()]
                for part, numbers in self._routed(stream, rows, handed.mark.source):
                    yield _batch(self.topic, stream, part, numbers, at, at < before)

    def _routed(
        self, stream: StreamPlan, rows: pl.DataFrame, source: str
    ) -> Iterator[tuple[pl.DataFrame, npt.NDArray[np.integer]]]:
        """Yield rows with their log partitions: all of them, or the copies of each partition."""
        partitions = self.log.partitions
        if not stream.is_broadcast:
            yield rows, partitions_of_source(rows, stream.key, partitions, source)
            return
        for number, part in enumerate(in_parts(rows, partitions)):
            yield part, np.full(part.height, number)


def handovers(plan: Plan) -> tuple[HandsOn, ...]:
    """Return the stages among the operators of a plan, each with a log that an operator reads."""
    return tuple(HandsOn(derived, log) for derived, log in logs_of_stages(plan))


@dataclass(frozen=True)
class RecordedRows:
    """Reads segments of logs in order; returns the rows of stages in them as messages.

    The batches that it takes have the columns ``SEGMENTS``, those that it returns ``MESSAGES``.
    """

    handovers: Sequence[HandsOn]

    def __call__(self, batches: Batches) -> Batches:
        """Yield the messages of each segment."""
        rows = (row for batch in batches for row in segment_rows(batch))
        for log, found in groupby(rows, key=lambda row: row.log):
            reader = _RecordedLog(self.handovers, log)
            for row in found:
                yield from reader.take(row.offset, segment_at(log, row.offset, row.value))


class _RecordedLog:
    """The rows of stages in one log partition; repeated ones are dropped, as operators do."""

    def __init__(self, handovers: Sequence[HandsOn], at: Partition) -> None:
        self._at = at
        mine = (each for each in handovers if each.log.topic == at.topic)
        self._stages = {each.derived.source: each for each in mine}
        self._reached: dict[str, int] = {}

    def take(self, offset: int, segment: Segment) -> Iterator[pa.RecordBatch]:
        for index, mark in enumerate(segment.sources):
            if not is_rows_of_operator(mark.source) or mark.topic not in self._stages:
                continue
            begin = self._reached.get(mark.source, 0)
            self._reached[mark.source] = max(begin, mark.next_offset)
            handover = self._stages[mark.topic]
            for stream in handover.log.streams:
                rows = segment.streams.get(stream.name)
                if rows is None:
                    continue
                rows = rows.filter((pl.col(SOURCE) == index) & (pl.col(OFFSET) >= begin))
                if rows.height:
                    numbers = np.full(rows.height, self._at.number)
                    at = np.full(rows.height, offset)
                    yield _batch(handover.topic, stream, rows, numbers, at, at >= 0)


def _batch(
    topic: str,
    stream: StreamPlan,
    rows: pl.DataFrame,
    partitions: npt.NDArray[np.integer],
    offsets: npt.NDArray[np.int64],
    sure: npt.NDArray[np.bool_],
) -> pa.RecordBatch:
    keys = rows.select(*shown_key(stream.key), (pl.col(EVENT_TIME) + 1).alias(_END))
    columns = [name for name in stream.columns if name in rows.columns]
    values = json_objects(rows.select(pl.lit(stream.name).alias(_STREAM), EVENT_TIME, *columns))
    texts = pl.Series(values.array).cast(pl.String)
    arrays = [
        pa.repeat(pa.scalar(topic), rows.height),
        pa.array(partitions, pa.int32()),
        pa.array(offsets, pa.int64()),
        pa.array(stable_hashes(texts).view(np.int64)),
        pa.array(sure),
        pa.array(json_arrays(keys), pa.binary()),
        pa.array(values, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=MESSAGES)
