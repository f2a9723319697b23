"""Avro single-object encoding: two marker bytes, the schema's fingerprint, the body.

The fingerprint (CRC-64-AVRO of the canonical schema) identifies the schema.  A reader raises
StateError on bytes of any other schema.
"""

import io
import json
import struct
from importlib.resources import files
from typing import Any, cast

import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form

from tidemark.errors import StateError

_MARKER = b"\xc3\x01"
_HEADER_BYTES = len(_MARKER) + 8

DAMAGE = (EOFError, IndexError, KeyError, OverflowError, TypeError, ValueError, struct.error)
"""What fastavro raises on bytes that are not a record of the schema."""


def schema_file(name: str) -> dict[str, Any]:
    """Return the schema in ``schemas/<name>.avsc``."""
    text = files("tidemark.schemas").joinpath(f"{name}.avsc").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


class AvroType:
    """Encodes and decodes the records of one schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        """Prepare a schema as in an .avsc file."""
        self.schema = schema
        self._parsed = fastavro.parse_schema(schema)
        crc = fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO")
        self.header = _MARKER + bytes.fromhex(crc)
        self._known: dict[bytes, Any] = {self.header: self._parsed}

    @classmethod
    def of_file(cls, name: str, *older: str) -> "AvroType":
        """Return the type of the schema in ``schemas/<name>.avsc``.

        ``older``: names of files with earlier schemas of the records, which are still read.
        """
        found = cls(schema_file(name))
        for each in map(cls.of_file, older):
            found._known[each.header] = each._parsed
        return found

    def begin_with(self, header: bytes) -> None:
        """Write ``header`` before each body instead of the single-object header; read both."""
        self._known[header] = self._parsed
        self.header = header

    def encode(self, record: dict[str, Any]) -> bytes:
        """Return a record as bytes: the header, single-object unless replaced, and the body."""
        body = io.BytesIO()
        body.write(self.header)
        fastavro.schemaless_writer(body, self._parsed, record)
        return body.getvalue()

    def decode(self, data: bytes) -> dict[str, Any]:
        """Return the record that ``encode`` wrote, with either header.

        Raises:
            StateError: the bytes have another schema, or are damaged.
        """
        name = self.schema["name"]
        header = next((known for known in self._known if data.startswith(known)), None)
        if header is None:
            raise StateError(
                f"{name}: {len(data)} bytes that begin {data[:_HEADER_BYTES].hex()} are no {name} "
                f"of this version ({self.header.hex()})"
            )
        body = io.BytesIO(data)
        body.seek(len(header))
        try:
            written = self._known[header]
            read = None if written is self._parsed else self._parsed
            record = cast(dict[str, Any], fastavro.schemaless_reader(body, written, read))
        except DAMAGE as error:
            raise StateError(f"{name}: damaged at byte {body.tell()} of {len(data)}") from error
        if body.tell() != len(data):
            raise StateError(f"{name}: {len(data) - body.tell()} bytes too many")
        return record
