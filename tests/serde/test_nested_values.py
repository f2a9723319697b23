"""Nested values of records become columns, whatever the nesting and wherever a value is null."""

from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serde.outcomes import parsed_by
from tidemark.core.rows.schema import Field, Kind, ListOf, MapOf, Scalar, Schema, StructOf
from tidemark.serde.json_records import JsonRecords

INT, TEXT = Scalar(pl.Int64()), Scalar(pl.String())
NAMES = st.sampled_from(["a", "b", "m0", "class", "größe", "x y"])


def _structs(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    members = st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    return members.map(lambda kinds: StructOf(tuple(Field(n, k) for n, k in kinds.items())))


KINDS: st.SearchStrategy[Kind] = st.recursive(
    st.sampled_from([INT, TEXT]),
    lambda inner: st.one_of(inner.map(ListOf), inner.map(MapOf), _structs(inner)),
    max_leaves=6,
)


def _values(kind: Kind) -> st.SearchStrategy[Any]:
    """Return values of a kind as JSON has them; null is one."""
    match kind:
        case ListOf(item):
            some: st.SearchStrategy[Any] = st.lists(_values(item), max_size=3)
        case MapOf(value):
            some = st.dictionaries(NAMES, _values(value), max_size=3)
        case StructOf(fields):
            some = st.fixed_dictionaries({}, optional={f.name: _values(f.kind) for f in fields})
        case _:
            some = st.integers(-9, 9) if kind == INT else st.text(max_size=3)
    return st.none() | some


def _in_column(kind: Kind, value: Any) -> Any:
    """Return a value as a column has it."""
    if value is None:
        return None
    match kind:
        case ListOf(item):
            return [_in_column(item, each) for each in value]
        case MapOf(of):
            return [{"key": key, "value": _in_column(of, each)} for key, each in value.items()]
        case StructOf(fields):
            return {f.name: _in_column(f.kind, value.get(f.name)) for f in fields}
    return value


@given(st.data(), KINDS, KINDS)
def test_columns_have_the_values_of_the_records(data: st.DataObject, left: Kind, right: Kind):
    fields = (Field("left", left), Field("right", right))
    records = data.draw(st.lists(_values(StructOf(fields)).filter(lambda v: v is not None)))

    parsed = parsed_by(JsonRecords(Schema(fields)), list(map(msgspec.json.encode, records)))

    assert not parsed.dead
    assert parsed.columns.to_dicts() == [_in_column(StructOf(fields), each) for each in records]


def test_lists_nest_deeper_than_the_loops_of_one_function():
    kind: Kind = TEXT
    value: Any = "x"
    for _ in range(30):
        kind, value = ListOf(kind), [value, None]

    parsed = parsed_by(
        JsonRecords(Schema((Field("v", kind),))), [msgspec.json.encode({"v": value})]
    )

    assert parsed.columns.to_dicts() == [{"v": value}]


@pytest.mark.parametrize("null", [b"{}", b'{"u": null}'])
def test_an_object_may_have_a_default(null: bytes):
    kind = StructOf((Field("a", INT), Field("b", TEXT, default="x")))
    fields = (
        Field("u", kind, default={"a": 1}),
        Field("v", kind, ("u",)),
        Field("a", INT, ("u", "a")),
    )

    parsed = parsed_by(JsonRecords(Schema(fields)), [null, b'{"u": {"b": "y"}}'])

    assert parsed.columns.to_dicts() == [
        {"u": {"a": 1, "b": "x"}, "v": None, "a": None},
        {"u": {"a": None, "b": "y"}, "v": {"a": None, "b": "y"}, "a": None},
    ]


def test_an_object_in_a_list_may_have_a_default():
    item = StructOf((Field("a", StructOf((Field("n", INT),)), default={"n": 7}),))

    parsed = parsed_by(
        JsonRecords(Schema((Field("v", ListOf(item)),))), [b'{"v": [{}, null, {"a": {}}]}']
    )

    assert parsed.columns.to_dicts() == [{"v": [{"a": {"n": 7}}, None, {"a": {"n": None}}]}]


def test_a_member_may_read_an_entry_of_a_map_that_is_declared_after_it():
    inside = StructOf((Field("a", INT, ("m", "a")), Field("m", MapOf(INT))))

    parsed = parsed_by(JsonRecords(Schema((Field("v", inside),))), [b'{"v": {"m": {"a": 1}}}'])

    assert parsed.columns.to_dicts() == [{"v": {"a": 1, "m": [{"key": "a", "value": 1}]}}]
