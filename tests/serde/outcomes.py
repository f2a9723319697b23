"""What a decoder makes of values."""

import json
from typing import Any

from tests.support.hostile import BLANK, GOOD
from tidemark.core.rows.schema import Field, Schema
from tidemark.serde.json_records import JsonRecords
from tidemark.serde.parsed_batch import ParsedBatch, RecordDecoder
from tidemark.serde.records import RecordBatch


def parsed_by(decoder: RecordDecoder, values) -> ParsedBatch:
    return decoder.parse(RecordBatch.of_values("raw", 0, 0, values, 0))


def outcomes(parsed: ParsedBatch) -> dict[int, str]:
    return {
        **dict.fromkeys(parsed.records.tolist(), GOOD),
        **dict.fromkeys(parsed.blank, BLANK),
        **{dead.index: dead.reason for dead in parsed.dead},
    }


def parse(fields: list[Field], *documents: Any, times: tuple[str, ...] = ()) -> ParsedBatch:
    values = [d if isinstance(d, bytes) else json.dumps(d).encode() for d in documents]
    return parsed_by(JsonRecords(Schema(tuple(fields)), times), values)


def rows(parsed: ParsedBatch) -> list[dict[str, Any]]:
    return parsed.columns.rows(named=True)


def reasons(parsed: ParsedBatch) -> list[str]:
    return [dead.reason for dead in parsed.dead]
