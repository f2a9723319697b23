"""Formats of sources: what follows from their schemas, and wrong options."""

import json

import polars as pl
import pytest

from tests.support.protobuf import READING_SET
from tidemark import (
    RECORD_TIME,
    Pipeline,
    PipelineError,
    avro,
    count,
    csv,
    field,
    monotonic,
    protobuf,
    tumbling,
)
from tidemark.plan.changes import changes
from tidemark.plan.explain import render_text
from tidemark.plan.program import program_of

SENSOR = {
    "type": "record",
    "name": "Sensor",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "celsius", "type": ["null", "double"], "default": None},
    ],
}
COLUMNS = {"id": str, "at": int}


def plan(key="id", event_time="at", **options):
    pipeline = Pipeline("p")
    source = pipeline.source("t", event_time=event_time, watermark=monotonic(), **options)
    source.key_by(key).window(tumbling("1s")).aggregate(n=count()).to("o")
    return pipeline.plan()


def columns(**options):
    return dict(plan(**options).sources[0].schema)


@pytest.fixture
def descriptors(tmp_path):
    path = tmp_path / "reading.desc"
    path.write_bytes(READING_SET)
    return path


def test_columns_follow_from_an_avro_schema(tmp_path):
    path = tmp_path / "sensor.avsc"
    path.write_text(json.dumps(SENSOR))
    expected = {"id": pl.String, "at": pl.Int64, "celsius": pl.Float64}
    for schema in (SENSOR, json.dumps(SENSOR), path, str(path)):
        assert columns(format=avro(schema)) == expected
        assert columns(format=avro(schema, framed=True)) == expected


def test_nested_columns_follow_from_an_avro_schema():
    place = {"type": "record", "name": "Place", "fields": [{"name": "lat", "type": "double"}]}
    nested = {
        "place": place,
        "others": {"type": "array", "items": "Place"},
        "counts": {"type": "map", "values": ["null", "long"]},
        "raw": "bytes",
    }
    fields = [{"name": name, "type": kind} for name, kind in nested.items()]
    found = columns(format=avro({**SENSOR, "fields": [*SENSOR["fields"], *fields]}))
    lat = pl.Struct({"lat": pl.Float64})
    assert {name: found[name] for name in nested} == {
        "place": lat,
        "others": pl.List(lat),
        "counts": pl.List(pl.Struct({"key": pl.String, "value": pl.Int64})),
        "raw": pl.Binary,
    }


def test_columns_follow_from_a_message(descriptors):
    found = columns(format=protobuf(descriptors, "sensors.Reading"))
    assert found["place"] == pl.Struct({"lat": pl.Float64})
    assert found["seen"] == pl.String


def test_a_schema_chooses_columns(descriptors):
    assert columns(schema=COLUMNS, format=avro(SENSOR)) == {"id": pl.String, "at": pl.Int64}
    chosen = protobuf(descriptors, "sensors.Reading")
    assert columns(schema=COLUMNS, format=chosen) == {"id": pl.String, "at": pl.Int64}


def test_columns_follow_from_text_and_bytes():
    assert columns(key="value", event_time=RECORD_TIME, format="text") == {"value": pl.String}
    with pytest.raises(PipelineError, match="Binary, which is not a type for keys"):
        plan(key="value", event_time=RECORD_TIME, format="bytes")


def test_fields_of_csv_are_the_columns_in_order_and_numbers_are_text():
    source = plan(schema=COLUMNS, format="csv").sources[0]
    assert source.format.columns == ("id", "at")
    assert source.schema.texts() == {"id": "String", "at": "Int64 lenient"}


@pytest.mark.parametrize("form", ["json", "avro", "csv", "cloudevents", "debezium-json"])
def test_other_formats_need_a_schema(form):
    with pytest.raises(PipelineError, match=r"source\('t'\): schema= is missing"):
        plan(format=form)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"format": "xml"}, "format 'xml' is not one of json, json-schema, avro, csv"),
        ({"format": 7}, "format 7 is not one of"),
        ({"format": "protobuf"}, r"needs its message; write protobuf\(...\)"),
        ({"format": "text"}, "exactly one column, of type String"),
        ({"format": "bytes", "schema": {"line": str}}, "exactly one column, of type Binary"),
        ({"format": "csv", "schema": {"id": list[str]}}, "column 'id': a field of CSV is no List"),
        ({"format": "csv", "schema": {"id": field("a.b", str)}}, "column 'id': a field of CSV is"),
        ({"format": csv(["id"])}, r"csv\(\) has no 'at'; it has id"),
        ({"format": avro(SENSOR), "schema": {"idd": str}}, "its Avro schema has no 'idd'"),
    ],
)
def test_a_format_that_does_not_fit_is_an_error(options, why):
    with pytest.raises(PipelineError, match=why):
        plan(**{"schema": COLUMNS, **options})


def test_a_message_that_does_not_fit_is_an_error(descriptors):
    chosen = protobuf(descriptors, "sensors.Reading")
    with pytest.raises(
        PipelineError, match=r"message sensors\.Reading has no 'idd'; it has id, at"
    ):
        plan(schema={"idd": str}, format=chosen)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: avro("nowhere.avsc"), "nowhere.avsc.*working directory"),
        (lambda: avro({"type": "wrong"}), "not an Avro schema"),
        (lambda: avro(framed=False), "need the schema that wrote them"),
        (lambda: protobuf("nowhere.desc", "a.A"), "nowhere.desc.*working directory"),
        (lambda: protobuf("nowhere.desc"), "message= must name a message"),
        (lambda: protobuf(str), r"protobuf\(str\): write a generated class"),
        (lambda: csv(["a"], header=True), "columns are named by the header"),
        (lambda: csv(["a", "a"]), "distinct names"),
        (lambda: csv("a,b"), "distinct names"),
        (lambda: csv(delimiter=";;"), "it must be one character"),
        (lambda: csv(delimiter=""), "it must be one character"),
        (lambda: csv(quote="\n"), "it must be one character"),
        (lambda: csv(delimiter='"'), "quote is the same character"),
    ],
)
def test_a_wrong_option_is_an_error(make, why):
    with pytest.raises(PipelineError, match=why):
        make()


def test_the_format_is_a_part_of_what_the_log_is():
    before, after = plan(schema=COLUMNS), plan(schema=COLUMNS, format=avro(SENSOR))
    assert before.fingerprint != after.fingerprint
    (change,) = changes(program_of(before), program_of(after))
    assert str(change) == "the format of source t was json, is now avro"
    wider = {**SENSOR, "fields": [*SENSOR["fields"], {"name": "n", "type": "int", "default": 0}]}
    evolved = plan(schema=COLUMNS, format=avro(wider))
    assert changes(program_of(after), program_of(evolved)) == []


def test_explain_shows_the_format():
    assert "format avro framed" in render_text(plan(schema=COLUMNS, format="avro"))
    assert "format" not in render_text(plan(schema=COLUMNS))
