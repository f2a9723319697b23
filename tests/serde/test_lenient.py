"""Lenient columns: which other spellings of values they take, and the reasons."""

from typing import Any

import polars as pl
import pytest

from tests.serde.outcomes import parse, reasons, rows
from tidemark.core.rows.schema import (
    INSTANT,
    Field,
    JsonText,
    Kind,
    ListOf,
    Scalar,
    StructOf,
    TimeValue,
)

INT, FLOAT = Scalar(pl.Int64()), Scalar(pl.Float64())
LENIENT = Scalar(pl.Int64(), lenient=True)


@pytest.mark.parametrize(
    ("dtype", "value", "result"),
    [
        (pl.Int64(), "1.0", 1),
        (pl.Int64(), '" 12 "', 12),
        (pl.Int64(), '"+1.50e2"', 150),
        (pl.Int64(), '"9007199254740993.0"', 9007199254740993),
        (pl.Int64(), '"-"', None),
        (pl.Int64(), '"N/A"', None),
        (pl.Float64(), '"NA"', None),
        (pl.Boolean(), '"None"', None),
        (pl.Int64(), r'"\\N"', None),
        (pl.Int64(), '""', None),
        (pl.Int64(), "NaN", None),
        (pl.Int64(), "-Infinity", None),
        (pl.Int64(), "null", None),
        (pl.Float64(), '"2.5"', 2.5),
        (pl.Float64(), "7", 7.0),
        (pl.Float64(), '"nan"', None),
        (pl.Float64(), "NaN", None),
        (pl.Boolean(), '"TRUE"', True),
        (pl.Boolean(), "0", False),
        (pl.String(), "5", "5"),
        (pl.String(), "true", "true"),
        (pl.String(), '"-"', "-"),
        (pl.String(), '{"a": [1.50, null]}', '{"a":[1.5,null]}'),
        (pl.Int64(), "1.5", "column v: expected int, got 1.5"),
        (pl.Int64(), '"1_000"', "column v: expected int, got '1_000'"),
        (pl.Int64(), '"12 apples"', "column v: expected int, got '12 apples'"),
        (pl.Int64(), "true", "column v: expected int, got bool"),
        (pl.Int64(), '"9223372036854775808"', "column v: number out of range"),
        (pl.Int64(), '"1e999999999"', "column v: number out of range"),
        (pl.Int64(), "[1]", "column v: expected int, got array"),
        (pl.Float64(), '"1e400"', "column v: number out of range"),
        (pl.Float64(), "true", "column v: expected float, got bool"),
        (pl.Boolean(), "2", "column v: expected bool, got 2"),
        (pl.String(), "9" * 30, "9" * 30),
    ],
)
def test_a_lenient_value(dtype: pl.DataType, value: str, result: Any):
    fields = [Field("v", Scalar(dtype, lenient=True)), Field("other", INT)]
    parsed = parse(fields, f'{{"v":{value},"other":1}}'.encode())

    assert [row["v"] for row in rows(parsed)] + reasons(parsed) == [result]


@pytest.mark.parametrize("dtype", [pl.Int64(), pl.Float64(), pl.Boolean(), pl.String()])
def test_null_is_no_lenient_value_of_a_required_column(dtype: pl.DataType):
    kind = Scalar(dtype, lenient=True)
    inside = StructOf((Field("w", kind, required=True),))

    parsed = parse([Field("v", kind, required=True), Field("o", inside)], {"v": None})
    nested = parse([Field("o", inside)], {"o": {"w": None}})

    names = {pl.Int64(): "int", pl.Float64(): "float", pl.Boolean(): "bool", pl.String(): "str"}
    assert reasons(parsed) == [f"column v: expected {names[dtype]}, got null"]
    assert reasons(nested) == [f"column o.w: expected {names[dtype]}, got null"]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Scalar(pl.Int64(), lenient=True), "NA"),
        (Scalar(pl.Float64(), lenient=True), "-"),
        (Scalar(pl.Boolean(), lenient=True), " null "),
        (TimeValue(INSTANT, ("ms",), lenient=True), ""),
        (JsonText(INT), ""),
    ],
)
def test_a_text_that_stands_for_null_is_no_value_of_a_required_column(kind: Kind, text: str):
    reason = "a value is required, and this one stands for null"
    inside = StructOf((Field("w", kind, required=True), Field("n", INT)))

    parsed = parse([Field("v", kind, required=True)], {"v": text})
    nested = parse([Field("o", inside), Field("n", INT)], {"o": {"w": text}, "n": 1})
    listed = parse([Field("os", ListOf(inside))], {"os": [None, {"w": text}]})
    absent = parse([Field("o", inside)], {"o": None}, {})

    assert reasons(parsed) == [f"column v: {reason}"]
    assert reasons(nested) == [f"column o.w: {reason}"]
    assert reasons(listed) == [f"column os[1].w: {reason}"]
    assert reasons(absent) == []


def test_converted_values_of_good_records_are_counted():
    fields = [Field("v", LENIENT), Field("xs", ListOf(LENIENT)), Field("n", INT)]
    good: list[Any] = [{"v": "1", "xs": [1, "2", "-"]}, {"v": 1, "n": 4}, [{"v": 1.0}, {"v": 1}]]

    assert parse(fields, *good[:2]).converted == 3
    assert parse(fields, *good, {"v": "9", "n": "x"}, {"v": "x"}).converted == 4


def test_a_strict_column_beside_a_lenient_one_stays_strict():
    parsed = parse([Field("v", LENIENT), Field("n", FLOAT)], b'{"n":NaN}', b'{"n":"1"}')

    assert reasons(parsed) == ["column n: expected float, got str"] * 2
