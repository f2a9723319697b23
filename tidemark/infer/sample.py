"""A sample of the records of a topic or file, and the rows in it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tidemark.core.rows.schema import Field, Scalar, Schema
from tidemark.serde.decoders import value_decoder
from tidemark.serde.formats.json_value import json_value
from tidemark.serde.formats.source_format import CloudEventsFormat, JsonFormat, SourceFormat
from tidemark.serde.formats.text_encoding import BOM
from tidemark.serde.formats.value_decoder import UnreadableValueError
from tidemark.serde.json_records import with_texts
from tidemark.serde.records import NO_TIMESTAMP, Headers

LINE = "line"
"""The column of text."""


@dataclass(frozen=True)
class SampleRecord:
    """A record as it came; the defaults are those of a file's record."""

    value: bytes | None
    partition: int = 0
    key: bytes | None = None
    headers: Headers = None
    timestamp_ms: int = NO_TIMESTAMP


@dataclass
class Sample:
    """Records of one topic or file, and their format.

    ``has_timestamps``: whether the records have timestamps of Kafka.
    """

    format: SourceFormat
    records: list[SampleRecord] = field(default_factory=list)
    has_timestamps: bool = False

    def rows(self) -> Iterator[tuple[dict[str, Any], int]]:
        """Yield the rows of all records that are of the format, with their partitions."""
        decoder = _decoder(self.format)
        for each in self.records:
            if each.value is None and not isinstance(self.format, CloudEventsFormat):
                continue
            try:
                decoded = decoder.decode(each.value, each.key, each.headers)
            except UnreadableValueError:
                continue
            for row in decoded if isinstance(decoded, list) else [decoded]:
                if isinstance(row, dict):
                    yield row, each.partition


def json_objects(value: bytes | None) -> list[dict[str, Any]]:
    """Return the objects of a record in JSON: itself, or the elements of an array."""
    if value is None or not value.strip():
        return []
    try:
        decoded = _JsonValues().decode(value)
    except UnreadableValueError:
        return []
    elements: Sequence[Any] = decoded if isinstance(decoded, list) else [decoded]
    return [each for each in elements if isinstance(each, dict)]


class _JsonValues:
    """Decodes JSON as a source with a lenient column does."""

    def decode(self, value: bytes, _key: bytes | None = None, _headers: Headers = None, /) -> Any:
        """Return the value."""
        return json_value(with_texts(value.removeprefix(BOM)))


def _decoder(format_: SourceFormat) -> Any:
    if isinstance(format_, JsonFormat):
        return _JsonValues()
    return value_decoder(format_, Schema((Field(LINE, Scalar(pl.String())),)))
