"""CSV: each line of a record is a row."""

import pytest

from tidemark.serde.formats.csv_values import CsvValues
from tidemark.serde.formats.value_decoder import UnreadableValueError

PLAIN = CsvValues(["a", "b"], ",", '"')


@pytest.mark.parametrize(
    ("value", "rows"),
    [
        (b"1,x", [("1", "x")]),
        (b"1,x\n", [("1", "x")]),
        (b"\xef\xbb\xbf1,x\r\n2,y\r\n", [("1", "x"), ("2", "y")]),
        (b"1,x\n\n2,y", [("1", "x"), ("2", "y")]),
        (b'"1,5","say ""hi"""', [("1,5", 'say "hi"')]),
        (b'"two\nlines",x', [("two\nlines", "x")]),
        (b",", [(None, None)]),
        (b'"",x', [(None, "x")]),
        (b" 1 , x ", [(" 1 ", " x ")]),
        ("é,ü".encode(), [("é", "ü")]),
        (b"", []),
        (b"\n\r\n", []),
        (b"x" * 200_000 + b",y", [("x" * 200_000, "y")]),
    ],
)
def test_each_line_is_a_row(value, rows):
    assert [tuple(row.values()) for row in PLAIN.decode(value)] == rows


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"1", "row 1 has 1 fields, not 2: a, b"),
        (b"1,x\n1,x,z", "row 2 has 3 fields, not 2: a, b"),
        (b"1,\xff", r"not UTF-8 \(byte 2\)"),
        (b'"1,x', "not CSV: unexpected end of data"),
        (b'"1"2,x', "not CSV: ',' expected after '\"'"),
    ],
)
def test_a_record_with_any_bad_line_is_a_reason(value, why):
    with pytest.raises(UnreadableValueError, match=why):
        PLAIN.decode(value)


def test_the_header_names_the_fields_of_its_own_record():
    source = CsvValues(None, ";", None)
    assert source.decode(b'b;a\n"1";2\n3;4') == [{"b": '"1"', "a": "2"}, {"b": "3", "a": "4"}]
    assert source.decode(b"a\n1") == [{"a": "1"}]
    assert source.decode(b"a;b") == []
    assert source.decode(b"") == []
