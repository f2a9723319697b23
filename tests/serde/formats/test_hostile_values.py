"""Damaged and random bytes: each value is decoded, or has a reason.  Nothing else is raised."""

import io
import json
from typing import Any

import fastavro
import pytest
from google.protobuf import message_factory
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.protobuf import READING_SET
from tidemark.serde.formats.avro_values import AvroValues, FramedAvroValues
from tidemark.serde.formats.cloud_events import CloudEventValues
from tidemark.serde.formats.csv_values import CsvValues
from tidemark.serde.formats.debezium_values import DebeziumValues
from tidemark.serde.formats.protobuf_values import ProtobufValues, message_descriptor
from tidemark.serde.formats.value_decoder import UnreadableValueError
from tidemark.serde.formats.whole_values import TextValues

AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string", "double"]}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9}},
        {"name": "hash", "type": {"type": "fixed", "name": "H", "size": 4}},
        {"name": "ok", "type": "boolean"},
    ],
}
WIDER = json.loads(json.dumps(AVRO).replace('"int"', '"double"'))


class Writers:
    def texts(self, number):
        return [json.dumps(AVRO)] if number == 1 else None


def avro_value():
    body = io.BytesIO()
    raw = json.loads(json.dumps(AVRO).replace('"logicalType": "decimal", ', ""))
    record = {
        "id": "é",
        "tags": ["a", None, 1.5],
        "counts": {"a": 1},
        "kind": "B",
        "price": b"\x01\x00",
        "hash": b"abcd",
        "ok": True,
    }
    fastavro.schemaless_writer(body, fastavro.parse_schema(raw), record)
    return body.getvalue()


def protobuf_value():
    reading = message_factory.GetMessageClass(message_descriptor(READING_SET, "sensors.Reading"))(
        id="a", at=7, kind=1, tags=["x"], counts={3: 4}, raw=b"\xff"
    )
    reading.place.lat = 1.5
    reading.seen.seconds = 5
    return reading.SerializeToString()


READING = message_descriptor(READING_SET, "sensors.Reading")
CHANGE = b'{"op":"d","before":null,"after":"{}","source":{}}'
EVENT = b'{"specversion":"1.0","id":"1","source":"s","type":"t","data_base64":"e30="}'
DECODERS: dict[str, tuple[Any, bytes]] = {
    "avro": (AvroValues(json.dumps(AVRO)), avro_value()),
    "framed avro": (FramedAvroValues(Writers()), b"\0\0\0\0\1" + avro_value()),
    "resolved avro": (
        FramedAvroValues(Writers(), json.dumps(WIDER)),
        b"\0\0\0\0\1" + avro_value(),
    ),
    "protobuf": (ProtobufValues(READING, framed=False), protobuf_value()),
    "framed protobuf": (
        ProtobufValues(READING, framed=True),
        b"\0\0\0\0\1\2\2" + protobuf_value(),
    ),
    "csv": (CsvValues(["a", "b"], ",", '"'), b'"a""b",\r\n1,2'),
    "csv with a header": (CsvValues(None, ",", '"'), b"a,b\n1,2"),
    "debezium": (DebeziumValues.in_json(), CHANGE),
    "debezium avro": (DebeziumValues.in_avro(FramedAvroValues(Writers())), b"\0\0\0\0\1"),
    "cloudevents": (CloudEventValues(), EVENT),
    "text": (TextValues("value"), b"text"),
}


@st.composite
def damaged(draw, value):
    """Draw a value with bytes changed, removed, repeated or added."""
    begin = draw(st.integers(0, len(value)))
    end = draw(st.integers(begin, min(len(value), begin + 8)))
    return value[:begin] + draw(st.binary(max_size=12)) + value[end:]


@pytest.mark.parametrize("name", DECODERS)
@given(data=st.data())
def test_every_value_is_decoded_or_has_a_reason(name, data):
    decoder, good = DECODERS[name]
    value = data.draw(st.one_of(damaged(good), st.binary(max_size=64)))
    key = data.draw(st.none() | st.binary(max_size=8))
    names = st.sampled_from(["ce_specversion", "ce_id", "ce_type", "content-type", "x"])
    texts = st.none() | st.sampled_from([b"1.0", b"text/plain", b"application/json", b"\xff"])
    headers = data.draw(st.none() | st.lists(st.tuples(names, texts), max_size=5))
    assert outcome(decoder, value, key, headers)


def outcome(decoder, value, key, headers):
    """Return whether a value is decoded as the contract says, or has a reason of some length."""
    try:
        return isinstance(decoder.decode(value, key, headers), dict | list)
    except UnreadableValueError as error:
        return 0 < len(str(error)) < 400


@example(depth=100_000)
@given(depth=st.integers(130, 2_000))
def test_depth_has_a_reason(depth):
    nested = [b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth]
    for value in (*nested, b'{"op":"c","after":' + nested[1] + b"}"):
        for name in ("debezium", "cloudevents"):
            with pytest.raises(UnreadableValueError):
                DECODERS[name][0].decode(value)
