"""Generations of results as records."""

import pytest

from tidemark.errors import StateError
from tidemark.runtime.client.generations import (
    Generation,
    generation_of,
    next_number,
    record_of,
)
from tidemark.serde.avro import schema_file

GENERATION = Generation(
    "pops", 3, 7, "windowing", "p.by-player.log", 12, {"p.pops": 40}, {"p.pops": "id"},
    key=["player"], columns={"player": "String", "pops": "Int64"},
    signature={"windows": "tumbling(10s)"},
)  # fmt: skip


def test_a_generation_is_read_back_from_its_record():
    key, value = record_of(GENERATION)
    assert key == b"pops/3"
    assert generation_of(key, value) == GENERATION


def test_the_fields_are_those_of_the_schema():
    _, value = record_of(GENERATION)
    for field in schema_file("generation")["fields"]:
        assert f'"{field["name"]}":'.encode() in (value or b"")


@pytest.mark.parametrize(("key", "value"), [(b"ingest", b"{}"), (None, b"{}"), (b"pops/3", None)])
def test_records_of_another_kind_are_left_out(key, value):
    assert generation_of(key, value) is None


def test_a_damaged_value_is_refused():
    with pytest.raises(StateError, match="generation b'pops/3'"):
        generation_of(b"pops/3", b"{")


def test_numbers_grow_though_the_clock_stands_or_the_topic_is_lost():
    assert next_number(None, now_ms=1_000) == 1_000
    assert next_number(GENERATION, now_ms=1_000) == 1_000
    assert next_number(GENERATION, now_ms=7) == 8
