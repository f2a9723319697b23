"""Bytes as base64 text: late rows and dead letters are published as JSON, which has no bytes."""

from collections.abc import Mapping

import polars as pl

from tidemark.core.rows.schema import instance


def has_bytes(dtype: pl.DataType) -> bool:
    """Return whether values of a type are bytes, or hold some."""
    if isinstance(dtype, pl.List):
        return has_bytes(instance(dtype.inner))
    if isinstance(dtype, pl.Struct):
        return any(has_bytes(instance(each.dtype)) for each in dtype.fields)
    return isinstance(dtype, pl.Binary)


def text_types(columns: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
    """Return the types of columns after ``bytes_as_text``."""
    return {name: _text_type(dtype) for name, dtype in columns.items()}


def bytes_as_text(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with bytes as base64 text, also in lists and structs."""
    found = [(name, dtype) for name, dtype in rows.schema.items() if has_bytes(dtype)]
    return rows.with_columns(_text(pl.col(name), dtype).alias(name) for name, dtype in found)


def _text_type(dtype: pl.DataType) -> pl.DataType:
    if isinstance(dtype, pl.List):
        return pl.List(_text_type(instance(dtype.inner)))
    if isinstance(dtype, pl.Struct):
        return pl.Struct({each.name: _text_type(instance(each.dtype)) for each in dtype.fields})
    return pl.String() if isinstance(dtype, pl.Binary) else dtype


def _text(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    if isinstance(dtype, pl.List):
        return value.list.eval(_text(pl.element(), instance(dtype.inner)))
    if isinstance(dtype, pl.Struct):
        fields = [
            _text(value.struct.field(each.name), instance(each.dtype)).alias(each.name)
            for each in dtype.fields
        ]
        return pl.when(value.is_not_null()).then(pl.struct(fields))
    return value.bin.encode("base64") if isinstance(dtype, pl.Binary) else value
