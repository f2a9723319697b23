"""Schemas as users write them: docs/semantics.md, "Schemas"."""

import re
from dataclasses import dataclass
from dataclasses import field as attribute
from pathlib import Path
from typing import Annotated, Any, NotRequired, Optional, TypedDict

import polars as pl
import pytest

from tidemark import (
    RAW,
    RECORD_TIME,
    Pipeline,
    PipelineError,
    col,
    count,
    field,
    last,
    monotonic,
    tumbling,
)
from tidemark.core.rows.schema import Schema
from tidemark.language.stream import Stream
from tidemark.plan.explain import render_text


def source(schema: Any, **options: Any) -> Stream:
    settings = {"event_time": RECORD_TIME, "watermark": monotonic(), **options}
    return Pipeline("p").source("in", schema=schema, **settings)


def texts(schema: Any) -> dict[str, str]:
    node = source(schema).node
    assert node.source is not None
    assert dict(node.source.schema) == node.columns
    return node.source.schema.texts()


@dataclass
class Item:
    price: float
    size: int | None = None
    tags: list[str] = attribute(default_factory=lambda: ["none"])


class Place(TypedDict):
    city: str
    zip: NotRequired[str]


@dataclass
class Order:
    id: Annotated[str, field("orderId", str)]
    items: list[Item]
    place: Optional[Place] = None  # noqa: UP045 - users write it
    paid: bool = False


NESTED = {
    "user": {"id": str, "tags": list[str], "at": field("@time", int)},
    "items": [{"price": float, "size": int | None}],
    "labels": dict[str, int],
    "at": field("@timestamp", str),
    "price": field("details.price", float, lenient=True, default=0),
    "odd": field(["a.b", "c"], int, optional=False),
    "payload": field("payload", {"n": int}, json=True),
    "body": RAW,
    "bytes": field(RAW, bytes),
}


def test_a_dict_declares_nested_columns():
    assert texts(NESTED) == {
        "user": "Struct({id: String, tags: List(String), at: Int64 from '@time'})",
        "items": "List(Struct({price: Float64, size: Int64}))",
        "labels": "Map(Int64)",
        "at": "String from '@timestamp'",
        "price": "Float64 lenient from 'details'.'price' default 0",
        "odd": "Int64 from 'a.b'.'c' required",
        "payload": "JSON text of Struct({n: Int64})",
        "body": "raw String",
        "bytes": "raw Binary",
    }


def test_the_schema_that_the_specification_shows_can_be_declared():
    page = Path(__file__).parents[2] / "docs/semantics.md"
    (shown,) = re.findall(r"```python\nschema = (\{.*?)```", page.read_text("utf-8"), re.DOTALL)
    found = texts(eval(shown, {"RAW": RAW, "field": field}))

    assert found["unit"] == "String from 'details'.'unit.name'"
    assert found["body"] == "raw String"


def test_classes_declare_what_is_required():
    item = "Struct({price: Float64 required, size: Int64, tags: List(String) default ['none']})"
    assert texts(Order) == {
        "id": "String from 'orderId' required",
        "items": f"List({item}) required",
        "place": "Struct({city: String required, zip: String})",
        "paid": "Boolean default False",
    }
    assert texts(Place) == {"city": "String required", "zip": "String"}


def test_a_pydantic_model_declares_columns():
    pydantic: Any = pytest.importorskip("pydantic")
    inner = pydantic.create_model("Inner", at=(int, pydantic.Field(alias="@at")))
    place = pydantic.AliasPath("a", "b")
    event = pydantic.create_model(
        "Event",
        kind=(str, ...),
        inner=(inner | None, None),
        price=(float, pydantic.Field(default=1.5, validation_alias=place)),
    )

    assert texts(event) == {
        "kind": "String required",
        "inner": "Struct({at: Int64 from '@at' required})",
        "price": "Float64 from 'a'.'b' default 1.5",
    }


def test_a_list_of_structs_has_two_spellings():
    item = {"p": float}

    assert texts({"a": [item]}) == texts({"a": list[item]}) == {"a": "List(Struct({p: Float64}))"}  # type: ignore[valid-type]


