"""Records of nested schemas: what fits, which columns they become, and the reasons."""

from typing import Any

import msgspec
import polars as pl
import pytest

from tests.serde.outcomes import parse, reasons, rows
from tidemark.core.rows.schema import (
    Field,
    JsonText,
    ListOf,
    MapOf,
    Raw,
    Scalar,
    Schema,
    StructOf,
)
from tidemark.errors import PipelineError
from tidemark.serde.objects.record_columns import record_columns
from tidemark.serde.objects.record_type import RecordType, validation_reason

INT, TEXT, FLOAT = Scalar(pl.Int64()), Scalar(pl.String()), Scalar(pl.Float64())
LENIENT = Scalar(pl.Int64(), lenient=True)

NESTED = [
    Field("id", INT),
    Field("user", StructOf((Field("name", TEXT, default="?"), Field("tags", ListOf(TEXT))))),
    Field("items", ListOf(StructOf((Field("p", FLOAT), Field("q", INT, ("n", "q")))))),
    Field("m", MapOf(INT)),
    Field("mm", MapOf(ListOf(StructOf((Field("z", INT),))))),
    Field("j", JsonText(StructOf((Field("a", INT),)))),
    Field("ll", ListOf(ListOf(INT))),
]


def test_nested_values_become_columns():
    full = {
        "id": 1,
        "user": {"name": "x", "tags": ["a", None]},
        "items": [{"p": 1, "n": {"q": 2}}, None, {}],
        "m": {"a": 1, "b": None},
        "mm": {"k": [{"z": 1}, None], "l": None},
        "j": '{"a": 4, "b": 5}',
        "ll": [[1], None, []],
    }
    empty = {"user": {}, "items": [], "m": {}, "mm": {}, "j": "", "ll": []}
    parsed = parse(NESTED, full, {}, empty)

    assert parsed.columns.schema == dict(Schema(tuple(NESTED)))
    assert rows(parsed) == [
        {
            "id": 1,
            "user": {"name": "x", "tags": ["a", None]},
            "items": [{"p": 1.0, "q": 2}, None, {"p": None, "q": None}],
            "m": [{"key": "a", "value": 1}, {"key": "b", "value": None}],
            "mm": [
                {"key": "k", "value": [{"z": 1}, None]},
                {"key": "l", "value": None},
            ],
            "j": {"a": 4},
            "ll": [[1], None, []],
        },
        dict.fromkeys(full),
        {
            "id": None,
            "user": {"name": "?", "tags": None},
            "items": [],
            "m": [],
            "mm": [],
            "j": None,
            "ll": [],
        },
    ]


def test_no_records_have_the_same_types():
    assert parse(NESTED).columns.schema == dict(Schema(tuple(NESTED)))


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"user": 5}, "column user: expected object, got int"),
        ({"user": {"tags": [1]}}, "column user.tags[0]: expected str, got int"),
        ({"items": [{}, {"n": {"q": "x"}}]}, "column items[1].n.q: expected int, got str"),
        ({"m": {"k": 1.5}}, "column m[...]: expected int, got float"),
        ({"j": {"a": 1}}, "column j: expected a text that holds JSON, got object"),
        ({"j": '{"a": "x"}'}, "column j: in its JSON: column a: expected int, got str"),
        ({"j": "[" * 200}, "column j: its text is nested deeper than 128"),
        ({"ll": [[1], 2]}, "column ll[1]: expected array, got int"),
    ],
)
def test_a_reason_names_the_place(document: dict[str, Any], reason: str):
    assert reasons(parse(NESTED, document)) == [reason]


def test_a_column_reads_its_path():
    parsed = parse(
        [
            Field("at", TEXT, ("@timestamp",)),
            Field("price", FLOAT, ("details", "price"), default=0.5),
            Field("details", StructOf((Field("size", INT),))),
            Field("again", INT, ("details", "size"), required=True),
        ],
        {"@timestamp": "t", "details": {"price": 3, "size": 1}},
        {"details": {"size": 2}},
        {"details": {"price": 1}},
        {},
    )

    assert rows(parsed) == [
        {"at": "t", "price": 3.0, "details": {"size": 1}, "again": 1},
        {"at": None, "price": 0.5, "details": {"size": 2}, "again": 2},
    ]
    assert reasons(parsed) == ["column details.size: missing", "column details: missing"]


@pytest.mark.parametrize(
    "fields",
    [
        [Field("a", INT), Field("b", TEXT, ("a",))],
        [Field("a", INT), Field("b", INT, ("a", "b"))],
        [Field("b", INT, ("a", "b")), Field("a", INT)],
        [Field("b", INT, ("a", "b")), Field("a", ListOf(INT))],
    ],
)
def test_columns_that_read_a_member_as_different_types_are_refused(fields: list[Field]):
    with pytest.raises(PipelineError, match=r"columns '[ab]' and '[ab]' read member 'a' as diff"):
        RecordType(Schema(tuple(fields)))


def test_a_default_of_another_type_is_refused():
    with pytest.raises(PipelineError, match="column 'a': default 'x': expected int, got str"):
        RecordType(Schema((Field("a", INT, default="x"),)))


@pytest.mark.parametrize("around", [ListOf, MapOf, JsonText, lambda kind: ListOf(MapOf(kind))])
def test_a_default_of_another_type_is_refused_in_a_struct_of_any_kind(around: Any):
    inside = StructOf((Field("c", StructOf((Field("a", INT, default="x"),))),))

    with pytest.raises(PipelineError, match="column 'a': default 'x': expected int, got str"):
        RecordType(Schema((Field("b", around(inside)),)))


