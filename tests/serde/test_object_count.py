"""A record whose objects would be too large is dead before they are made."""

import json

import polars as pl
import pytest

from tests.serde.outcomes import outcomes, parsed_by
from tests.support.hostile import GOOD
from tidemark import field
from tidemark.core.rows.row_size import MAX_RECORD_BYTES, row_bytes
from tidemark.language.schema import schema_of
from tidemark.serde.decoders import record_decoder
from tidemark.serde.formats.source_format import JSON, DebeziumFormat, ExplodedFormat
from tidemark.serde.json_records import JsonRecords
from tidemark.serde.object_count import ObjectCount, memory_size, most_values
from tidemark.serde.records import RecordBatch

WIDE = {f"c{n}": int for n in range(100)}
SCHEMA = schema_of(
    {
        "n": int,
        "xs": [WIDE],
        "m": dict[str, WIDE],  # type: ignore[valid-type]
        "o": {"deep": field("a.deep", [{"ys": [WIDE]}])},
        "text": field("text", {"zs": [WIDE]}, json=True),
    },
    "s",
)
FEW, MANY = 5_000, 5_300  # MAX_RECORD_BYTES is 5,242 objects of 100 values

PLACES = {
    "nulls in a list": lambda count: {"xs": [None] * count},
    "objects in a list": lambda count: {"xs": [{}] * count},
    "objects in a map": lambda count: {"m": {f"{n}": {} for n in range(count)}},
    "lists in lists": lambda count: {
        "o": {"a": {"deep": [{"ys": [{}] * (count // 100)}, None] * 100}}
    },
    "JSON in text": lambda count: {"text": json.dumps({"zs": [{}] * count})},
}


def decoded(*records):
    values = [json.dumps(record).encode() for record in records]
    return parsed_by(JsonRecords(SCHEMA), values)


@pytest.mark.parametrize("place", PLACES)
def test_objects_are_counted_wherever_they_are(place):
    parsed = decoded(PLACES[place](MANY), {"n": 1}, PLACES[place](FEW))
    found = outcomes(parsed)
    assert (found[1], found[2]) == (GOOD, GOOD)
    assert found[0].startswith("rows of 4,2")
    assert found[0].endswith(f" bytes, at most {MAX_RECORD_BYTES:,} are possible")


@pytest.mark.parametrize("place", PLACES)
def test_what_is_counted_is_at_most_the_size_of_the_row(place):
    counted = ObjectCount(SCHEMA).least_bytes(json.dumps(PLACES[place](MANY)).encode())
    whole = decoded(PLACES[place](FEW)).columns
    (size,) = row_bytes(whole.get_columns(), 1).tolist()
    assert 0 < size / FEW <= counted / MANY * 1.05


def test_braces_and_nulls_that_are_no_objects_do_not_count():
    parsed = decoded({"n": 1, "other": [{}] * MANY, "what": "{null" * MANY})
    assert outcomes(parsed) == {0: GOOD}


def test_rows_of_an_array_are_counted():
    parsed = parsed_by(JsonRecords(schema_of(WIDE, "s")), [b"[" + b",".join([b"{}"] * MANY) + b"]"])
    assert outcomes(parsed) == {
        0: f"rows of {MANY * 800:,} bytes, at most {MAX_RECORD_BYTES:,} are possible"
    }


def test_a_fault_among_too_many_objects_is_the_reason():
    parsed = decoded({"xs": [{}] * MANY + [5]})
    assert outcomes(parsed) == {0: f"column xs[{MANY}]: expected object, got int"}


def test_batches_are_cut_by_what_objects_take():
    assert most_values(SCHEMA) == 100
    assert memory_size(SCHEMA, JSON)(b"{}") == 8 * most_values(SCHEMA)
    assert memory_size(schema_of({"n": int}, "s"), JSON)(b"{}") == 2


def test_items_of_an_exploded_list_take_memory_each():
    exploded = ExplodedFormat(JSON, ("xs",))
    assert memory_size(SCHEMA, exploded)(b'{"xs": [1,2,3]}') == 1_200
    assert memory_size(SCHEMA, exploded)(b"{" + b" " * 1_200) == 1_201


def test_a_null_counts_only_where_it_may_be_an_object_in_a_list():
    record = b'{"c1": null, "c2": null}'
    assert memory_size(schema_of(WIDE, "s"), JSON)(record) == 800
    assert memory_size(SCHEMA, JSON)(record) == 2_400
    nulls = json.dumps({f"other{n}": None for n in range(MANY)}).encode()
    assert not ObjectCount(schema_of(WIDE, "s")).may_be_large(nulls)
    assert ObjectCount(SCHEMA).may_be_large(nulls)


def test_a_null_object_has_the_size_of_its_members():
    column = pl.Series(
        [None, {"a": 1, "b": "xyz"}], dtype=pl.Struct({"a": pl.Int64, "b": pl.String})
    )
    assert row_bytes([column], 2).tolist() == [16, 11]


@pytest.mark.parametrize("place", PLACES)
def test_objects_of_other_formats_are_counted_too(place):
    decoder = record_decoder(DebeziumFormat("json"), SCHEMA)

    def change(count):
        return json.dumps({"op": "c", "after": PLACES[place](count)}).encode()

    parsed = decoder.parse(
        RecordBatch.of_values("t", 0, 0, [change(MANY), change(FEW), change(1)], 0)
    )
    found = outcomes(parsed)
    assert found[0].startswith("rows of 4,2")
    assert (found[1], found[2]) == (GOOD, GOOD)