def test_a_flat_schema_is_described_as_before():
    flat = {"a": str, "b": int, "c": float, "d": bool, "e": list[int]}

    assert texts(flat) == {name: str(dtype) for name, dtype in source(flat).columns.items()}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({}, "is not a dict of column names and types"),
        (str, "is not a dict of column names and types"),
        ({"a": object}, "column 'a': object is not a type; use str, int"),
        ({"a": {}}, "column 'a': {} is not a type"),
        ({"a": list[complex]}, r"column 'a'\[\]: complex is not a type"),
        ({"a": {"b": complex}}, "column 'a': column 'b': complex is not a type"),
        ({"a": {"b": RAW}}, "column 'a': RAW is a column"),
        ({"a": {"x\"": int}}, "member 'x\"': "),
        ({"a": {"*": int}}, r"member '\*'"),
        ({"@timestamp": str}, r"'@timestamp': .* reserved; .*: \{'timestamp': field\('@timesta"),
        ({"_key": str}, r"'_key' is a metadata column; .*: \{'key': field\('_key', ...\)\}"),
        ({"a.b": str}, r"write \{'a_b': field\('a.b', ...\)\}, or field\(\['a.b'\], ...\)"),
        ({"a": int, "b": field("a.c", int)}, "columns 'a' and 'b' read member 'a' as .*; leave"),
        ({"a": field("a", int, default="x")}, "column 'a': default 'x': expected int, got str"),
        ({"a": [{"b": field("b", int, default="x")}]}, "column 'b': default 'x': expected int"),
        ({"a": [field("b", int)]}, r"column 'a'\[\]: field\(\) is a member"),
        ({"a": field(RAW, int)}, "column 'a': RAW is str or bytes, not int"),
        ({"a": field("b")}, "is not a type"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_is_refused(schema: Any, message: str):
    with pytest.raises(PipelineError, match=message):
        source(schema)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: declare(""), "'' is not a path"),
        (lambda: declare("a..b"), "'a..b' is not a path"),
        (lambda: declare(5), "5 is not a path"),
        (lambda: declare("a", lenient=True), "options need a type"),
        (lambda: declare("a", int, lenient=1), "lenient: 1 is not True or False"),
        (
            lambda: declare("a", int, default=1, optional=False),
            "a field with a default is optional",
        ),
        (lambda: declare(RAW, str, default="x"), "RAW is the whole record, so it has no options"),
    ],
)
def test_a_field_that_cannot_be_is_refused(call: Any, message: str):
    with pytest.raises(PipelineError, match=message):
        call()


declare: Any = field

USER = {"user": {"id": str, "at": int, "org": {"id": str}}, "items": [{"p": float}]}


def test_keys_and_event_time_may_be_nested():
    pipeline = Pipeline("p")
    rows = pipeline.source("in", schema=USER, event_time="user.at", unit="s", watermark=monotonic())
    keyed = rows.key_by("user.id", org="user.org.id")

    assert keyed.key == ("id", "org")
    assert list(keyed.node.columns) == ["user", "items", "id", "org"]
    again = rows.key_by("user.id", org="user.org.id")
    assert again.node is keyed.node
    keyed.window(tumbling("1m")).aggregate(n=count()).to("n")
    again.window(tumbling("1h")).aggregate(n=count()).to("hours")
    (log,) = pipeline.plan().logs
    assert [stream.name for stream in log.streams] == ["in"]
    assert "event time user.at (s)" in render_text(pipeline.plan())


def test_a_plain_column_may_be_named():
    rows = source({"order": str, "v": int}).key_by(order_id="order")

    assert rows.key == ("order_id",)
    assert list(rows.node.columns) == ["order", "v", "order_id"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.key_by("user.id", "user.org.id"), "named twice; write name='path'"),
        (lambda s: s.key_by("user.name"), r"'user' has no field 'name' \(fields: id, at, org\)"),
        (lambda s: s.key_by("user.id.x"), "'user.id' has no field 'x', it is String"),
        (lambda s: s.key_by("usr.id"), "no column 'usr'; did you mean 'user'"),
        (lambda s: s.key_by("user"), "is Struct.* not a type for keys"),
        (
            lambda s: s.key_by(user="user.id"),
            r"column 'user' already; .*key_by\(user_id='user.id'\)",
        ),
        (
            lambda s: s.filter(field("user.nam") == "x"),
            r"no field 'nam' in a struct column \(struct columns: user: ",
        ),
    ],
)
def test_a_nested_key_that_cannot_be_is_refused(call: Any, message: str):
    with pytest.raises(PipelineError, match=message):
        call(source(USER))


def test_event_time_that_cannot_be_is_refused():
    with pytest.raises(PipelineError, match="event_time: 'user' has no field 'time'"):
        source(USER, event_time="user.time")
    with pytest.raises(PipelineError, match=r"event_time column 'user.id' is String"):
        source(USER, event_time="user.id")


def test_a_member_of_a_map_is_an_expression():
    item = pl.element().struct.field
    color = col("labels").list.filter(item("key") == "color").list.first().struct.field("value")
    rows = source({"labels": dict[str, str]}).select(color=color)

    assert rows.columns == {"color": pl.String()}


def test_nested_values_are_columns_for_operators():
    rows = (
        source(USER)
        .explode("items")
        .select(price=field("items.p"), who=field("user.org.id"), big=field("items.p") > 3)
    )

    assert rows.columns == {"price": pl.Float64(), "who": pl.String(), "big": pl.Boolean()}
    assert Schema.of(rows.columns)["price"] == pl.Float64


def test_results_cannot_hold_bytes():
    windows = source({"k": str, "b": field(RAW, bytes)}).key_by("k").window(tumbling("1m"))

    with pytest.raises(
        PipelineError, match=r"x=last\(\"b\"\): results cannot hold bytes \(Binary\)"
    ):
        windows.aggregate(x=last("b"))
