"""Dead letters read back from their messages: what each is of, and what is kept of the record.

The encoder is in ``dead_letters.py``; ``schemas/dead_letter.avsc`` describes the fields.  Letters
of later versions may have more fields, which are skipped.
"""

import hashlib
from base64 import b64decode
from functools import cached_property
from typing import Literal

import msgspec

Kind = Literal["record", "row", "pane"]

_OF_INGEST = ("parse", "event time", "watermark", "log", "sink")


class Letter(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=False):
    """The fields of a dead letter, as its message has them."""

    reason: str
    stage: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None = None
    key: str | None = None
    key_encoding: str | None = None
    key_length: int | None = None
    key_sha256: str | None = None
    value: str | None = None
    value_encoding: str | None = None
    value_length: int | None = None
    value_sha256: str | None = None

    @property
    def place(self) -> str:
        """Topic, partition and offset of the record; of a pane, topic and partition."""
        at = f"{self.topic}/{self.partition}"
        return at if self.offset < 0 else f"{at}/{self.offset}"

    @property
    def kind(self) -> Kind:
        """What the letter is of: a raw record, a row that an operator refused, or a pane.

        The letter of a row has the name of the operator as stage, no timestamp, and as key the JSON
        array of the operator's key.  Other stages are those of ingest, names of metadata columns,
        and labels of stateless operators, which have brackets.
        """
        if self.offset < 0:
            return "pane"
        of_ingest = self.stage in _OF_INGEST or self.stage.startswith("_") or "(" in self.stage
        has_row = self.timestamp_ms is None and (self.key or "").startswith("[")
        return "row" if has_row and not of_ingest else "record"

    @cached_property
    def raw_key(self) -> bytes | None:
        """The bytes of the key, as far as the letter has them."""
        return _bytes(self.key, self.key_encoding)

    @cached_property
    def raw_value(self) -> bytes | None:
        """The bytes of the value, as far as the letter has them."""
        return _bytes(self.value, self.value_encoding)

    @property
    def is_cut(self) -> bool:
        """Whether the letter lacks a part of the key or the value."""
        return self.key_length is not None or self.value_length is not None

    @property
    def size(self) -> int:
        """The bytes of the record's key and value."""
        key = self.key_length or len(self.key or "")
        return key + (self.value_length or len(self.value or ""))

    @cached_property
    def fingerprint(self) -> str:
        """The ``fingerprint`` of the raw record that the letter is of."""
        at_ms = -1 if self.timestamp_ms is None else self.timestamp_ms
        key = self.key_sha256 or _sha256(self.raw_key)
        return _fingerprint(at_ms, key, self.value_sha256 or _sha256(self.raw_value))

    @property
    def record_key(self) -> str:
        """The key of the raw record among those that were sent again."""
        return f"{self.place} {self.fingerprint}"


def decode_letter(value: bytes | None) -> Letter | None:
    """Return the letter in the value of a message; None if it holds no letter."""
    try:
        return msgspec.json.decode(value or b"", type=Letter)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def fingerprint(timestamp_ms: int, key: bytes | None, value: bytes | None) -> str:
    """Return 32 hexadecimal digits of a raw record, the same for every letter of the record."""
    return _fingerprint(max(timestamp_ms, -1), _sha256(key), _sha256(value))


def _fingerprint(timestamp_ms: int, key: str, value: str) -> str:
    return _sha256(f"{timestamp_ms} {key} {value}".encode())[:32]


def _sha256(raw: bytes | None) -> str:
    return "-" if raw is None else hashlib.sha256(raw).hexdigest()


def _bytes(text: str | None, encoding: str | None) -> bytes | None:
    if text is None:
        return None
    return b64decode(text) if encoding == "base64" else text.encode()
