"""Rows of ports as JSON messages, one record per row.

See docs/schemas.md.
"""

import polars as pl

from tidemark.core.operators.ports import Port
from tidemark.core.windows.pane import RETRACTED
from tidemark.serde.avro import AvroType
from tidemark.serde.binary_column import BinaryColumn
from tidemark.serde.json_rows import json_arrays, json_objects

Messages = tuple[BinaryColumn[bytes], BinaryColumn[bytes]]
"""Keys and values."""


class JsonEncoder:
    """Encodes the rows of one port as JSON."""

    avro: AvroType | None = None

    def __init__(self, port: Port) -> None:
        """``port``: the port of the rows to encode."""
        self._port = port

    def encode(self, rows: pl.DataFrame) -> Messages:
        """Return an operator's rows as keys and values, in the same order.

        A withdrawal has no values.  RETRACTED is only written if it is true.
        """
        port = self._port
        keys = json_arrays(rows.select(port.message_key))
        published = port.published(rows)
        if not port.withdraws:
            return keys, json_objects(published)
        retracted = published[RETRACTED]
        if not retracted.any():
            return keys, json_objects(published.drop(RETRACTED))
        lines = json_objects(published.filter(~retracted).drop(RETRACTED))
        withdrawals = json_objects(published.filter(retracted).drop(port.values))
        return keys, lines.merged(withdrawals, retracted.to_numpy())
