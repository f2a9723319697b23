"""Protobuf: all kinds of members, framing, and bytes that are no message."""

import pytest
from google.protobuf import descriptor_pb2, message_factory

from tests.support.protobuf import READING_SET
from tidemark.serde.formats.protobuf_values import (
    DescriptorError,
    ProtobufValues,
    descriptor_set,
    message_descriptor,
    python_types,
)
from tidemark.serde.formats.value_decoder import UnreadableValueError

READING = message_descriptor(READING_SET, "sensors.Reading")
NODE = message_descriptor(READING_SET, "sensors.Node")
Reading, Node = map(message_factory.GetMessageClass, (READING, NODE))
NOTHING = {
    "id": "", "at": 0, "note": None, "kind": "UNKNOWN", "place": None, "tags": [], "counts": {},
    "raw": b"", "seen": None, "limit": None, "big": 0,
}  # fmt: skip


def reason(call):
    with pytest.raises(UnreadableValueError) as caught:
        call()
    return str(caught.value)


def test_a_message_becomes_a_mapping_of_its_members():
    message = Reading(
        id="a", at=7, note="", kind=1, tags=["x", "y"], counts={3: 4}, raw=b"\xff", big=2**64 - 1
    )
    message.place.lat = 1.5
    message.seen.FromJsonString("2026-01-01T00:00:00.000000001Z")
    message.limit.value = 0.0
    assert ProtobufValues(READING, framed=False).decode(message.SerializeToString()) == {
        "id": "a",
        "at": 7,
        "note": "",
        "kind": "INDOOR",
        "place": {"lat": 1.5},
        "tags": ["x", "y"],
        "counts": {"3": 4},
        "raw": b"\xff",
        "seen": "2026-01-01T00:00:00.000000001Z",
        "limit": 0.0,
        "big": 2**64 - 1,
    }


def test_members_that_are_not_set_have_defaults_or_are_null():
    assert ProtobufValues(READING, framed=False).decode(b"") == NOTHING


def test_only_members_that_are_asked_for_are_read():
    source = ProtobufValues(READING, framed=False, members=["id", "at"])
    assert source.decode(Reading(id="a").SerializeToString()) == {"id": "a", "at": 0}


def test_an_enum_value_of_a_newer_writer_is_its_number():
    assert ProtobufValues(READING, framed=False).decode(b"\x20\x07")["kind"] == "7"


def test_a_message_may_contain_itself():
    node = Node()
    node.next.next.SetInParent()
    assert ProtobufValues(NODE, framed=False).decode(node.SerializeToString()) == {
        "next": {"next": {"next": None}}
    }


@pytest.mark.parametrize(
    ("indexes", "fits"), [(b"\x02\x02", True), (b"\x00", False), (b"\x02\x04", False)]
)
def test_the_framing_names_the_message(indexes, fits):
    source = ProtobufValues(READING, framed=True)
    value = b"\0\0\0\0\7" + indexes + Reading(id="a").SerializeToString()
    if fits:
        assert source.decode(value)["id"] == "a"
    else:
        assert "sensors.Reading is [1]" in reason(lambda: source.decode(value))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"\x0a\x05ab", "not Protobuf of sensors.Reading"),
        (b"\x0a\x01\xff", "not Protobuf of sensors.Reading"),
        (b"\xff" * 30, "not Protobuf of sensors.Reading"),
        (b"\x4a\x0a\x08" + b"\xff" * 8 + b"\x7f", "not Protobuf of sensors.Reading"),
    ],
)
def test_bytes_that_are_no_message_are_a_reason(value, why):
    assert why in reason(lambda: ProtobufValues(READING, framed=False).decode(value))


@pytest.mark.parametrize("value", [b"", b"\0\0\0\0", b"\0\0\0\0\1", b"\0\0\0\0\1\xff\xff", b"{}"])
def test_a_value_without_framing_is_a_reason(value):
    why = reason(lambda: ProtobufValues(READING, framed=True).decode(value))
    assert why.startswith(("no id of a schema", "no indexes of a message"))


@pytest.mark.parametrize("count", [b"\x01", b"\xfe\xff\xff\xff\x0f", b"\x80" * 10])
def test_hostile_counts_of_indexes_are_a_reason(count):
    value = b"\0\0\0\0\1" + count + b"\0" * 100
    assert "indexes" in reason(lambda: ProtobufValues(READING, framed=True).decode(value))


def test_a_message_nested_too_deep_is_a_reason():
    value = b""
    for _ in range(150):
        value = b"\x0a" + _varint(len(value)) + value
    assert "not Protobuf" in reason(lambda: ProtobufValues(NODE, framed=False).decode(value))


def _varint(number):
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def test_columns_follow_from_a_message():
    assert python_types(READING) == {
        "id": str,
        "at": int,
        "note": str,
        "kind": str,
        "place": {"lat": float},
        "tags": list[str],
        "counts": dict[str, int],
        "raw": bytes,
        "seen": str,
        "limit": float,
        "big": int,
    }
    with pytest.raises(DescriptorError, match="contains itself"):
        python_types(NODE)


def test_the_set_of_a_generated_class_has_the_files_that_it_imports():
    again = message_descriptor(descriptor_set(Reading.DESCRIPTOR), "sensors.Reading")
    assert python_types(again) == python_types(READING)


@pytest.mark.parametrize(
    ("data", "message", "why"),
    [
        (b"\xff\xff", "a", "not a descriptor set"),
        (READING_SET, "sensors.Wrong", "the messages are .*sensors.Reading"),
        (
            descriptor_pb2.FileDescriptorSet(
                file=[{"name": "a.proto", "dependency": ["b.proto"]}]
            ).SerializeToString(),
            "a.A",
            "include_imports",
        ),
    ],
)
def test_a_set_that_cannot_be_used_is_an_error(data, message, why):
    with pytest.raises(DescriptorError, match=why):
        message_descriptor(data, message)
