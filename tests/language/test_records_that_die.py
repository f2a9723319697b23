"""Which records die in a stateless operator, and of what."""

import polars as pl
import pytest

from tests.support.operators.stateless import graph, records, shown, source
from tidemark import (
    col,
)
from tidemark.core.time.segment import OFFSET


def dead(result):
    return [f"{record} {operator}: {reason}" for record, operator, reason in result.dead.rows()]


def test_a_record_whose_expression_raises_dies_alone_with_the_reason():
    stream = source().with_columns(n=col("text").cast(pl.Int64))
    result = graph(stream).evaluate(records(("a", 1, "5"), ("b", 1, "six"), ("c", 1, "7")))
    assert shown(result.streams["raw"], "n") == ["10.0 5", "12.0 7"]
    assert result.passed.to_list() == [True, False, True]
    (line,) = dead(result)
    assert line.startswith('1 with_columns(col("text").strict_cast(Int64).alias("n")): conversion')
    assert '["six"]' in line
    assert result.filtered == 0


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ({"x": "one"}, "TypeError: column 'x': 'one' is a str, not Int64"),
        ({"x": True}, "TypeError: column 'x': True is a bool, not Int64"),
        ({"x": 1.0}, "TypeError: column 'x': 1.0 is a float, not Int64"),
        ({"x": 2**63}, "OverflowError: column 'x': 9223372036854775808 is beyond 64 bits"),
        ({}, "TypeError: columns missing: ['x'], not declared: []"),
        ({"x": 1, "y": 2}, "TypeError: columns missing: [], not declared: ['y']"),
        (None, "TypeError: returned a NoneType, not a dict of columns"),
    ],
)
def test_a_python_function_that_gives_something_else_than_it_declared_kills_the_record(
    made, reason
):
    stream = source().apply(lambda row: made if row["number"] else {"x": 7}, columns={"x": int})
    result = graph(stream).evaluate(records(("a", 1), ("b", 0)))
    assert [row[2] for row in result.dead.rows()] == [reason]
    assert shown(result.streams["raw"], "x") == ["11.0 7"]


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ({"x": 1}, "TypeError: returned a dict, not an iterable of dicts"),
        (None, "TypeError: returned a NoneType, not an iterable of dicts"),
        ([{"x": 1}, {"x": "b"}], "TypeError: column 'x': 'b' is a str, not Int64"),
    ],
)
def test_a_flat_map_that_fails_on_one_of_its_rows_gives_none(made, reason):
    stream = source().flat_map(lambda row: made, columns={"x": int})
    result = graph(stream, key="x").evaluate(records(("a", 1)))
    assert dead(result) == [f"0 flat_map(<lambda>): {reason}"]
    assert result.streams["raw"].is_empty()


def test_a_python_function_that_raises_kills_the_record_with_its_error():
    stream = source().apply(lambda row: {"x": 10 // row["number"]}, columns={"x": int})
    result = graph(stream).evaluate(records(("a", 0), ("b", 2)))
    assert dead(result) == [
        "0 apply(<lambda>): ZeroDivisionError: integer division or modulo by zero"
    ]


def test_text_that_is_no_unicode_kills_the_record():
    stream = source().apply(lambda row: {"x": row["text"] or "\ud800"}, columns={"x": str})
    result = graph(stream).evaluate(records(("a", 1, "fine"), ("b",)))
    assert shown(result.streams["raw"], "x") == ["10.0 fine"]
    assert "surrogates not allowed" in dead(result)[0]


def test_a_null_key_kills_the_record():
    result = graph(source()).evaluate(records((None, 1), ("b", 1)))
    assert dead(result) == ["0 key_by(key): null key"]
    assert shown(result.streams["raw"], "key") == ["11.0 b"]


def test_a_record_with_a_null_key_that_was_filtered_before_is_only_filtered():
    result = graph(source().filter(col("number") > 1)).evaluate(records((None, 1)))
    assert result.dead.is_empty()
    assert result.filtered == 1


def test_a_dead_record_gives_no_row_to_any_stream():
    stream = source()
    fragile = stream.with_columns(n=col("text").cast(pl.Int64))
    several = stream.explode("items").with_columns(n=10 // col("items"), key=col("key"))
    result = graph(stream, fragile, several).evaluate(
        records(("a", 1, "x", [1, 2]), ("b", 1, "2", [3, 4]))
    )
    assert [frame[OFFSET].unique().to_list() for frame in result.streams.values()] == [[11]] * 3


def test_one_bad_row_among_those_of_a_record_kills_it_whole():
    stream = source().explode("items").apply(lambda r: {"n": 10 // r["items"]}, columns={"n": int})
    result = graph(stream).evaluate(records(("a", 1, "", [1, 0, 2]), ("b", 1, "", [5])))
    assert shown(result.streams["raw"], "n") == ["11.0 2"]
    assert result.passed.to_list() == [False, True]
    assert result.dead.height == 1


def test_a_record_that_fails_in_two_operators_dies_of_the_first():
    plain = source()
    stream = plain.with_columns(n=col("text").cast(pl.Int64))
    other = plain.apply(lambda row: {"n": 1 // 0}, columns={"n": int})
    result = graph(stream, other).evaluate(records(("a", 1, "x")))
    assert result.dead["operator"].item().startswith("with_columns")
