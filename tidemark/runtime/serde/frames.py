"""Columns as bytes: an Arrow IPC stream in the oldest layout, which every Arrow reader knows."""

import io
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from tidemark.errors import StateError

_LAYOUT = pl.CompatLevel.oldest()


def encode_frame(frame: pl.DataFrame) -> bytes:
    """Return a frame as an Arrow IPC stream."""
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer, compression="uncompressed", compat_level=_LAYOUT)
    return buffer.getvalue()


def decode_frame(data: bytes, what: str) -> pl.DataFrame:
    """Read an Arrow IPC stream; ``what`` names it in the error.

    Raises:
        StateError: the bytes are no such stream.
    """
    try:
        return pl.read_ipc_stream(io.BytesIO(data))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise StateError(f"{what}: damaged columns of {len(data)} bytes: {error}") from error


def encode_tables(tables: Mapping[str, pl.DataFrame]) -> list[dict[str, Any]]:
    """Return named frames as the Avro contracts hold them."""
    return [{"name": name, "rows": encode_frame(frame)} for name, frame in tables.items()]


def decode_tables(
    tables: Iterable[dict[str, Any]], what: str, wanted: frozenset[str] | None = None
) -> dict[str, pl.DataFrame]:
    """Read named frames, of ``wanted`` names only if given."""
    return {
        table["name"]: decode_frame(table["rows"], f"{what}, {table['name']!r}")
        for table in tables
        if wanted is None or table["name"] in wanted
    }
