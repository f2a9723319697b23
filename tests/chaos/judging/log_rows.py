"""The rows of an input of an operator in a recorded log, as oracles take them."""

import polars as pl

from tests.chaos.judging.chains import Log
from tests.chaos.pipelines import END
from tests.oracles.clock import Judged
from tidemark.core.rows.copies import own_rows
from tidemark.core.time.segment import EVENT_TIME, OFFSET, SOURCE, SUB_ROW, WATERMARK
from tidemark.plan.physical import OperatorPlan

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
