"""CloudEvents: structured, batched and binary, with all kinds of data."""

import json

import pytest

from tidemark.serde.formats.cloud_events import CloudEventValues
from tidemark.serde.formats.value_decoder import UnreadableValueError

EVENT = {
    "specversion": "1.0",
    "id": "e1",
    "source": "/sensors",
    "type": "reading",
    "time": "2026-01-01T00:00:01Z",
    "partitionkey": "a",
}
DATA = {"celsius": 21.5}
BINARY = [(f"ce_{name}", text.encode()) for name, text in EVENT.items()]
STRUCTURED = [("content-type", b"application/cloudevents+json; charset=UTF-8")]

decode = CloudEventValues().decode


def structured(headers=None, **others):
    return decode(json.dumps({**EVENT, **others}).encode(), None, headers)


@pytest.mark.parametrize(
    "headers", [None, [], STRUCTURED, [("Content-Type", b"application/cloudevents+json")]]
)
def test_a_structured_event_is_its_attributes_and_data(headers):
    assert structured(headers, data=DATA) == {**EVENT, "data": DATA}
    assert structured(headers) == EVENT


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (None, DATA),
        ("application/json", DATA),
        ("application/vnd.acme+json; charset=utf-8", DATA),
        ("text/plain", '{"celsius":21.5}'),
        ("application/octet-stream", b'{"celsius":21.5}'),
    ],
)
def test_data_in_base64_is_read_by_its_content_type(kind, data):
    others = {"data_base64": "eyJjZWxzaXVzIjoyMS41fQ==", "datacontenttype": kind}
    assert structured(**{name: value for name, value in others.items() if value})["data"] == data


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (None, DATA),
        (b"application/json", DATA),
        (b"text/plain; charset=utf-8", '{"celsius":21.5}'),
        (b"application/avro", b'{"celsius":21.5}'),
    ],
)
def test_a_binary_event_has_its_attributes_in_headers(kind, data):
    headers = BINARY if kind is None else [*BINARY, ("content-type", kind)]
    event = decode(b'{"celsius":21.5}', None, headers)
    shown = None if kind is None else kind.decode()
    assert event == {**EVENT, "datacontenttype": shown, "data": data}


@pytest.mark.parametrize("value", [None, b"", b" "])
def test_a_binary_event_may_have_no_data(value):
    assert decode(value, None, BINARY)["data"] is None


@pytest.mark.parametrize("kind", [None, b"application/cloudevents-batch+json"])
def test_a_batch_is_a_row_for_each_event(kind):
    headers = None if kind is None else [("content-type", kind)]
    batch = [{**EVENT, "id": n} for n in ("e1", "e2")]
    assert decode(json.dumps(batch).encode(), None, headers) == batch
    assert decode(b"[]", None, headers) == []


@pytest.mark.parametrize("value", [None, b"", b"\n"])
def test_no_value_and_no_attributes_are_blank(value):
    assert decode(value, None, None) == []


@pytest.mark.parametrize(
    ("value", "headers", "why"),
    [
        (b"{}", None, "no attribute 'specversion'"),
        (json.dumps({**EVENT, "id": ""}).encode(), None, "no attribute 'id'"),
        (json.dumps({**EVENT, "type": 1}).encode(), None, "no attribute 'type'"),
        (json.dumps({**EVENT, "specversion": "2.0"}).encode(), None, "specversion '2.0'"),
        (json.dumps([EVENT, {}]).encode(), None, "no attribute 'specversion'"),
        (b"[1]", None, "expected an object"),
        (b"1", None, "expected an object"),
        (b"{", None, "not JSON"),
        (b"{", BINARY, "not JSON"),
        (b"\xff", [*BINARY, ("content-type", b"text/plain")], "data is not UTF-8"),
        (b"1", [("ce_specversion", b"\xff")], "ce_specversion is not UTF-8"),
        (b"1", [("ce_specversion", b"1.0")], "no attribute 'id'"),
        (b"1", [("content-type", b"application/cloudevents+avro")], "are not read; use JSON"),
        (json.dumps({**EVENT, "data_base64": "%"}).encode(), None, "data_base64"),
        (json.dumps({**EVENT, "data_base64": 7}).encode(), None, "data_base64"),
        (b"[" * 1_000, None, "nested deeper"),
    ],
)
def test_what_is_no_event_is_a_reason(value, headers, why):
    with pytest.raises(UnreadableValueError, match=why):
        decode(value, None, headers)
