"""Dead letters as Kafka messages: JSON as ``schemas/dead_letter.avsc`` describes it.

A dead letter must always fit its topic.  So keys and values are truncated at KEPT_BYTES; the letter
then has their full length and hash.  The whole record is in the raw topic, at the letter's
partition and offset.
"""

import hashlib
from base64 import b64encode
from collections.abc import Iterable
from typing import Any

import msgspec
import polars as pl

from tidemark.core.operators.ports import REASON, Port
from tidemark.core.time.segment import OFFSET, SOURCE
from tidemark.serde.avro import AvroType
from tidemark.serde.json_results import json_arrays
from tidemark.serde.records import DeadLetter

KEPT_BYTES = 256 * 2**10
"""Maximum size of a key or value in a dead letter."""


class DeadLetterEncoder:
    """Encodes the rows that an operator refuses; their stage is the name of the port."""

    avro: AvroType | None = None

    def __init__(self, port: Port) -> None:
        """``port``: of kind ``DEAD``."""
        self._port = port

    def encode(self, rows: pl.DataFrame) -> tuple[list[bytes | None], list[bytes]]:
        """Return rows as dead letters: key and place are those of the row, the value is absent."""
        keys = json_arrays(rows.select(self._port.key))
        places = rows.select(REASON, SOURCE, OFFSET).iter_rows()
        return encode_dead_letters(
            self._letter(key, *place) for key, place in zip(keys, places, strict=True)
        )

    def _letter(self, key: bytes, reason: str, source: str, offset: int) -> DeadLetter:
        topic, _, partition = source.rpartition("/")
        return DeadLetter(reason, self._port.name, topic, int(partition), offset, -1, key, None)


def encode_dead_letters(
    letters: Iterable[DeadLetter],
) -> tuple[list[bytes | None], list[bytes]]:
    """Return the keys (of the raw records) and values of the messages."""
    letters = list(letters)
    return [_truncated(letter.key) for letter in letters], list(map(_value, letters))


def _truncated(raw: bytes | None) -> bytes | None:
    return None if raw is None else raw[:KEPT_BYTES]


def _value(letter: DeadLetter) -> bytes:
    return msgspec.json.encode(
        {
            "reason": letter.reason,
            "stage": letter.stage,
            "topic": letter.topic,
            "partition": letter.partition,
            "offset": letter.offset,
            "timestamp_ms": letter.timestamp_ms if letter.timestamp_ms >= 0 else None,
            **_fields("key", letter.key),
            **_fields("value", letter.value),
        }
    )


def _fields(name: str, raw: bytes | None) -> dict[str, Any]:
    """Return bytes as fields of a letter: as text if they are UTF-8, else in base64."""
    if raw is None:
        return {name: None}
    kept = raw[:KEPT_BYTES]
    fields: dict[str, Any] = _text(name, raw, kept)
    if len(kept) < len(raw):
        fields |= {
            f"{name}_length": len(raw),
            f"{name}_sha256": hashlib.sha256(raw).hexdigest(),
        }
    return fields


def _text(name: str, raw: bytes, kept: bytes) -> dict[str, Any]:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return {name: b64encode(kept).decode(), f"{name}_encoding": "base64"}
    return {name: kept.decode(errors="ignore")}  # the cut may be inside a character
