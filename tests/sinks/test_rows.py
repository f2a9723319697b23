"""Records that are not of their table: reported with the reason; the others are taken."""

import polars as pl
import pytest

from tests.sinks.feeds import PANES
from tidemark.sinks.rows import decode
from tidemark.sinks.table import Table

COLUMNS = {"key": pl.String(), "n": pl.Int64()}
DECIMALS = {**COLUMNS, "price": pl.Decimal(10, 2)}  # are decoded by another parser


def table(columns):
    return Table("t", "t", columns, ("key",), "")


@pytest.mark.parametrize("columns", [COLUMNS, DECIMALS], ids=["plain", "with decimals"])
@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, 10**30])
def test_an_integer_longer_than_its_column_is_bad(columns, number):
    records = [b'{"key":"a","n":1}', b'{"key":"b","n":%d}' % number, b'{"key":"c","n":3}']
    decoded = decode(table(columns), records)
    assert list(decoded.good) == [0, 2]
    assert decoded.rows["n"].to_list() == [1, 3]
    ((index, reason),) = decoded.bad
    assert index == 1
    assert "i64" in reason.lower() or "int64" in reason.lower()


@pytest.mark.parametrize("columns", [COLUMNS, DECIMALS], ids=["plain", "with decimals"])
@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_the_longest_integers_of_a_column_are_taken(columns, number):
    decoded = decode(table(columns), [b'{"key":"a","n":%d}' % number])
    assert not decoded.bad
    assert decoded.rows["n"].to_list() == [number]


@pytest.mark.parametrize("member", ["key", "unknown"])
def test_what_is_no_utf8_is_bad_and_told_with_the_byte(member):
    bad = b'{"key":"b","' + member.encode() + b'":"\xff"}'
    decoded = decode(table(COLUMNS), [b'{"key":"a"}', bad])
    assert list(decoded.good) == [0]
    ((index, reason),) = decoded.bad
    assert index == 1
    assert "byte 0xff" in reason


def test_no_record_is_no_row():
    assert decode(PANES, []).rows.height == 0