def test_a_missing_or_null_member_has_the_default():
    fields = [Field("a", INT, default=7), Field("b", ListOf(TEXT), default=["x"])]

    assert rows(parse(fields, {}, {"a": None, "b": None}, {"a": 0, "b": []})) == [
        {"a": 7, "b": ["x"]},
        {"a": 7, "b": ["x"]},
        {"a": 0, "b": []},
    ]


def test_raw_is_the_text_of_the_object():
    fields = [Field("a", INT), Field("body", Raw(pl.String())), Field("b", Raw(pl.Binary()))]
    whole = parse(fields, b'{"a":1 }')
    mixed = parse(fields, b'[{"a":1} ,{"c":"\xc3\xa9"}]', b'{"a": 2}', b"x")

    assert rows(whole) == [{"a": 1, "body": '{"a":1 }', "b": b'{"a":1 }'}]
    assert [(row["a"], row["body"]) for row in rows(mixed)] == [
        (1, '{"a":1}'),
        (None, '{"c":"é"}'),
        (2, '{"a": 2}'),
    ]
    assert mixed.records.tolist() == [0, 0, 1]


def test_decoded_values_follow_the_same_rules():
    type_ = RecordType(Schema((*NESTED, Field("v", LENIENT))))
    good = type_.rows([{"id": 1, "user": {"tags": ["a"]}, "v": "5", "m": {"k": 2}}])

    (row,) = record_columns(type_, good).columns.rows(named=True)
    assert row["user"] == {"name": "?", "tags": ["a"]}
    assert (row["v"], row["m"], type_.converted) == (5, [{"key": "k", "value": 2}], 1)
    with pytest.raises(msgspec.ValidationError) as error:
        type_.rows([{"user": {"name": 5}}])
    assert validation_reason(error.value) == "column user.name: expected str, got int"


def test_time_columns_may_be_nested():
    fields = [Field("at", INT, ("meta", "at")), Field("k", TEXT)]
    parsed = parse(fields, {"meta": {"at": 5}, "k": 1}, {"meta": {"at": "5"}}, times=("at",))

    assert parsed.dead_with_time.tolist() == [0]
    assert parsed.times.to_dict(as_series=False) == {"at": [5]}


@pytest.mark.parametrize("reverse", [False, True])
def test_a_map_and_its_entries_are_columns(reverse):
    pairs = StructOf((Field("z", INT),))
    fields = [
        Field("o", StructOf((Field("m", MapOf(INT)),))),
        Field("a", INT, ("o", "m", "a"), default=7),
        Field("b", INT, ("o", "m", "b")),
        Field("structs", MapOf(pairs)),
        Field("s", pairs, ("structs", "s")),
    ]
    parsed = parse(
        fields[::-1] if reverse else fields,
        {"o": {"m": {"a": 1, "c": 2}}, "structs": {"s": {"z": 3}, "t": None}},
        {"o": {"m": {"a": None}}, "structs": {"t": {"z": 4}}},
        {"o": None},
        {"o": {"m": {"b": "x"}}},
    )
    first, second, third = rows(parsed)
    entries = [{"key": "a", "value": 1}, {"key": "c", "value": 2}]
    structs = [{"key": "s", "value": {"z": 3}}, {"key": "t", "value": None}]
    assert first == {"o": {"m": entries}, "a": 1, "b": None, "structs": structs, "s": {"z": 3}}
    assert (second["a"], second["b"], second["s"]) == (7, None, None)
    assert (third["o"], third["a"], third["structs"]) == (None, 7, None)
    assert reasons(parsed) == ["column o.m[...]: expected int, got str"]


def test_an_entry_of_a_map_may_be_required():
    fields = [Field("m", MapOf(INT)), Field("a", INT, ("m", "a"), required=True)]
    parsed = parse(fields, {"m": {"a": 1}}, {"m": {"b": 1}}, {"m": {"a": None}}, {"m": None}, {})
    assert [row["a"] for row in rows(parsed)] == [1]
    assert reasons(parsed) == [
        "column m.a: missing",
        "column m.a: expected a value, got null",
        "column m: expected object, got null",
        "column m: missing",
    ]


def test_an_object_and_its_members_are_columns():
    user = StructOf((Field("id", INT),))
    fields = [Field("id", INT, ("user", "id")), Field("user", user), Field("n", INT, ("user", "n"))]
    parsed = parse(fields, {"user": {"id": 1, "n": 2}}, {})
    assert rows(parsed) == [
        {"id": 1, "user": {"id": 1}, "n": 2},
        {"id": None, "user": None, "n": None},
    ]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (Field("a", TEXT, ("m", "a")), "reads 'a' of the map 'm' as String, but .* are Int64"),
        (Field("a", INT, ("m", "a", "b")), "reads 'a.b' of the map 'm' as Int64, but"),
    ],
)
def test_an_entry_has_the_type_of_the_values_of_its_map(entry, message):
    with pytest.raises(PipelineError, match=message):
        RecordType(Schema((Field("m", MapOf(INT)), entry)))


def test_a_text_in_place_of_an_object_may_be_json_that_is_not_declared():
    fields = [Field("v", FLOAT, ("body", "v")), Field("xs", ListOf(INT))]
    parsed = parse(fields, {"body": '{"v": 1}'}, {"xs": "[1]"}, b'"text"')
    hint = "; is it JSON in text? field(..., json=True) declares that"
    assert reasons(parsed) == [
        f"column body: expected object, got str{hint}",
        f"column xs: expected array, got str{hint}",
        "expected object, got str",
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", ['{"v": 1}', '{"v": "\u00e9\u4e2d"}'])
def test_text_in_utf_16_is_named(encoding, text):
    (reason,) = reasons(parse([Field("v", INT)], text.encode(encoding)))
    assert reason.endswith("; it looks like UTF-16: write the records in UTF-8")
