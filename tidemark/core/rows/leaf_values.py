"""Conversion of the values of some types wherever they are: in columns, lists and structs."""

from collections.abc import Callable

import polars as pl

from tidemark.core.rows.schema import instance

IsLeaf = Callable[[pl.DataType], bool]
Convert = Callable[[pl.Expr, pl.DataType], pl.Expr]


def holds(dtype: pl.DataType, is_leaf: IsLeaf) -> bool:
    """Return whether values of a type are such values, or hold some."""
    if isinstance(dtype, pl.List):
        return holds(instance(dtype.inner), is_leaf)
    if isinstance(dtype, pl.Struct):
        return any(holds(instance(each.dtype), is_leaf) for each in dtype.fields)
    return is_leaf(dtype)


def converted(rows: pl.DataFrame, is_leaf: IsLeaf, convert: Convert) -> pl.DataFrame:
    """Return rows with ``convert`` applied to all values whose types ``is_leaf`` accepts."""
    found = [(name, dtype) for name, dtype in rows.schema.items() if holds(dtype, is_leaf)]
    if not found:
        return rows
    return rows.with_columns(
        _converted(pl.col(name), dtype, is_leaf, convert).alias(name) for name, dtype in found
    )


def _converted(value: pl.Expr, dtype: pl.DataType, is_leaf: IsLeaf, convert: Convert) -> pl.Expr:
    if isinstance(dtype, pl.List):
        return value.list.eval(_converted(pl.element(), instance(dtype.inner), is_leaf, convert))
    if isinstance(dtype, pl.Struct):
        fields = [
            _converted(value.struct.field(each.name), instance(each.dtype), is_leaf, convert).alias(
                each.name
            )
            for each in dtype.fields
        ]
        return pl.when(value.is_not_null()).then(pl.struct(fields))
    return convert(value, dtype) if is_leaf(dtype) else value
