"""Records that are not of their table: reported with the reason; the others are taken."""

import polars as pl
import pytest

from tests.sinks.feeds import PANES
from tidemark.sinks import rows
from tidemark.sinks.rows import _rows, decode
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


def test_many_bad_records_are_found_with_few_decodings(monkeypatch):  # B2
    bad: list[bytes | None] = [b"\0\7", b"[]", b'{"n":1}', b"", b'{"key":1}', None, b'{"key":"x"']
    values: list[bytes | None] = [b'{"key":"k%d","n":1}' % n for n in range(10_000)]
    for n in range(1_000):
        values[5_000 + n] = bad[n % 7] if n % 7 != 4 else b"null"
    values[9_000] = b'{"key":"b","n":"text"}'
    calls = []

    def counted(*given):
        calls.append(given)
        return _rows(*given)

    monkeypatch.setattr(rows, "_rows", counted)
    decoded = decode(table(COLUMNS), values)
    assert [index for index, _ in decoded.bad] == [*range(5_000, 6_000), 9_000]
    reasons = dict(decoded.bad)
    assert "malformed" in reasons[5_000]
    assert "Expected `object`" in reasons[5_001]
    assert reasons[5_002] == "column key is null"
    assert reasons[5_005] == "a record without a value"
    assert list(decoded.good) == [n for n in range(10_000) if n not in reasons]
    assert decoded.rows["key"].to_list() == [f"k{n}" for n in decoded.good]
    assert len(calls) < 80


def test_no_record_is_no_row():
    assert decode(PANES, []).rows.height == 0
