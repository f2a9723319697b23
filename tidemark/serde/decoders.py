"""The decoder of a source's records, by the format of the source."""

from collections.abc import Sequence

from tidemark.core.rows.schema import Schema
from tidemark.serde.json_records import JsonRecords
from tidemark.serde.parsed_batch import RecordDecoder


def record_decoder(format_: str, schema: Schema, time_columns: Sequence[str]) -> RecordDecoder:
    """Return the decoder of a format; ``time_columns``: those of dead records are read, too."""
    assert format_ == "json"
    return JsonRecords(schema, time_columns)
