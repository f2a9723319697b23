"""Datetimes as text: the form of keys and JSON results, which is the same everywhere.

The form is RFC 3339 with all digits of the unit: ``2026-01-02T03:04:05.678Z``.  A Datetime with a
zone is an instant, so it is in UTC.  One without a zone has no ``Z``.
"""

import polars as pl

from tidemark.core.rows.leaf_values import converted

_DIGITS = {"ms": 3, "us": 6, "ns": 9}


def times_as_text(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with Datetimes as text, also in lists and structs."""
    return converted(rows, lambda dtype: isinstance(dtype, pl.Datetime), _text)


def _text(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    assert isinstance(dtype, pl.Datetime)
    form = f"%Y-%m-%dT%H:%M:%S%.{_DIGITS[dtype.time_unit]}f"
    if dtype.time_zone is None:
        return value.dt.to_string(form)
    return value.dt.convert_time_zone("UTC").dt.to_string(f"{form}Z")
