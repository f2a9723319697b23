"""Panes and late rows as JSON messages: one record a pane, readable by any consumer.

Columns become text as a whole, never value by value.  Floats are written so that they read back to
the same bits, integers in full however large; NaN and infinity, which JSON lacks, are null.
"""

from collections.abc import Sequence

import msgspec
import polars as pl

from tidemark.core.operators.operator import LATE_BY
from tidemark.core.state.blocks import in_one_chunk
from tidemark.core.time.segment import EVENT_TIME, OFFSET, SOURCE, SUB_ROW, WATERMARK
from tidemark.core.windows.pane import END, RETRACTED, START, identity

# What JSON escapes in texts.
_ESCAPED = r'["\\\x00-\x1f]'

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
            shown = [column for column in panes if column.name != RETRACTED]
            return self._pane_keys(panes), json_lines(pl.DataFrame(shown))
        lines = iter(json_lines(panes.filter(~retracted).drop(RETRACTED)))
        withdrawals = iter(json_lines(panes.filter(retracted).drop(self._values)))
        values = [next(withdrawals if gone else lines) for gone in retracted]
        return self._pane_keys(panes), values

    def _pane_keys(self, panes: pl.DataFrame) -> list[bytes]:
        return json_arrays(panes[[*self._key, identity(panes.columns)]])

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
    lines = rows.select(pl.struct(pl.all()).struct.json_encode().cast(pl.Binary))
    return lines.to_series().to_list()


def json_arrays(rows: pl.DataFrame) -> list[bytes]:
    """Return each row as a JSON array."""
    if _is_plain(rows):
        return _plain_arrays(rows)
    encode = msgspec.json.Encoder().encode
    return list(map(encode, zip(*(column.to_list() for column in rows), strict=True)))


def _is_plain(rows: pl.DataFrame) -> bool:
    """Say whether the values are their own JSON, but for the quotes around texts."""
    for column in rows:
        if column.dtype != pl.String and not column.dtype.is_integer():
            return False
        if column.null_count() or (
            column.dtype == pl.String and column.str.contains(_ESCAPED).any()
        ):
            return False
    return True


def _plain_arrays(rows: pl.DataFrame) -> list[bytes]:
    """Write keys as most are, short texts and integers, in half the time.

    In one chunk: polars' format() panics at some frames in several, as [0, 2] rows.
    """
    quotes = {name: '"' if dtype == pl.String else "" for name, dtype in rows.schema.items()}
    pattern = ",".join(f"{quote}{{}}{quote}" for quote in quotes.values())
    arrays = in_one_chunk(rows).select(pl.format(f"[{pattern}]", *quotes).cast(pl.Binary))
    return arrays.to_series().to_list()
