"""Columns in memory of their own.

Polars' texts and bytes are views into buffers (Arrow's BinaryView layout).  A column taken from
another one shares its buffers, so a hundred rows of a segment keep all texts of that segment in
memory.  State keeps such rows for long, so it copies what is far smaller than its buffers.
"""

from functools import lru_cache

import polars as pl
import pyarrow as pa

_SHARE = 2
"""A column is copied if its buffers are larger than this many times its values ..."""

_SLACK_BYTES = 1 << 16
"""... and this."""

_NOT_COPIED = (pl.Int128, pl.UInt128, pl.Categorical, pl.Enum, pl.Object)
"""Types that pyarrow lacks or changes; a column with one of these and texts stays as it is."""


def with_own_buffers(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame; columns that are far smaller than the buffers they share are copied."""
    texts = (frame[name] for name, dtype in frame.schema.items() if _is_copied(dtype))
    large = [column for column in texts if _shares_much(column)]
    return frame.with_columns(map(copied, large)) if large else frame


def copied(column: pl.Series) -> pl.Series:
    """Return a column whose texts and bytes are in memory of their own."""
    if not _is_copied(column.dtype):
        return column
    own = column.gather(pl.int_range(len(column), eager=True))  # a slice of lists has all items
    return pl.Series(column.name, own.to_arrow(compat_level=pl.CompatLevel.oldest()))


def buffer_bytes(column: pl.Series) -> int:
    """Return the size of all buffers that a column keeps in memory."""
    sizes: dict[int, int] = {}
    for chunk in column.get_chunks():
        array: pa.Array = chunk.alias("").to_arrow(compat_level=pl.CompatLevel.newest())
        sizes.update((buffer.address, buffer.size) for buffer in array.buffers() if buffer)
    return sum(sizes.values())


def _shares_much(column: pl.Series) -> bool:
    return buffer_bytes(column) > _SHARE * column.estimated_size() + _SLACK_BYTES


@lru_cache(maxsize=256)
def _is_copied(dtype: pl.DataType) -> bool:
    leaves = _leaves(dtype)
    has_views = any(each in (pl.String, pl.Binary) for each in leaves)
    return has_views and not any(each in _NOT_COPIED for each in leaves)


def _leaves(dtype: pl.DataType) -> list[pl.DataType]:
    """Return the types of the values within nested ones."""
    if isinstance(dtype, pl.Array) and dtype.size == 0:
        return []
    if isinstance(dtype, (pl.List, pl.Array)):
        inner = dtype.inner
        assert isinstance(inner, pl.DataType)
        return _leaves(inner)
    if isinstance(dtype, pl.Struct):
        within = (field.dtype for field in dtype.fields)
        return [each for one in within if isinstance(one, pl.DataType) for each in _leaves(one)]
    return [dtype]
