"""Rows as JSON by columns have the bytes that polars and msgspec write row by row.

With the native library, where it is built, and without.
"""

import ctypes
import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import msgspec
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidemark.core.rows.byte_text import bytes_as_text
from tidemark.core.rows.time_text import times_as_text
from tidemark.native import library
from tidemark.serde import json_rows
from tidemark.serde.binary_column import BinaryColumn
from tidemark.serde.json_rows import json_arrays, json_objects

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))  # noqa: DTZ001
INTEGERS: dict[pl.DataType, int] = {
    pl.Int8(): 7, pl.Int16(): 15, pl.Int32(): 31, pl.Int64(): 63, pl.Int128(): 127,
    pl.UInt8(): 8, pl.UInt16(): 16, pl.UInt32(): 32, pl.UInt64(): 64,
}  # fmt: skip


def integers(dtype: pl.DataType) -> st.SearchStrategy[int]:
    beyond = 1 << INTEGERS[dtype]
    return st.integers(-beyond if dtype.is_signed_integer() else 0, beyond - 1)


VALUES: dict[pl.DataType, st.SearchStrategy[Any]] = {
    **{dtype: integers(dtype) for dtype in INTEGERS},
    pl.Float64(): st.floats() | st.sampled_from([-0.0, 1e16, 2.0**53 + 2, 5e-324]),
    pl.Float32(): st.floats(width=32),
    pl.Boolean(): st.booleans(),
    pl.String(): TEXTS,
    pl.Binary(): st.binary(max_size=20),
    pl.Decimal(12, 2): st.decimals(-(10**9), 10**9, places=2),
    pl.Date(): st.dates(date(1900, 1, 1), date(2200, 1, 1)),
    pl.Time(): st.times(),
    pl.Duration("us"): st.timedeltas(timedelta(-9), timedelta(9)),
    pl.Datetime("ms"): TIMES,
    pl.Datetime("us", "Europe/Berlin"): TIMES,
    pl.Enum(["a", 'b"', "é"]): st.sampled_from(["a", 'b"', "é"]),
    pl.List(pl.String()): st.lists(st.none() | TEXTS, max_size=3),
    pl.List(pl.Binary()): st.lists(st.binary(max_size=3), max_size=3),
    pl.Struct({"a": pl.Float64(), 'b"': pl.List(pl.Int8())}): st.fixed_dictionaries(
        {"a": st.none() | st.floats(), 'b"': st.none() | st.lists(st.integers(-9, 9), max_size=2)}
    ),
}  # fmt: skip


@st.composite
def frames(draw: st.DrawFn, without: Sequence[pl.DataType] = ()) -> pl.DataFrame:
    """Rows of columns of any types and names, in one chunk or in several, whole or a slice."""
    types = draw(st.lists(st.sampled_from([t for t in VALUES if t not in without]), min_size=1))
    rows = draw(st.integers(0, 6))
    names = draw(st.lists(TEXTS, min_size=len(types), max_size=len(types), unique=True))
    frame = pl.DataFrame(
        [
            pl.Series(
                name,
                draw(st.lists(st.none() | VALUES[dtype], min_size=rows, max_size=rows)),
                dtype if not isinstance(dtype, pl.Datetime) else pl.Datetime(dtype.time_unit),
            )
            for name, dtype in zip(names, types, strict=True)
        ]
    )
    zoned = [
        pl.nth(at).dt.replace_time_zone(dtype.time_zone, ambiguous="earliest", non_existent="null")
        for at, dtype in enumerate(types)
        if isinstance(dtype, pl.Datetime) and dtype.time_zone
    ]
    frame = frame.with_columns(zoned)
    cut = draw(st.integers(0, rows))
    if draw(st.booleans()):
        frame = pl.concat([frame[:cut], frame[cut:]], rechunk=False)
    return frame[cut // 2 :]


either_way = pytest.mark.parametrize(
    "way", [None, library] if library else [None], ids=lambda way: "native" if way else "without"
)


@either_way
@given(frames())
@example(pl.DataFrame({"a": ['"' * 99_999, None, "\x00\x1f\x7f\u2028é" * 9_999]}))
@example(pl.DataFrame({"a": [2**63 - 1, -(2**63), 0, 9, 10, 99, 100, -1]}))
def test_objects_have_the_bytes_of_polars(way: ctypes.CDLL | None, rows: pl.DataFrame):
    shown = times_as_text(bytes_as_text(rows))
    expected = shown.select(pl.struct(pl.all()).struct.json_encode()).to_series()

    with patch.object(json_rows, "library", way):
        assert [*json_objects(rows)] == [text.encode() for text in expected]


@either_way
@given(frames())
@example(pl.DataFrame({"a": ["a\tb" * 20_000, "c"], "b": [1e16, math.nan]}))
@example(pl.DataFrame({"a": [1, None], "b": [None, Decimal("-0.10")]}))
def test_arrays_have_the_bytes_of_msgspec(way: ctypes.CDLL | None, rows: pl.DataFrame):
    within = [name for name, dtype in rows.schema.items() if dtype != pl.Int128]
    rows = rows.select(within) if within else rows.clear()
    expected = [msgspec.json.encode(row) for row in times_as_text(rows).iter_rows()]

    with patch.object(json_rows, "library", way):
        assert [*json_arrays(rows)] == expected


@either_way
def test_integers_of_an_array_have_all_digits(way: ctypes.CDLL | None):
    wide = pl.DataFrame({"a": [2**100, None, -5]}, {"a": pl.Int128()})

    with patch.object(json_rows, "library", way):
        assert [*json_arrays(wide)] == [b"[%d]" % 2**100, b"[null]", b"[-5]"]


COLUMNS = st.lists(st.binary(max_size=20), max_size=8)


@given(COLUMNS, st.slices(8))
def test_a_column_is_a_sequence_of_its_values(values: list[bytes], at: slice):
    column = BinaryColumn.of(values)

    assert [*column[at]] == values[at]
    assert [column[at][number] for number in range(len(values[at]))] == values[at]
    assert column[at].lengths_bytes.tolist() == [*map(len, values[at])]
    assert column[at].size_bytes == sum(map(len, values[at]))
    assert column == BinaryColumn.of(values)
    assert (column[at] == column) == (values[at] == values)


@given(COLUMNS, st.data())
def test_two_columns_merge_in_the_order_asked_for(values: list[bytes], data: st.DataObject):
    is_other = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    mask = pl.Series(is_other, dtype=pl.Boolean).to_numpy()
    column = BinaryColumn.of(values)

    assert column.filter(~mask).merged(column.filter(mask), mask) == column


@pytest.mark.parametrize("values", [[], [b""], [b"a", b""]])
def test_a_column_becomes_an_array_of_arrow(values: list[bytes]):
    assert pa.array(BinaryColumn.of(values), pa.binary()).to_pylist() == values
