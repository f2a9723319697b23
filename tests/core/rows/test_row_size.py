"""How many bytes a value takes in a segment."""

import polars as pl
import pytest

from tidemark.core.rows.row_size import row_bytes


@pytest.mark.parametrize(
    ("value", "dtype", "size"),
    [
        ("é", pl.String, 2),
        ("", pl.String, 0),
        (None, pl.String, 8),
        (7, pl.Int8, 8),
        (True, pl.Boolean, 8),
        (None, pl.Float64, 8),
        ([], pl.List(pl.String), 0),
        (None, pl.List(pl.String), 8),
        (["abc", None, ""], pl.List(pl.String), 11),
        ([[1], [], None, [2, 3]], pl.List(pl.List(pl.Int64)), 32),
        ({"a": "xyz", "b": [1, 2]}, pl.Struct({"a": pl.String, "b": pl.List(pl.Int8)}), 19),
        (None, pl.Struct({"a": pl.String, "b": pl.Int8}), 16),
        ([{"a": "xy"}, None], pl.List(pl.Struct({"a": pl.String})), 10),
    ],
)
def test_a_value_takes(value, dtype, size):
    column = pl.Series([value, None, value], dtype=dtype)

    null = 8 * len(dtype.fields) if isinstance(dtype, pl.Struct) else 8
    assert row_bytes([column], 3).tolist() == [size, null, size]
    assert row_bytes([column[2:], column[:1]], 1).tolist() == [2 * size]


def test_no_rows_take_nothing():
    assert row_bytes([pl.Series([], dtype=pl.List(pl.String))], 0).tolist() == []
