"""Edits of fields leave all other bytes as they are."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.errors import ConfigurationError
from tidemark.runtime.letters.edits import with_fields


@pytest.mark.parametrize(
    ("value", "fields", "expected"),
    [
        (b'{"a":"x","b":1.10}', {"a": "1"}, b'{"a":1,"b":1.10}'),
        (b'{"a":1}', {"a": "one"}, b'{"a":"one"}'),
        (b'{"a":1}', {"a": '"1"'}, b'{"a":"1"}'),
        (b'{"a":1}', {"a": ""}, b'{"a":""}'),
        (b'{"a":1}', {"b": "[1, 2]"}, b'{"a":1,"b":[1, 2]}'),
        (b'{"a":{"b":1,"c":1e400}}', {"a.b": "null"}, b'{"a":{"b":null,"c":1e400}}'),
        (b'{"a.b":1,"a":{"b":2}}', {"a.b": "3"}, b'{"a.b":3,"a":{"b":2}}'),
        (b'{"a":null}', {"a.b.c": "true"}, b'{"a":{"b":{"c":true}}}'),
        (b"{}", {"a.b": "0", "a.c": "1"}, b'{"a":{"b":0,"c":1}}'),
        (b'\xef\xbb\xbf{"a":1}', {"a": "2"}, b'{"a":2}'),
        (b'{"a":1,"a":2}', {"b": "3"}, b'{"a":2,"b":3}'),
    ],
)
def test_a_field_is_replaced_or_added(value, fields, expected):
    assert with_fields(value, fields) == expected


@pytest.mark.parametrize("value", [None, b"", b"[1]", b"pop!", b"\xff", b'{"a":1'])
def test_what_is_no_object_is_refused(value):
    with pytest.raises(ConfigurationError, match="the record is no JSON object"):
        with_fields(value, {"a": "1"})


def test_a_path_into_a_number_is_refused_with_its_place():
    with pytest.raises(ConfigurationError, match=r"--set a\.b\.c=\.\.\.: .* at 'a\.b'"):
        with_fields(b'{"a":{"b":1}}', {"a.b.c": "1"})


names = st.text(st.characters(codec="utf-8", exclude_characters="."), max_size=5)
records = st.dictionaries(names, st.integers() | st.text() | st.lists(st.booleans()), max_size=5)


@given(records, names, st.text())
def test_only_the_field_changes(record, name, value):
    made = json.loads(with_fields(json.dumps(record).encode(), {name: json.dumps(value)}))
    assert made == {**record, name: value}
