"""A sample of the records of a topic or file, and the rows in it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tidemark.core.rows.schema import Field, Scalar, Schema
from tidemark.serde.decoders import value_decoder
from tidemark.serde.formats.avro_values import WriterSchemas
from tidemark.serde.formats.exploded_values import ExplodedValues
from tidemark.serde.formats.json_value import JsonValues
from tidemark.serde.formats.source_format import (
    CloudEventsFormat,
    ExplodedFormat,
    SourceFormat,
    without_explode,
)
from tidemark.serde.formats.value_decoder import UnreadableValueError
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

    ``has_timestamps``: whether the records have timestamps of Kafka.  ``writers``: the schemas in
    the registry, for formats that need one.  ``fault``: why the first record that is not of the
    format is not; rows() finds it.
    """

    format: SourceFormat
    records: list[SampleRecord] = field(default_factory=list)
    has_timestamps: bool = False
    writers: WriterSchemas | None = None
    fault: str = ""

    def rows(self) -> Iterator[tuple[dict[str, Any], int]]:
        """Yield the rows of all records that are of the format, with their partitions."""
        decoder = _decoder(self.format, self.writers)
        reads_null = isinstance(without_explode(self.format), CloudEventsFormat)
        for each in self.records:
            if each.value is None and not reads_null:
                continue
            try:
                decoded = decoder.decode(each.value, each.key, each.headers)
            except UnreadableValueError as error:
                self.fault = self.fault or str(error)
                continue
            for row in decoded if isinstance(decoded, list) else [decoded]:
                if isinstance(row, dict):
                    yield row, each.partition


def json_objects(value: bytes | None) -> list[dict[str, Any]]:
    """Return the objects of a record in JSON: itself, or the elements of an array."""
    if value is None or not value.strip():
        return []
    try:
        decoded = JsonValues(is_lenient=True).decode(value)
    except UnreadableValueError:
        return []
    elements: Sequence[Any] = decoded if isinstance(decoded, list) else [decoded]
    return [each for each in elements if isinstance(each, dict)]


def _decoder(format_: SourceFormat, writers: WriterSchemas | None) -> Any:
    if isinstance(format_, ExplodedFormat):
        return ExplodedValues(_decoder(format_.of, writers), format_.path, None)
    # A lenient column lets records in JSON have NaN.
    schema = Schema((Field(LINE, Scalar(pl.String(), lenient=True)),))
    return value_decoder(format_, schema, writers)
