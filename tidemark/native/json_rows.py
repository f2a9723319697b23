"""Columns as rows of JSON text, by ``json_rows.c``."""

import ctypes
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

Kind = Literal["number", "text", "json"]

_KINDS: dict[Kind, int] = {"number": 0, "text": 1, "json": 2}
_VIEWS = pl.CompatLevel.newest()
_NUMBER_BYTES, _VIEW_BYTES = 8, 16  # of a value in a column
_DIGITS = 12  # of a usual number
_BLOCK_BYTES = 16  # what the library reads at once
_SLACK_BYTES = 2**16  # so that the last rows surely fit


class Values(NamedTuple):
    """A column of values to write.

    ``kind``: "number" is Int64, "text" is String that becomes a JSON string, "json" is String that
    is JSON already.  Null becomes ``null``.
    """

    kind: Kind
    column: pl.Series


class _Column(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int64),
        ("values", ctypes.c_void_p),
        ("valid", ctypes.c_void_p),
        ("first", ctypes.c_int64),
        ("data", ctypes.c_void_p),
    )


def json_rows(
    library: ctypes.CDLL, pieces: Sequence[str], columns: Sequence[Values]
) -> pa.LargeBinaryArray:
    """Return the text of each row, as UTF-8: values between pieces, which all rows share.

    ``pieces``: one before each column, and one after the last.  ``columns``: at least one, of the
    same length.
    """
    write = library.tidemark_json_rows
    write.restype = ctypes.c_int64
    rows = len(columns[0].column)
    arrays = [_array(values.column) for values in columns]
    data = [_addresses(array) for array in arrays]
    described = (_Column * len(columns))(*map(_described, columns, arrays, data))
    texts = [piece.encode() for piece in pieces]
    ends = np.cumsum([len(text) for text in texts])
    expected_bytes = sum(map(_expected_bytes, columns, arrays))
    out = np.empty(rows * int(ends[-1]) + expected_bytes + _SLACK_BYTES, np.uint8)
    offsets = np.zeros(rows + 1, np.int64)
    done = 0
    while True:
        done = write(
            ctypes.c_int64(rows),
            ctypes.c_int64(done),
            ctypes.c_int64(len(columns)),
            described,
            b"".join(texts) + bytes(_BLOCK_BYTES),
            ctypes.c_void_p(ends.ctypes.data),
            ctypes.c_void_p(out.ctypes.data),
            ctypes.c_int64(out.size),
            ctypes.c_void_p(offsets.ctypes.data),
        )
        if done == rows:
            break
        out.resize(2 * out.size, refcheck=False)
    out.resize(int(offsets[-1]), refcheck=False)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), rows, buffers)


def _array(column: pl.Series) -> pa.Array:
    """Return a column without its name, which may be a text that Arrow cannot take."""
    return column.alias("").rechunk().to_arrow(compat_level=_VIEWS)


def _addresses(array: pa.Array) -> npt.NDArray[np.uint64]:
    """Return the addresses of the buffers that the views of an array refer to."""
    return np.array([buffer.address for buffer in array.buffers()[2:]], np.uint64)


def _described(values: Values, array: pa.Array, data: npt.NDArray[np.uint64]) -> _Column:
    valid, content, *_ = array.buffers()
    size_bytes = _NUMBER_BYTES if values.kind == "number" else _VIEW_BYTES
    return _Column(
        _KINDS[values.kind],
        content.address + array.offset * size_bytes,
        None if valid is None else valid.address,
        array.offset,
        data.ctypes.data,
    )


def _expected_bytes(values: Values, array: pa.Array) -> int:
    """Return about how many bytes values become; escapes make them more."""
    rows = len(array)
    if values.kind == "number":
        return _DIGITS * rows
    views = np.frombuffer(array.buffers()[1], np.int32)
    begin, step = array.offset, _VIEW_BYTES // 4
    lengths = views[begin * step : (begin + rows) * step : step]
    return int(lengths.sum(dtype=np.int64)) + 4 * rows
