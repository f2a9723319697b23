"""Records that hold a list of rows: what each row has, and which records are dead or blank."""

import io
import json
import tracemalloc
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serde.outcomes import outcomes, parsed_by
from tests.support.hostile import BLANK, GOOD
from tidemark import RAW, field
from tidemark.core.rows.row_size import MAX_RECORD_BYTES
from tidemark.language.schema import schema_of
from tidemark.serde.decoders import record_decoder
from tidemark.serde.formats.source_format import (
    JSON,
    AvroFormat,
    CloudEventsFormat,
    ExplodedFormat,
)

SCHEMA = {"device": str, "at": field("locations.at", int), "v": field("locations.v", float)}
SPANS = ("resourceSpans", "scopeSpans", "spans")


def parsed(schema: dict[str, Any], path: tuple[str, ...], *values: Any, of=JSON, times=()):
    decoder = record_decoder(ExplodedFormat(of, path), schema_of(schema, "s"), times)
    return parsed_by(
        decoder, [v if isinstance(v, bytes) else json.dumps(v).encode() for v in values]
    )


def rows(*values: Any, schema: Any = SCHEMA, path: tuple[str, ...] = ("locations",), of=JSON):
    return parsed(schema, path, *values, of=of).columns.rows()


def verdict(value: Any, schema: Any = SCHEMA, path: tuple[str, ...] = ("locations",)) -> str:
    return outcomes(parsed(schema, path, value))[0]


def test_each_item_is_a_row_with_the_members_around_the_list():
    first = {"device": "a", "locations": [{"at": 1, "v": 1.5}, {"at": 2}], "unread": [1] * 9}
    second = {"device": "b", "locations": [{"at": 3, "v": 3}]}
    found = parsed(SCHEMA, ("locations",), first, second)
    assert found.columns.rows() == [("a", 1, 1.5), ("a", 2, None), ("b", 3, 3.0)]
    assert found.records.tolist() == [0, 0, 1]
    assert rows([first, second]) == found.columns.rows()
    assert rows(b"\xef\xbb\xbf" + json.dumps(second).encode()) == [("b", 3, 3.0)]


def test_an_item_may_be_a_struct_or_a_value():
    record = {"device": "a", "locations": [{"at": 1}, None]}
    schema = {"device": str, "locations": {"at": int}}
    assert rows(record, schema=schema) == [("a", {"at": 1}), ("a", None)]
    assert rows({"v": [1, 2]}, schema={"v": int}, path=("v",)) == [(1,), (2,)]
    points = {"points": [[1, 2], []]}
    assert rows(points, schema={"points": list[int]}, path=("points",)) == [([1, 2],), ([],)]


def test_lists_on_the_way_are_exploded_too():
    span = [{"name": "x"}, {"name": "y"}]
    resource = {"service": "cart", "other": 1}
    trace = {
        "resourceSpans": [
            {"resource": resource, "scopeSpans": [{"spans": span}, {}, {"spans": None}]},
            {"scopeSpans": [{"spans": span[:1]}]},
            None,
        ]
    }
    schema = {
        "service": field("resourceSpans.resource.service", str),
        "resourceSpans": {"scopeSpans": {"spans": {"name": str}}},
    }
    names = [
        (service, each["scopeSpans"]["spans"]["name"])
        for service, each in rows(trace, schema=schema, path=SPANS)
    ]
    assert names == [("cart", "x"), ("cart", "y"), (None, "x")]
    assert rows({"data": {"v": [1]}}, schema={"n": field("data.v", int)}, path=("data", "v")) == [
        (1,)
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"locations": []}, BLANK),
        ({"locations": None}, BLANK),
        (b" ", BLANK),
        ([{"locations": []}, {"locations": [{"at": 1}]}], GOOD),
        ({"device": "a"}, "no list at 'locations', which is exploded"),
        ({"locations": {"at": 1}}, "column locations: expected an array, got object"),
        ({"locations": [3]}, "column locations: expected object, got int"),
        ([3], "expected an object, got int"),
        ([], "expected an object, got an empty array"),
        (
            {"locations": [{"v": 1}, {"v": "x"}]},
            "element 1: column locations.v: expected float, got str",
        ),
        ({"device": 1, "locations": [{}]}, "column device: expected str, got int"),
        (b'{"locations": [', "not JSON: ends too early (byte 15)"),
    ],
)
def test_records_without_rows_are_blank_or_dead(value, expected):
    assert verdict(value) == expected


def test_an_object_on_the_way_must_have_the_list_or_be_null():
    schema, path = {"v": field("data.items.v", int)}, ("data", "items")
    assert verdict({"data": None}, schema, path) == BLANK
    assert verdict({"data": []}, schema, path) == BLANK
    assert verdict({"data": {}}, schema, path) == "no list at 'data.items', which is exploded"
    assert verdict({"data": 5}, schema, path) == "column data: expected an object, got int"
    assert verdict({"data": {"items": "x"}}, schema, path) == (
        "column data.items: expected an array, got str"
    )


def test_a_bad_item_does_not_touch_other_records_and_its_good_times_move_time():
    good = {"device": "a", "locations": [{"at": 1}]}
    bad = {"device": "a", "locations": [{"at": 5, "v": "x"}, {"at": 9}]}
    found = parsed(SCHEMA, ("locations",), good, bad, good, times=["at"])
    assert found.records.tolist() == [0, 2]
    assert found.dead_with_time.tolist() == [1, 1]
    assert found.times["at"].to_list() == [5, 9]


