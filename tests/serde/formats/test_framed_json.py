"""JSON behind the id of a schema, as Confluent's serializer of JSON Schema writes it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serde.outcomes import outcomes, parsed_by
from tests.support.hostile import VALUES
from tidemark import RAW
from tidemark.language.schema import schema_of
from tidemark.serde.decoders import record_decoder
from tidemark.serde.formats.source_format import JSON, ExplodedFormat, JsonFormat

FRAMED = JsonFormat(framed=True)
ID = b"\0\0\0\x01\x0a"  # with a line feed
SCHEMA = schema_of({"player": str, "at": int, "x": float, "body": RAW}, "schema")
SMALL = [value for value, _ in VALUES if value is not None and len(value) < 1_000]


@given(st.lists(st.sampled_from(SMALL), max_size=6))
def test_behind_the_id_the_rules_are_those_of_json(values: list[bytes]):
    plain = parsed_by(record_decoder(JSON, SCHEMA, ["at"]), values)
    framed = parsed_by(record_decoder(FRAMED, SCHEMA, ["at"]), [ID + each for each in values])

    assert framed.columns.equals(plain.columns)
    assert framed.times.equals(plain.times)
    assert framed.records.tolist() == plain.records.tolist()
    assert [each.index for each in framed.dead] == [each.index for each in plain.dead]


def test_a_record_without_id_is_dead_and_its_neighbours_are_not():
    values = [ID + b'{"at":1}', None, b'{"at":2}', b"", ID + b'{"at":3', ID, ID + b'[{"at":4}]']

    parsed = parsed_by(record_decoder(FRAMED, SCHEMA), values)

    lack = "no id of a schema: the value begins with {}, not with 00 and four bytes"
    assert outcomes(parsed) == {
        0: "good",
        1: "blank",
        2: lack.format("7b22617422"),
        3: lack.format("nothing"),
        4: "not JSON: ends too early (byte 12)",
        5: "blank",
        6: "good",
    }
    assert parsed.columns["body"].to_list() == ['{"at":1}', '{"at":4}']


def test_its_lists_explode():
    schema = schema_of({"at": int, "items": {"n": int}}, "schema")
    decoder = record_decoder(ExplodedFormat(FRAMED, ("items",)), schema)

    parsed = parsed_by(decoder, [ID + b'{"at":1,"items":[{"n":1},{"n":2}]}', b'{"at":2}'])

    assert parsed.columns["items"].struct.field("n").to_list() == [1, 2]
    assert [each.index for each in parsed.dead] == [1]


@pytest.mark.parametrize("value", [ID + b'{"at":1}', ID + b'[{"at":1}]'])
def test_without_the_format_the_reason_names_it(value: bytes):
    (dead,) = parsed_by(record_decoder(JSON, SCHEMA), [value]).dead

    assert dead.reason.endswith("it begins with the id of a schema: format='json-schema' reads it")
