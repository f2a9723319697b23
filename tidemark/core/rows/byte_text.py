"""Bytes as base64 text: late rows and dead letters are published as JSON, which has no bytes."""

from collections.abc import Mapping

import polars as pl

from tidemark.core.rows.leaf_values import converted, holds
from tidemark.core.rows.schema import instance


def has_bytes(dtype: pl.DataType) -> bool:
    """Return whether values of a type are bytes, or hold some."""
    return holds(dtype, _is_binary)


def text_types(columns: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
    """Return the types of columns after ``bytes_as_text``."""
    return {name: _text_type(dtype) for name, dtype in columns.items()}


def bytes_as_text(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with bytes as base64 text, also in lists and structs."""
    return converted(rows, _is_binary, lambda value, _: value.bin.encode("base64"))


def _is_binary(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.Binary)


def _text_type(dtype: pl.DataType) -> pl.DataType:
    if isinstance(dtype, pl.List):
        return pl.List(_text_type(instance(dtype.inner)))
    if isinstance(dtype, pl.Struct):
        return pl.Struct({each.name: _text_type(instance(each.dtype)) for each in dtype.fields})
    return pl.String() if isinstance(dtype, pl.Binary) else dtype
