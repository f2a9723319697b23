"""What a decoder makes of values."""

from tests.support.hostile import BLANK, GOOD
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