def test_lenient_numbers_and_raw():
    schema = {"v": field("xs.v", float, lenient=True), "body": RAW}
    text = b'{"xs": [{"v": NaN}, {"v": "2.5"}]}'
    found = parsed(schema, ("xs",), text)
    assert found.columns.rows() == [(None, text.decode()), (2.5, text.decode())]
    assert found.converted == 2
    assert verdict(text, {"v": field("xs.v", float)}, ("xs",)).startswith("not JSON: ")


def test_other_formats_explode_too():
    event = {"specversion": "1.0", "id": "e", "source": "s", "type": "t", "data": {"v": [1, 2]}}
    schema = {"id": str, "v": field("data.v", int)}
    assert rows(event, schema=schema, path=("data", "v"), of=CloudEventsFormat()) == [
        ("e", 1),
        ("e", 2),
    ]
    item = {"type": "record", "name": "Item", "fields": [{"name": "v", "type": "int"}]}
    fields = [
        {"name": "id", "type": "string"},
        {"name": "xs", "type": {"type": "array", "items": item}},
    ]
    body = io.BytesIO()
    record: dict[str, Any] = {"type": "record", "name": "R", "fields": fields}
    value = {"id": "e", "xs": [{"v": 1}, {"v": 2}]}
    fastavro.schemaless_writer(body, fastavro.parse_schema(record), value)
    schema = {"id": str, "v": field("xs.v", int)}
    of = AvroFormat(json.dumps(record), framed=False)
    assert rows(body.getvalue(), schema=schema, path=("xs",), of=of) == [("e", 1), ("e", 2)]


WIDE = {f"c{n}": int for n in range(100)}
BOMBS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "many items": ({"xs": int} | dict.fromkeys("abcdefghij", int), {"xs": [1] * 60_000}),
    "many rows of many columns": (WIDE | {"xs": int}, {"xs": [1] * 20_000}),
    "a long text beside": ({"xs": int, "a": str}, {"xs": [1] * 10_000, "a": "x" * 500_000}),
    "a long text in an object beside": (
        {"xs": int, "a": {"b": str}},
        {"xs": [1] * 10_000, "a": {"b": "é" * 200_000}},
    ),
    "many objects beside": (
        {"xs": int, "a": [WIDE]},
        {"xs": [1] * 1_000, "a": [{}] * 10_000},
    ),
    "a record beside itself": ({"xs": int, "body": RAW}, {"xs": [1] * 20_000}),
    "a list beside": ({"xs": int, "a": list[int]}, {"xs": [1] * 50_000, "a": [1] * 20_000}),
}


@pytest.mark.parametrize("name", BOMBS)
def test_rows_that_would_fill_the_memory_are_not_made(name):
    schema, record = BOMBS[name]
    text = json.dumps(record).encode()
    tracemalloc.start()
    try:
        reason = verdict(text, schema, ("xs",))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reason.startswith("rows of ")
    assert reason.endswith(f" bytes, at most {MAX_RECORD_BYTES:,} are possible")
    assert peak < 150e6


def test_members_that_no_column_reads_take_no_memory():
    record: dict[str, Any] = {
        "xs": [1] * 20_000,
        "a": {f"m{n}": n for n in range(20_000)},
        "b": "x" * 1_000_000,
    }
    schema = {"xs": int, "m1": field("a.m1", int)}
    assert rows(record, schema=schema, path=("xs",)) == [(1, 1)] * 20_000
    inside = {"a": {**record["a"], "xs": record["xs"]}}
    assert verdict(inside, {"x": field("a.xs", int)}, ("a", "xs")) == GOOD


def test_rows_within_the_bound_pass_although_members_repeat():
    record = {"xs": [1] * 4_000, "a": "\u0001" * 1_000}
    assert verdict(record, {"xs": int, "a": str}, ("xs",)) == GOOD


values = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([1.5, "a", [], {}])
items = values | st.fixed_dictionaries({}, optional={"at": values, "v": values, "other": values})
documents = st.fixed_dictionaries(
    {"track": st.fixed_dictionaries({"points": st.lists(items, min_size=1, max_size=3)})},
    optional={"device": values, "meta": st.fixed_dictionaries({}, optional={"k": values})},
)


def beside(record):
    """Return the members beside the list, in the order of the schema, as reasons name the first."""
    return {name: record[name] for name in ("device", "meta") if name in record}


@given(st.lists(documents, min_size=1, max_size=5))
def test_a_record_is_read_as_its_rows_would_be_in_an_array(records):
    schema = {
        "device": str,
        "k": field("meta.k", int),
        "at": field("track.points.at", int),
        "v": field("track.points.v", float, lenient=True),
    }
    arrays = [
        [{**beside(each), "track": {"points": point}} for point in each["track"]["points"]]
        for each in records
    ]
    texts = [json.dumps(each[0] if len(each) == 1 else each).encode() for each in arrays]
    expected = parsed_by(record_decoder(JSON, schema_of(schema, "s")), texts)
    found = parsed(schema, ("track", "points"), *records)
    assert outcomes(found) == outcomes(expected)
    assert found.records.tolist() == expected.records.tolist()
    assert found.columns.equals(expected.columns)
    assert found.converted == expected.converted
