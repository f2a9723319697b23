"""The rows of a run: those of logs as oracles take them, those of outputs, and what differs."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from tests.chaos.judging.chains import Log
from tests.chaos.pipelines import END
from tests.chaos.recorded import Recorded
from tests.oracles.clock import Judged, RowId
from tidemark.core.rows.copies import own_rows
from tidemark.core.time.segment import EVENT_TIME, OFFSET, SOURCE, SUB_ROW, WATERMARK
from tidemark.plan.physical import OperatorPlan, PortPlan
from tidemark.runtime.keyed.encoders import encoder_of
from tidemark.testing.in_process import decoded

_COLUMNS = (OFFSET, SUB_ROW, EVENT_TIME, WATERMARK, "key", "value")


def rows_of_input(plan: OperatorPlan, name: str, log: Log) -> list[Judged]:
    """Return the rows of an input with one stream, without copies and the rows of END."""
    (stream,) = (
        stream for each in plan.operator.inputs if each.name == name for stream in each.streams
    )
    return [
        Judged(segment.sources[row[0]].source, *row[1:])
        for segments in log.values()
        for segment in segments
        if stream in segment.streams
        for row in own_rows(segment.streams[stream])
        .filter(pl.col("key") != END)
        .select(SOURCE, *_COLUMNS)
        .iter_rows()
    ]


def rows_published(port: PortPlan, recorded: Recorded) -> list[dict[str, Any]]:
    """Return the rows of the topic of a port, decoded."""
    return decoded(encoder_of(port), recorded.values(port.topic))


def published_id(row: Mapping[str, Any]) -> RowId:
    """Return the raw identity of a row as results show it."""
    return f"{row['topic']}/{row['partition']}", row["offset"], row["sub_row"]


def differing(name: str, got: Counter[Any], wanted: Counter[Any]) -> Iterator[str]:
    """Yield what a topic lacks, and what it must not have."""
    for what, differ in (("lacks", wanted - got), ("must not have", got - wanted)):
        if differ:
            first = min(differ, key=repr)
            yield f"{name}: {differ.total()} of {wanted.total()} differ; it {what} {first}"
