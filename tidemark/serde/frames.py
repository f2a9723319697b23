"""Frames as bytes: an Arrow IPC stream in the oldest layout, which every Arrow reader supports."""

import io
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl
import pyarrow as pa

from tidemark.errors import StateError

_LAYOUT = pl.CompatLevel.oldest()

# Frames with other types are written by polars: PyArrow has no integers of 128 bits, and writes an
# Enum as text.
_PLAIN: frozenset[type[pl.DataType]] = frozenset(
    {
        *(pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64),
        *(pl.Float32, pl.Float64, pl.Boolean, pl.String, pl.Binary),
        *(pl.Date, pl.Datetime, pl.Duration, pl.Time),
    }
)


def encode_frame(frame: pl.DataFrame) -> bytes:
    """Return a frame as an Arrow IPC stream.

    PyArrow writes all types that it can.  polars uses its thread pool, which takes ten times as
    long for twenty thousand rows.
    """
    if not _PLAIN.issuperset(map(type, frame.dtypes)):
        return _by_polars(frame)
    columns = [column.to_arrow(compat_level=_LAYOUT) for column in frame]
    batch = pa.RecordBatch.from_arrays(columns, names=frame.columns)
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, batch.schema) as writer:
        writer.write_batch(batch)
    written: bytes = stream.getvalue().to_pybytes()
    return written


def _by_polars(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer, compression="uncompressed", compat_level=_LAYOUT)
    return buffer.getvalue()


def decode_frame(data: bytes, what: str) -> pl.DataFrame:
    """Return the frame in an Arrow IPC stream; ``what`` names it in the error.

    Raises:
        StateError: the bytes are not such a stream.
    """
    try:
        return pl.read_ipc_stream(io.BytesIO(data))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise StateError(f"{what}: damaged columns of {len(data)} bytes: {error}") from error


def encode_tables(tables: Mapping[str, pl.DataFrame]) -> list[dict[str, Any]]:
    """Return named frames in the form of the Avro schemas: ``name`` and ``rows``."""
    return [{"name": name, "rows": encode_frame(frame)} for name, frame in tables.items()]


def decode_tables(
    tables: Iterable[dict[str, Any]], what: str, wanted: frozenset[str] | None = None
) -> dict[str, pl.DataFrame]:
    """Return named frames; only those in ``wanted``, if given.

    Raises:
        StateError: a frame is damaged.
    """
    return {
        table["name"]: decode_frame(table["rows"], f"{what}, {table['name']!r}")
        for table in tables
        if wanted is None or table["name"] in wanted
    }
