"""What was sent again is in a topic of its own, as its schema says."""

import json

import fastavro
from fastavro.validation import validate

from tests.runtime.letters.samples import stored
from tidemark.runtime.letters.retried import Retry, record_of
from tidemark.serde.avro import schema_file


def test_a_retry_is_keyed_by_the_record_of_its_letter():
    letter = stored(value="v").letter
    retry = Retry("t", 0, 7, 5, "why", edited=True, at_ms=9)
    key, value = record_of(retry, letter.fingerprint)
    assert key.decode() == letter.record_key
    assert validate(json.loads(value or b""), fastavro.parse_schema(schema_file("retry")))
