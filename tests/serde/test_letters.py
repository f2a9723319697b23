"""Dead letters are read back as they were written, whatever version wrote them."""

import json
from typing import Any

import polars as pl
import pytest

from tidemark.core.operators.ports import REASON, ROW, dead_port
from tidemark.core.time.segment import OFFSET, SOURCE
from tidemark.serde.avro import schema_file
from tidemark.serde.dead_letters import KEPT_BYTES, DeadLetterEncoder, encode_dead_letters
from tidemark.serde.letters import Letter, decode_letter, fingerprint
from tidemark.serde.records import DeadLetter

VALUES = [
    b'{"a":1}',
    None,
    b"",
    b"\xff\x00",
    ("é" * KEPT_BYTES).encode(),
    b"\xfe" * (KEPT_BYTES + 1),
    b"x" * KEPT_BYTES,
]


def letter(key: bytes | None, value: bytes | None, **fields: Any) -> Letter:
    given = {"stage": "parse", "timestamp_ms": 7, "offset": 9, **fields}
    dead = DeadLetter("why", topic="moves", partition=3, key=key, value=value, **given)
    decoded = decode_letter(encode_dead_letters([dead])[1][0])
    assert decoded is not None
    return decoded


def test_the_fields_are_those_of_the_schema():
    named = [field["name"] for field in schema_file("dead_letter")["fields"]]
    assert list(Letter.__struct_fields__) == named


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
@pytest.mark.parametrize("key", VALUES, ids=range(len(VALUES)))
def test_a_letter_knows_its_raw_record_even_if_it_is_cut(key, value):
    read = letter(key, value)
    assert read.fingerprint == fingerprint(7, key, value)
    others = {fingerprint(8, key, value), fingerprint(7, b"other", value)}
    assert read.fingerprint not in others
    assert read.is_cut == any(len(each or b"") > KEPT_BYTES for each in (key, value))
    if not read.is_cut:
        assert (read.raw_key, read.raw_value) == (key, value)
    assert read.place == "moves/3/9"


def test_a_record_without_a_timestamp_has_the_fingerprint_of_none():
    assert letter(b"k", b"v", timestamp_ms=-1).fingerprint == fingerprint(-1, b"k", b"v")


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"stage": "parse"}, "record"),
        ({"stage": "parse", "timestamp_ms": -1}, "record"),
        ({"stage": "with_columns(a=1)", "timestamp_ms": -1}, "record"),
        ({"stage": "_key", "timestamp_ms": -1}, "record"),
        ({"stage": "sink", "timestamp_ms": -1}, "record"),
        ({"stage": "totals", "timestamp_ms": -1}, "row"),
        ({"stage": "totals", "timestamp_ms": -1, "offset": -1}, "pane"),
        ({"stage": "publish", "timestamp_ms": -1, "offset": -1}, "pane"),
    ],
)
def test_what_a_letter_is_of(fields, kind):
    assert letter(b'["a"]', b"{}", **fields).kind == kind


def test_the_letter_of_a_row_of_an_operator_is_of_a_row():
    port = dead_port(("k",), {"k": pl.String(), "v": pl.Int64()}, "totals")
    columns = {SOURCE: ["moves/0"], OFFSET: [4], "k": ["a"], "v": [1], REASON: ["no"]}
    assert isinstance(port.columns[ROW], pl.Struct)
    encoded = DeadLetterEncoder(port, "totals").encode(pl.DataFrame(columns))[1][0]
    read = decode_letter(encoded)
    assert read is not None
    assert (read.kind, read.stage, read.place, read.key) == ("row", "totals", "moves/0/4", '["a"]')


def test_letters_of_earlier_and_later_versions_are_read():
    earliest = {
        "reason": "r", "stage": "parse", "topic": "t", "partition": 0, "offset": 1,
        "timestamp_ms": None, "key": None, "value": "v",
    }  # fmt: skip
    for fields in (earliest, {**earliest, "later": {"a": [1]}}):
        read = decode_letter(json.dumps(fields).encode())
        assert read is not None
        assert read.fingerprint == fingerprint(-1, None, b"v")


@pytest.mark.parametrize("value", [None, b"", b"[]", b"{}", b"\xff", b'{"reason":1}'])
def test_what_is_no_letter_is_none(value):
    assert decode_letter(value) is None
