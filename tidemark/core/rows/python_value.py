"""Values that a user's Python functions return: of exactly the column's type, or refused.

The only conversion is int to float.  A bool is not an int, and text is not a number.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

import polars as pl

from tidemark.core.rows.expression import Columns
from tidemark.core.rows.schema import instance


def conform(row: object, types: Columns) -> tuple[Any, ...]:
    """Return a row's values in the order of ``types``; None is a value of every type.

    Raises:
        TypeError: the row is not a dict of exactly these columns, or a value has another type.
        OverflowError: an integer does not fit 64 bits.
    """
    if not isinstance(row, Mapping):
        raise TypeError(f"returned a {type(row).__name__}, not a dict of columns")
    if row.keys() != types.keys():
        missing = [name for name in types if name not in row]
        unknown = [name for name in row if name not in types]
        raise TypeError(f"columns missing: {missing}, not declared: {unknown}")
    return tuple(_value(row[name], dtype, name) for name, dtype in types.items())


def _value(value: Any, dtype: pl.DataType, name: str) -> Any:
    if value is None:
        return None
    if isinstance(dtype, pl.List):
        if not isinstance(value, list | tuple):
            raise _differs(value, dtype, name)
        return [_value(item, instance(dtype.inner), name) for item in value]
    if isinstance(dtype, pl.Struct):
        types = {each.name: each.dtype for each in dtype.fields}
        if not isinstance(value, Mapping) or value.keys() != types.keys():
            raise _differs(value, dtype, name)
        return {n: _value(value[n], instance(t), f"{name}.{n}") for n, t in types.items()}
    return _scalar(value, dtype, name)


def _scalar(value: Any, dtype: pl.DataType, name: str) -> Any:
    kind = type(value)
    if dtype == pl.Int64 and kind is int:
        if not -(2**63) <= value < 2**63:
            raise OverflowError(f"column {name!r}: {value} is beyond 64 bits")
        return value
    if dtype == pl.Float64 and kind in (float, int):
        return float(value)
    if (dtype == pl.String and isinstance(value, str)) or (dtype == pl.Boolean and kind is bool):
        return value
    if dtype.is_temporal():
        return _time(value, dtype, name)
    raise _differs(value, dtype, name)


def _time(value: Any, dtype: pl.DataType, name: str) -> datetime | date:
    if isinstance(dtype, pl.Date) and type(value) is date:
        return value
    if isinstance(dtype, pl.Datetime) and isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    raise _differs(value, dtype, name)


def _differs(value: object, dtype: pl.DataType, name: str) -> TypeError:
    return TypeError(f"column {name!r}: {value!r:.100} is a {type(value).__name__}, not {dtype}")
