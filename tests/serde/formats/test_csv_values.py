"""CSV: each line of a record is a row."""

import csv
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@given(
    st.lists(st.lists(st.text("ab ,;\t'", max_size=3), min_size=2, max_size=2), max_size=4),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([",", ";", "\t"]),
)
def test_lines_are_those_that_the_reader_of_the_standard_library_finds(rows, end, delimiter):
    text = end.join(delimiter.join(row) for row in rows)
    for quote in ('"', None):
        quoting: Any = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
        reader = csv.reader(
            io.StringIO(text, ""), delimiter=delimiter, quotechar=quote, quoting=quoting
        )
        expected = [line for line in reader if line]
        width = {len(line) for line in expected}
        source = CsvValues(["a", "b"], delimiter, quote)
        if width <= {2}:
            found = [list(row.values()) for row in source.decode(text.encode())]
            assert found == [[field or None for field in line] for line in expected]
        else:
            with pytest.raises(UnreadableValueError, match="fields, not 2"):
                source.decode(text.encode())
