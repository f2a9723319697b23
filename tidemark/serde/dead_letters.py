"""Dead letters as Kafka messages: JSON as ``schemas/dead_letter.avsc`` describes it.

A dead letter must always fit its topic.  So keys and values are truncated at KEPT_BYTES; the letter
then has their full length and hash.  The whole record is in the raw topic, at the letter's
partition and offset.
"""

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import polars as pl

from tidemark.core.operators.ports import DEAD, REASON, ROW, Port
from tidemark.core.time.segment import OFFSET, SOURCE
from tidemark.serde.avro import AvroType
from tidemark.serde.json_rows import json_arrays, json_objects
from tidemark.serde.records import NO_TIMESTAMP, DeadLetter

KEPT_BYTES = 256 * 2**10
"""Maximum size of a key or value in a dead letter."""

_NO_OFFSET = -1
_NO_PARTITION = -1


class DeadLetterEncoder:
    """Encodes the rows that an operator refuses, and the panes that it cannot compute."""

    avro: AvroType | None = None

    def __init__(self, port: Port, topic: str) -> None:
        """``port``: of kind ``DEAD`` or ``FAILED``.  ``topic``: the topic that lacks the panes."""
        self._port = port
        self._topic = topic

    def encode(
        self, rows: pl.DataFrame, partition: int = -1
    ) -> tuple[list[bytes | None], list[bytes]]:
        """Return rows as dead letters; ``partition``: of the topic that lacks the panes.

        A row has the place of its raw record, and as value its columns, if the port has them.  A
        pane has no offset, and as value its bounds.
        """
        keys = json_arrays(rows.select(self._port.message_key))
        if self._port.kind == DEAD:
            places = [
                (*_source(source), offset) for source, offset in rows.select(SOURCE, OFFSET).rows()
            ]
        else:
            places = [(self._topic, partition, _NO_OFFSET)] * rows.height
        return encode_dead_letters(
            DeadLetter(reason, self._port.stage, *place, NO_TIMESTAMP, key, value)
            for reason, place, key, value in zip(
                rows[REASON], places, keys, self._values(rows), strict=True
            )
        )

    def _values(self, rows: pl.DataFrame) -> Sequence[bytes | None]:
        columns = self._port.columns
        if self._port.kind == DEAD:
            row = columns.get(ROW)
            if row is None:
                return [None] * rows.height
            assert isinstance(row, pl.Struct)
            return json_objects(rows.select(field.name for field in row.fields))
        return json_objects(rows.select(name for name in columns if name != REASON))


def _source(source: str) -> tuple[str, int]:
    topic, slash, partition = source.rpartition("/")
    return (topic, int(partition)) if slash else (source, _NO_PARTITION)


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
