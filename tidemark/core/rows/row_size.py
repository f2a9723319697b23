"""The size of rows in bytes, a function of their values alone.

A text counts its UTF-8 bytes, a list or struct the sum of its items, any other value and null eight
bytes.  A struct that is null counts its members, because its columns have them.  The size of the
rows of one record is bounded by MAX_RECORD_BYTES.  So a segment of one record fits a message of the
log, and a record that is multiplied cannot fill the memory.  See docs/semantics.md, "Raw records".
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.columns import without_nulls

MAX_RECORD_BYTES = 4 * 2**20
"""Maximum size of all rows of a record, in all streams together."""

VALUE_BYTES = 8
"""The size of a value that is not a text, list or struct."""

Sizes = npt.NDArray[np.int64]


def too_large(size_bytes: int) -> str:
    """Return the dead-letter reason of a record whose rows exceed MAX_RECORD_BYTES."""
    return f"rows of {size_bytes:,} bytes, at most {MAX_RECORD_BYTES:,} are possible"


def row_bytes(columns: Iterable[pl.Series], height: int) -> Sizes:
    """Return the size of each of ``height`` rows in bytes."""
    sizes = np.zeros(height, np.int64)
    for column in columns:
        column_sizes = _value_bytes(column)
        if column.null_count() and not isinstance(column.dtype, pl.Struct):
            column_sizes = np.where(column.is_null().to_numpy(), VALUE_BYTES, column_sizes)
        sizes += column_sizes
    return sizes


def _value_bytes(column: pl.Series) -> Sizes | int:
    """Return the sizes of a column's values; the sizes of nulls are undefined."""
    dtype = column.dtype
    if isinstance(dtype, pl.String):
        texts: Sizes = without_nulls(column.str.len_bytes()).to_numpy().astype(np.int64)
        return texts
    if isinstance(dtype, pl.List):
        ends = item_counts(column).cumsum()
        items = column.explode(empty_as_null=False, keep_nulls=False)
        totals = np.concatenate(([0], row_bytes([items], len(items)).cumsum()))
        totals = np.concatenate(([0], totals[ends]))
        return totals[1:] - totals[:-1]
    if isinstance(dtype, pl.Struct):
        return row_bytes(column.struct.unnest().get_columns(), len(column))
    return VALUE_BYTES


def item_counts(column: pl.Series) -> Sizes:
    """Return the number of items of each list; a null list has none."""
    counts: Sizes = column.list.len().fill_null(0).to_numpy().astype(np.int64)
    return counts
