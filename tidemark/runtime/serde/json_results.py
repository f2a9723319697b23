"""Panes and late rows as JSON messages: one record a pane, readable by any consumer.

Columns become text as a whole, never value by value.  Floats are written so that they read back to
the same bits, integers in full however large; NaN and infinity, which JSON lacks, are null.
"""

import io
from collections.abc import Sequence

import msgspec
import polars as pl

from tidemark.core.pane import END, RETRACTED, START
from tidemark.core.segment import EVENT_TIME, OFFSET, SOURCE, SUB_ROW, WATERMARK

END_OF_INPUT = "end_of_input"
LATE_BY = "late_by_ms"

Messages = tuple[list[bytes], list[bytes]]
"""Keys and values."""


class JsonResults:
    """Encodes what one operator publishes."""

    def __init__(self, key: Sequence[str], values: Sequence[str], columns: Sequence[str]) -> None:
        """``values``: names of the aggregates; ``columns``: of the stream's value columns."""
        self._key = list(key)
        self._values = list(values)
        self._columns = list(columns)

    def panes(self, panes: pl.DataFrame) -> Messages:
        """Return panes as messages, in order."""
        retracted = panes[RETRACTED]
        if not retracted.any():
            return self._pane_keys(panes), json_lines(panes.drop(RETRACTED))
        lines = iter(json_lines(panes.filter(~retracted).drop(RETRACTED)))
        withdrawals = iter(json_lines(panes.filter(retracted).drop(self._values)))
        values = [next(withdrawals if gone else lines) for gone in retracted]
        return self._pane_keys(panes), values

    def _pane_keys(self, panes: pl.DataFrame) -> list[bytes]:
        return json_arrays(panes.select(*self._key, START))

    def late(self, late: pl.DataFrame) -> Messages:
        """Return late rows as messages, in order."""
        shown = late_columns(late).with_columns(late.select(self._columns).to_struct("row"))
        return json_arrays(late.select(self._key)), json_lines(shown)


def late_columns(late: pl.DataFrame) -> pl.DataFrame:
    """Return what every late row tells, named as ``schemas/late_row.avsc`` does."""
    source = pl.col(SOURCE).cast(pl.String)
    return late.select(
        pl.lit("late").alias("reason"),
        START,
        END,
        LATE_BY,
        pl.col(WATERMARK).alias("own_watermark_ms"),
        pl.col(EVENT_TIME).alias("event_time_ms"),
        source.str.extract("^(.*)/").alias("topic"),
        source.str.extract("([0-9]+)$").cast(pl.Int32).alias("partition"),
        pl.col(OFFSET).alias("offset"),
        pl.col(SUB_ROW).alias("sub_row"),
    )


def json_lines(rows: pl.DataFrame) -> list[bytes]:
    """Return each row as a JSON object."""
    buffer = io.BytesIO()
    rows.write_ndjson(buffer)
    # Not splitlines: text may hold other line ends, and JSON escapes only this one.
    return buffer.getvalue().split(b"\n")[:-1]


def json_arrays(rows: pl.DataFrame) -> list[bytes]:
    """Return each row as a JSON array."""
    encode = msgspec.json.Encoder().encode
    return list(map(encode, zip(*(column.to_list() for column in rows), strict=True)))
