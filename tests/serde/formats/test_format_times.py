"""Formats with times and decimals of their own: a column of times needs no unit."""

import base64
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import fastavro
import pytest
from google.protobuf import message_factory

from tests.serde.outcomes import outcomes
from tests.support.protobuf import READING_SET
from tidemark import field
from tidemark.language.schema import schema_of
from tidemark.serde.decoders import record_decoder
from tidemark.serde.formats.protobuf_values import message_descriptor
from tidemark.serde.formats.source_format import AvroFormat, DebeziumFormat, ProtobufFormat
from tidemark.serde.records import RecordBatch

AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
US = 1_767_323_045_678_000
DAY = 20_455
AVRO = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "us", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "list",
            "type": {
                "type": "array",
                "items": {"type": "long", "connect.name": "io.debezium.time.NanoTimestamp"},
            },
        },
        {"name": "n", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
ROW = {"ms": US // 1000, "us": US, "day": DAY, "list": [US * 1000], "n": US}
SCHEMA = {
    "ms": datetime,
    "us": field("us", datetime, unit="s"),
    "day": date,
    "list": list[datetime],
    "n": int,
}


def parsed(format_, schema, *values, writers=None):
    decoder = record_decoder(format_, schema_of(schema, "s"), (), writers)
    return decoder.parse(RecordBatch.of_values("t", 0, 0, values, 0))


def avro(row) -> bytes:
    body = io.BytesIO()
    plain = json.loads(json.dumps(AVRO).replace("logicalType", "x"))
    fastavro.schemaless_writer(body, fastavro.parse_schema(plain), row)
    return body.getvalue()


class Writers:
    def texts(self, _number):
        return [json.dumps(AVRO)]


@pytest.mark.parametrize("framed", [False, True])
def test_logical_types_of_avro_have_their_own_unit(framed):
    value = (b"\0\0\0\0\1" if framed else b"") + avro(ROW)
    format_ = AvroFormat() if framed else AvroFormat(json.dumps(AVRO), framed=False)
    found = parsed(format_, SCHEMA, value, writers=Writers())
    assert found.columns.rows() == [(AT, AT, date(2026, 1, 2), [AT], US)]
    plain = parsed(format_, dict.fromkeys(["ms", "day"], int), value, writers=Writers())
    assert plain.columns.rows() == [(US // 1000, DAY)]


def test_a_date_is_no_instant_and_an_instant_no_date():
    format_ = AvroFormat(json.dumps(AVRO), framed=False)
    found = parsed(format_, {"day": datetime}, avro(ROW))
    assert outcomes(found) == {0: "column day: expected datetime in unit auto, got a date"}
    found = parsed(format_, {"ms": date}, avro(ROW))
    assert outcomes(found) == {0: "column ms: expected date in unit %Y-%m-%d, got an instant"}


def test_numbers_with_a_type_may_be_text_where_the_column_is_lenient():
    format_ = AvroFormat(json.dumps(AVRO), framed=False)
    texts = {"n": field("n", str, lenient=True), "r": field("list", str, lenient=True)}
    schema = {"ms": datetime, **texts}
    assert parsed(format_, schema, avro(ROW)).columns.rows() == [
        (AT, str(US), f"[{US * 1000}]"),
    ]


def number(value: int) -> str:
    return base64.b64encode(value.to_bytes(4, "big", signed=True)).decode()


COLUMNS = [
    {"field": "made", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
    {"field": "zoned", "type": "string", "name": "io.debezium.time.ZonedTimestamp"},
    {
        "field": "price",
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2"},
    },
    {"field": "any", "type": "struct", "name": "io.debezium.data.VariableScaleDecimal"},
]
ENVELOPE = {
    "type": "struct",
    "fields": [
        {"field": side, "type": "struct", "fields": COLUMNS} for side in ("before", "after")
    ],
}
CHANGE = {
    "op": "u",
    "before": None,
    "after": {
        "made": US,
        "day": DAY,
        "zoned": "2026-01-02T03:04:05.678Z",
        "price": number(-1_250),
        "any": {"scale": 3, "value": number(5)},
    },
}
CHANGES = {
    "made": datetime,
    "day": date,
    "zoned": datetime,
    "price": str,
    "number": field("any", float, lenient=True),
}


def debezium(schema, change, envelope=ENVELOPE):
    value = {"schema": envelope, "payload": change} if envelope is not None else change
    return parsed(DebeziumFormat("json"), schema, json.dumps(value).encode())


def test_debezium_with_the_schema_beside_it_has_times_and_decimals():
    found = debezium(CHANGES, CHANGE)
    assert found.columns.rows() == [(AT, date(2026, 1, 2), AT, "-12.50", 0.005)]
    assert Decimal(found.columns.item(0, "price")) == Decimal("-12.50")


@pytest.mark.parametrize(
    "envelope", [{}, {"fields": 1}, {"fields": [1, {"field": "after", "fields": [{"field": 1}]}]}]
)
def test_an_invalid_schema_beside_a_change_has_no_effect(envelope):
    found = debezium({"made": int, "price": str}, CHANGE, envelope)
    assert found.columns.rows() == [(US, number(-1_250))]


def test_a_decimal_in_base64_names_the_setting_of_the_connector():
    found = debezium({"price": float}, CHANGE, None)
    assert outcomes(found) == {
        0: "column price: expected float, got str; of a decimal, set the connector's "
        "decimal.handling.mode to double, or to string with field(..., float, lenient=True)"
    }
    lenient = debezium({"price": field("price", float, lenient=True)}, CHANGE, None)
    assert "decimal.handling.mode" in outcomes(lenient)[0]
    name = {"op": "c", "after": {"price": "twelve"}}
    assert outcomes(debezium({"price": float}, name, None)) == {
        0: "column price: expected float, got str"
    }


def test_a_timestamp_of_protobuf_is_an_instant():
    reading = message_factory.GetMessageClass(message_descriptor(READING_SET, "sensors.Reading"))
    message = reading(id="a")
    message.seen.FromJsonString("2026-01-02T03:04:05.678901Z")
    form = ProtobufFormat(READING_SET, "sensors.Reading")
    found = parsed(form, {"seen": datetime}, message.SerializeToString(), b"")
    assert found.columns.rows() == [(AT,), (None,)]
