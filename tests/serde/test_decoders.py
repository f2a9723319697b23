"""The decoder of each format: types, defaults and reasons are those of JSON records."""

import io
import json
from dataclasses import replace

import fastavro
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.core.rows.schema import Field, Scalar, Schema
from tidemark.serde.decoders import record_decoder
from tidemark.serde.formats.source_format import (
    JSON,
    AvroFormat,
    BytesFormat,
    CloudEventsFormat,
    CsvFormat,
    DebeziumFormat,
    TextFormat,
)
from tidemark.serde.records import RecordBatch

SCHEMA = Schema(
    (
        Field("id", Scalar(pl.String()), required=True),
        Field("at", Scalar(pl.Int64())),
        Field("v", Scalar(pl.Float64()), default=0.5),
    )
)
AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "at", "type": ["null", "long", "string"]},
        {"name": "v", "type": ["null", "double"]},
    ],
}
_PARSED = fastavro.parse_schema(AVRO)


class Writers:
    def texts(self, number):
        return [json.dumps(AVRO)] if number == 7 else None


def avro(row, framing=b""):
    body = io.BytesIO(framing)
    body.seek(len(framing))
    fastavro.schemaless_writer(body, _PARSED, row)
    return body.getvalue()


ENCODERS = {
    JSON: lambda row: json.dumps(row).encode(),
    AvroFormat(json.dumps(AVRO), framed=False): avro,
    AvroFormat(): lambda row: avro(row, b"\0\0\0\0\7"),
    DebeziumFormat("json"): lambda row: json.dumps({"op": "c", "after": row}).encode(),
}
FORMATS = pytest.mark.parametrize("form", ENCODERS, ids=str)


def parse(form, values, schema=SCHEMA, times=("at",)):
    decoder = record_decoder(form, schema, times, Writers())
    return decoder.parse(RecordBatch.of_values("t", 0, 0, values, 0))


@FORMATS
def test_rows_have_the_types_and_defaults_of_the_schema(form):
    encode = ENCODERS[form]
    parsed = parse(form, [encode({"id": "a", "at": 1, "v": 2}), None, encode({"id": "b"})])
    assert parsed.records.tolist() == [0, 2]
    assert parsed.columns.rows() == [("a", 1, 2.0), ("b", None, 0.5)]
    assert parsed.columns.schema == {"id": pl.String, "at": pl.Int64, "v": pl.Float64}
    assert list(parsed.blank) == [1]


@FORMATS
def test_a_record_of_another_type_is_dead_and_the_reason_names_the_column(form):
    encode = ENCODERS[form]
    parsed = parse(form, [encode({"id": "a", "at": "x"}), encode({"id": "b", "at": 2})])
    ((index, reason),) = [(each.index, each.reason) for each in parsed.dead]
    assert (index, reason) == (0, "column at: expected int, got str")
    assert parsed.columns.rows() == [("b", 2, 0.5)]


@pytest.mark.parametrize("form", [JSON, DebeziumFormat("json")], ids=str)
def test_a_record_that_is_dead_in_another_column_still_has_its_time(form):
    encode = ENCODERS[form]
    parsed = parse(form, [encode({"at": 3}), encode({"id": "a", "at": "x"})])
    assert next(each.reason for each in parsed.dead) == "column id: missing"
    assert parsed.dead_with_time.tolist() == [0]
    assert parsed.times.rows() == [(3,)]


@FORMATS
@given(data=st.data())
def test_neighbours_change_nothing(form, data):
    encode = ENCODERS[form]
    values = st.one_of(
        st.none(),
        st.binary(max_size=12),
        st.builds(
            lambda id_, at, v: encode({"id": id_, "at": at, "v": v}),
            st.text(max_size=3),
            st.one_of(st.none(), st.integers(-9, 9), st.just("x")),
            st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
        ),
    )
    batch = data.draw(st.lists(values, max_size=6))
    together = parse(form, batch)
    fates = {}
    for index, value in enumerate(batch):
        alone = parse(form, [value])
        rows = together.columns.filter(pl.Series(together.records == index, dtype=pl.Boolean))
        assert alone.columns.equals(rows)
        fates[index] = [each.reason for each in alone.dead]
    assert {n: [d.reason for d in together.dead if d.index == n] for n in fates} == fates


def test_lines_of_csv_are_rows_and_numbers_are_read_from_text():
    schema = Schema(
        (
            Field("id", Scalar(pl.String())),
            Field("at", Scalar(pl.Int64(), lenient=True)),
            Field("v", Scalar(pl.Float64(), lenient=True)),
        )
    )
    values = [b"a,1,2.5\nb,2,", b"c,x,1", b"", b"d,3", b"e, 4 ,1e3"]
    parsed = parse(CsvFormat(("id", "at", "v")), values, schema)
    assert parsed.records.tolist() == [0, 0, 4]
    assert parsed.columns.rows() == [("a", 1, 2.5), ("b", 2, None), ("e", 4, 1000.0)]
    assert list(parsed.blank) == [2]
    assert [(each.index, each.reason) for each in parsed.dead] == [
        (1, "column at: expected int, got 'x'"),
        (3, "row 1 has 2 fields, not 3: id, at, v"),
    ]


def test_the_reason_names_the_row_of_a_record_with_several():
    events = [
        {"specversion": "1.0", "id": n, "source": "s", "type": t, "data": {"at": at}}
        for n, t, at in (("1", "t", 1), ("2", "t", "x"))
    ]
    schema = Schema((Field("at", Scalar(pl.Int64()), path=("data", "at")),))
    parsed = parse(CloudEventsFormat(), [json.dumps(events).encode()], schema)
    assert [each.reason for each in parsed.dead] == [
        "element 1: column data.at: expected int, got str"
    ]


def test_a_cloud_event_without_a_value_is_a_row():
    names = ("specversion", "id", "source", "type")
    headers = [(f"ce_{name}", b"1.0") for name in names]
    batch = replace(RecordBatch.of_values("t", 0, 0, [None, None], 0), headers=[headers, None])
    schema = Schema((Field("type", Scalar(pl.String())),))
    parsed = record_decoder(CloudEventsFormat(), schema).parse(batch)
    assert parsed.columns.rows() == [("1.0",)]
    assert list(parsed.blank) == [1]


def test_a_value_is_text_or_bytes_as_a_whole():
    values = ["é".encode(), b"\xff", None, b""]
    text = parse(TextFormat(), values, Schema((Field("line", Scalar(pl.String())),)), ())
    assert text.columns.rows() == [("é",), ("",)]
    assert [each.reason for each in text.dead] == ["not UTF-8 (byte 0)"]
    raw = parse(BytesFormat(), values, Schema((Field("data", Scalar(pl.Binary())),)), ())
    assert raw.columns.rows() == [("é".encode(),), (b"\xff",), (b"",)]
    assert list(raw.blank) == [2]
