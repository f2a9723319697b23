"""Avro: resolution by Avro's rules, framing, and bytes that are no record."""

import io
import json

import fastavro
import pytest

from tidemark.serde.formats.avro_schemas import AvroSchemaError, parsed_schema, python_types
from tidemark.serde.formats.avro_values import AvroValues, FramedAvroValues
from tidemark.serde.formats.value_decoder import UnreadableValueError


def record(*fields, name="Reading", **others):
    made = [{"name": f[0], "type": f[1], **(f[2] if len(f) > 2 else {})} for f in fields]
    return {"type": "record", "name": name, "fields": made, **others}


def encoded(schema, value):
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    return body.getvalue()


class Writers:
    def __init__(self, **schemas):
        self.schemas = {int(name[1:]): texts for name, texts in schemas.items()}
        self.asked = []

    def texts(self, number):
        self.asked.append(number)
        return self.schemas.get(number)


def framed(number, schema, value):
    return b"\0" + number.to_bytes(4, "big") + encoded(schema, value)


def reason(call):
    with pytest.raises(UnreadableValueError) as caught:
        call()
    return str(caught.value)


READING = record(("id", "string"), ("at", "long"), ("celsius", ["null", "double"]))
ROW = {"id": "a", "at": 7, "celsius": 1.5}


def resolved(writer, reader, value):
    """Return how a reader sees the value of a writer's field ``v``."""
    source = FramedAvroValues(
        Writers(s1=[json.dumps(record(("v", writer)))]), json.dumps(record(("v", reader)))
    )
    return source.decode(framed(1, record(("v", writer)), {"v": value}))["v"]


def test_a_plain_value_has_the_schema_of_the_source():
    assert AvroValues(json.dumps(READING)).decode(encoded(READING, ROW)) == ROW


def test_a_framed_value_has_the_schema_of_its_writer():
    writers = Writers(s258=[json.dumps(READING)])
    source = FramedAvroValues(writers)
    for _ in range(3):
        assert source.decode(framed(258, READING, ROW)) == ROW
    assert writers.asked == [258]


@pytest.mark.parametrize(
    ("writer", "reader", "value", "seen"),
    [
        ("int", "long", 1, 1),
        ("int", "double", 1, 1.0),
        ("long", "float", 1, 1.0),
        ("float", "double", 0.5, 0.5),
        ("string", "bytes", "x", b"x"),
        ("bytes", "string", b"x", "x"),
        ("int", ["null", "double"], 1, 1.0),
        (["null", "int"], ["null", "long"], None, None),
        (["null", "string"], "string", "x", "x"),
        (
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"},
            "B",
            "A",
        ),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "double"}, [1], [1.0]),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}, {"a": 1}, {"a": 1}),
    ],
)
def test_values_are_promoted_by_the_rules_of_avro(writer, reader, value, seen):
    found = resolved(writer, reader, value)
    assert (found, type(found)) == (seen, type(seen))


def test_members_are_matched_by_name_alias_and_default():
    written = record(("old", "int"), ("gone", "string"))
    read = record(
        ("new", "long", {"aliases": ["old"]}),
        ("note", ["null", "string"], {"default": None}),
        ("raw", "bytes", {"default": "\u00ff"}),
    )
    source = FramedAvroValues(Writers(s1=[json.dumps(written)]), json.dumps(read))
    value = framed(1, written, {"old": 3, "gone": "x"})
    assert source.decode(value) == {"new": 3, "note": None, "raw": b"\xff"}


@pytest.mark.parametrize(
    ("logical", "value", "seen"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, 5, 5),
        ({"type": "long", "logicalType": "timestamp-micros"}, 5, 5),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, 5, 5),
        ({"type": "int", "logicalType": "date"}, 5, 5),
        ({"type": "int", "logicalType": "time-millis"}, 5, 5),
        ({"type": "string", "logicalType": "uuid"}, "u", "u"),
    ],
)
def test_a_logical_type_is_read_as_what_it_annotates(logical, value, seen):
    plain = record(("v", logical["type"]))
    source = AvroValues(json.dumps(record(("v", logical))))
    assert source.decode(encoded(plain, {"v": value})) == {"v": seen}


@pytest.mark.parametrize(
    ("unscaled", "text"),
    [(12345, "123.45"), (-5, "-0.05"), (0, "0.00"), (10**60, "1" + "0" * 58 + ".00")],
)
def test_a_decimal_is_read_as_text_with_all_its_digits(unscaled, text):
    data = unscaled.to_bytes(40, "big", signed=True)
    for plain in ("bytes", {"type": "fixed", "name": "F", "size": 40}):
        kind = plain if isinstance(plain, dict) else {"type": plain}
        decimal = {**kind, "logicalType": "decimal", "precision": 80, "scale": 2}
        source = AvroValues(json.dumps(record(("v", ["null", decimal]))))
        assert source.decode(encoded(record(("v", ["null", plain])), {"v": data})) == {"v": text}


