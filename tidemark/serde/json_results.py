"""Rows of ports as JSON messages: one record a row, readable by any consumer.

Columns become text as a whole, never value by value.  Floats are written so that they read back to
the same bits, integers in full however large; NaN and infinity, which JSON lacks, are null.
"""

import msgspec
import polars as pl

from tidemark.core.operators.ports import Port
from tidemark.core.state.blocks import in_one_chunk
from tidemark.core.windows.pane import RETRACTED
from tidemark.serde.avro import AvroType

# What JSON escapes in texts.
_ESCAPED = r'["\\\x00-\x1f]'

Messages = tuple[list[bytes], list[bytes]]
"""Keys and values."""


class JsonEncoder:
    """Encodes the rows of one port as JSON."""

    avro: AvroType | None = None

    def __init__(self, port: Port) -> None:
        """``port``: whose rows."""
        self._port = port

    def encode(self, rows: pl.DataFrame) -> Messages:
        """Return an operator's rows as messages, in order.

        A withdrawal has no values.  RETRACTED is written only where it is true.
        """
        port = self._port
        keys = json_arrays(rows.select(port.message_key))
        published = port.published(rows)
        if not port.withdraws:
            return keys, json_lines(published)
        retracted = published[RETRACTED]
        if not retracted.any():
            return keys, json_lines(published.drop(RETRACTED))
        lines = iter(json_lines(published.filter(~retracted).drop(RETRACTED)))
        withdrawals = iter(json_lines(published.filter(retracted).drop(port.values)))
        return keys, [next(withdrawals if gone else lines) for gone in retracted]


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
