"""Dead letters show the record, whatever its bytes are."""

import hashlib
import json
from base64 import b64decode
from typing import Any

import fastavro
import pytest
from fastavro.validation import validate

from tidemark.serde.avro import schema_file
from tidemark.serde.dead_letters import KEPT_BYTES, encode_dead_letters
from tidemark.serde.records import DeadLetter


def letter(key: bytes | None, value: bytes | None, timestamp_ms: int = 7) -> dict[str, Any]:
    dead = DeadLetter("why", "parse", "moves", 3, 9, timestamp_ms, key, value)
    _, (encoded,) = encode_dead_letters([dead])
    decoded: dict[str, Any] = json.loads(encoded)
    assert validate(decoded, fastavro.parse_schema(schema_file("dead_letter")))
    return decoded


def test_dead_letter_shows_the_record():
    assert letter(b"k", '{"é'.encode()) == {
        "reason": "why",
        "stage": "parse",
        "topic": "moves",
        "partition": 3,
        "offset": 9,
        "timestamp_ms": 7,
        "key": "k",
        "value": '{"é',
    }


def test_dead_letter_without_key_value_or_timestamp_has_nulls():
    shown = letter(None, None, timestamp_ms=-1)

    assert (shown["key"], shown["value"], shown["timestamp_ms"]) == (None, None, None)


def test_bytes_that_are_no_text_are_base64():
    shown = letter(b"\xfe", b"\xff{")

    assert (shown["value_encoding"], b64decode(shown["value"])) == ("base64", b"\xff{")
    assert (shown["key_encoding"], b64decode(shown["key"])) == ("base64", b"\xfe")


@pytest.mark.parametrize("value", [("a" + "é" * KEPT_BYTES).encode(), b"\xff" * (KEPT_BYTES + 1)])
def test_long_value_is_cut_and_told_by_length_and_hash(value: bytes):
    shown = letter(value, value)
    text = str(shown["value"])
    kept = b64decode(text) if "value_encoding" in shown else text.encode()

    assert value.startswith(kept)
    assert KEPT_BYTES - 3 <= len(kept) <= KEPT_BYTES
    assert shown["value_length"] == len(value)
    assert shown["value_sha256"] == hashlib.sha256(value).hexdigest()
    assert shown["key_length"] == len(value)


def test_message_keys_of_dead_letters_are_those_of_the_records():
    dead = [DeadLetter("why", "parse", "moves", 3, 9, 7, key, b"") for key in (b"\xff", None)]

    assert encode_dead_letters(dead)[0] == [b"\xff", None]