def test_a_writer_schema_that_does_not_fit_is_a_reason():
    source = FramedAvroValues(
        Writers(s1=[json.dumps(record(("at", "string")))]), json.dumps(READING)
    )
    value = framed(1, record(("at", "string")), {"at": "x"})
    assert reason(lambda: source.decode(value)) == (
        "schema 1 does not fit the source's: Schema mismatch: string is not long"
    )


def test_a_record_of_another_name_does_not_fit_and_the_reason_is_short():
    other = record(("id", "string"), ("at", "long"), name="Other")
    source = FramedAvroValues(Writers(s1=[json.dumps(other)]), json.dumps(READING))
    found = reason(lambda: source.decode(framed(1, other, {"id": "a", "at": 1})))
    assert "Other" in found
    assert len(found) < 120


def test_an_unknown_id_is_a_reason_and_is_asked_for_again():
    writers = Writers()
    source = FramedAvroValues(writers)
    value = framed(9, READING, ROW)
    assert reason(lambda: source.decode(value)) == "the schema registry has no schema 9"
    writers.schemas[9] = [json.dumps(READING)]
    assert source.decode(value) == ROW


def test_known_schemas_are_bounded():
    writers = Writers(**{f"s{n}": [json.dumps(READING)] for n in range(1_100)})
    source = FramedAvroValues(writers)
    for number in [*range(1_100), 1_099, 0]:
        source.decode(framed(number, READING, ROW))
    assert len(writers.asked) == 1_101


def test_a_schema_may_refer_to_others():
    place = {"type": "record", "name": "geo.Place", "fields": [{"name": "lat", "type": "double"}]}
    trip = record(("at", "geo.Place"))
    value = b"\0\0\0\0\1" + encoded(record(("at", place)), {"at": {"lat": 1.5}})
    source = FramedAvroValues(Writers(s1=[json.dumps(place), json.dumps(trip)]))
    assert source.decode(value) == {"at": {"lat": 1.5}}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "no id of a schema: the value begins with nothing, not with 00 and four bytes"),
        (b'{"id":', "no id of a schema: the value begins with 7b22696422, not with"),
        (b"\0\0\0\0", "no id of a schema: the value begins with 00000000, not with"),
        (b"\0\0\0\0\1", "not Avro of schema 1: it ends too early (byte 5 of 5)"),
        (framed(1, READING, ROW)[:-1], "not Avro of schema 1: it ends too early"),
        (framed(1, READING, ROW) + b"\0", "not Avro of schema 1: 1 bytes too many"),
        (b"\0\0\0\0\1\x02\xff\x02\0", "not Avro of schema 1: a text is not UTF-8"),
        (b"\0\0\0\0\1" + b"\xff" * 20, "not Avro of schema 1: it ends too early"),
        (b"\0\0\0\0\1\x02a\x02\x0e", "not Avro of schema 1: it ends too early"),  # no such branch
    ],
)
def test_bytes_that_are_not_of_the_schema_are_a_reason(value, why):
    source = FramedAvroValues(Writers(s1=[json.dumps(READING)]))
    assert why in reason(lambda: source.decode(value))


RECURSIVE = record(("next", ["null", "Reading"]))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (json.dumps(RECURSIVE), "recursive: Reading contains itself"),
        (json.dumps(record(("v", {"type": "array", "items": "null"}))), "items take no bytes"),
        (
            json.dumps(record(("v", {"type": "array", "items": record(name="None_")}))),
            "items take no bytes",
        ),
        ("{", "not an Avro schema"),
        ('{"type": "record"}', "not an Avro schema"),
        ('{"type": "wrong"}', "not an Avro schema"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_a_schema_that_cannot_be_used_is_a_reason(text, why):
    with pytest.raises(AvroSchemaError, match=why):
        parsed_schema([text])
    source = FramedAvroValues(Writers(s1=[text]))
    assert why in reason(lambda: source.decode(b"\0\0\0\0\1" + b"\2" * 100_000))


def test_columns_follow_from_a_schema():
    schema = record(
        ("id", "string"),
        ("at", {"type": "long", "logicalType": "timestamp-millis"}),
        ("celsius", ["null", "double"]),
        ("kind", {"type": "enum", "name": "E", "symbols": ["A"]}),
        ("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
        ("raw", "bytes"),
        ("place", {"type": "record", "name": "P", "fields": [{"name": "lat", "type": "float"}]}),
        ("again", "P"),
        ("tags", {"type": "array", "items": "string"}),
        ("counts", {"type": "map", "values": "int"}),
    )
    assert python_types(parsed_schema([json.dumps(schema)])) == {
        "id": str,
        "at": int,
        "celsius": float,
        "kind": str,
        "price": str,
        "raw": bytes,
        "place": {"lat": float},
        "again": {"lat": float},
        "tags": list[str],
        "counts": dict[str, int],
    }


@pytest.mark.parametrize("schema", [record(("v", ["int", "string"])), "int"])
def test_columns_do_not_follow_from_every_schema(schema):
    with pytest.raises(AvroSchemaError, match=r"several types|not a record"):
        python_types(parsed_schema([json.dumps(schema)]))
