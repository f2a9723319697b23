"""Ingest of records without a value, in the streams that tables read."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark import Pipeline, bounded, field
from tidemark.core.rows.tombstones import TOMBSTONE
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, OFFSET, WATERMARK
from tidemark.ingest.ingest import Ingest, Progress, RecordBatch

REMEDY = "; table(tombstones=False) leaves such records out"
TYPES = {"id": field("order.id", int), "name": str, "on": bool, "at": int}


def ingest(*key):
    """Return ingest of a table by some columns."""
    pipeline = Pipeline("p")
    rows, table = (
        pipeline.source(topic, schema=TYPES, event_time="at", watermark=bounded("2ms")).key_by(*key)
        for topic in ("rows", "table")
    )
    rows.join(table.table(keep="1h")).to("out")
    return Ingest(pipeline.plan())


def batch(records, first=0):
    """Return records of the table: a time is a record with a value, and (key, stamp) is without."""
    values = [
        json.dumps({"order": {"id": 1}, "name": "n", "on": True, "at": each}).encode()
        if isinstance(each, int)
        else None
        for each in records
    ]
    made = RecordBatch.of_values("table", 0, first, values, 0)
    others = [(None, -1) if isinstance(each, int) else each for each in records]
    return replace(made, keys=[key for key, _ in others], timestamps=[at for _, at in others])


def taken(key, records, progress=Progress()):  # noqa: B008 - it is frozen
    return ingest(*key).take(batch(records), progress)


@pytest.mark.parametrize(
    ("key", "kafka_key", "expected"),
    [
        (["name"], b"ibm", ("ibm",)),
        (["name"], b'"ibm"', ("ibm",)),
        (["name"], b"42", ("42",)),
        (["name"], b"", ("",)),
        (["name"], b"null", ("null",)),
        (["name"], b'{"name":"ibm"}', ("ibm",)),
        (["name"], b"{ibm}", ("{ibm}",)),
        (["name"], "zürich".encode(), ("zürich",)),
        (["name"], b'{"schema":{"type":"struct"},"payload":{"name":"ibm"}}', ("ibm",)),
        (["id"], b"42", (42,)),
        (["id"], b' {"id": 42, "name": "x"}', (42,)),
        (["on"], b"true", (True,)),
        (["name", "id"], b'{"id":42,"name":"ibm"}', ("ibm", 42)),
        (["name", "id"], b'["ibm",42]', ("ibm", 42)),
    ],
)
def test_the_kafka_key_gives_the_columns_of_the_key(key, kafka_key, expected):
    found = taken(key, [5, (kafka_key, 7)])
    rows = found.streams["table"].select(OFFSET, EVENT_TIME, WATERMARK, TOMBSTONE, *key).rows()
    assert rows[1] == (1, 7, 3, True, *expected)
    assert not rows[0][3]
    assert found.counts.passed == found.counts.records == 2
    assert found.dead_letters == []


@pytest.mark.parametrize(
    ("key", "kafka_key", "reason"),
    [
        (["name"], None, "none, so the record names no key of the table"),
        (["name"], b"\0\0\0\0\1ibm", "it has the framing of a schema registry, which is not read"),
        (["name"], b"\xff", "not UTF-8 (byte 0)"),
        (["name"], b'{"symbol":"ibm"}', "column name: missing"),
        (["id"], b'"42"', "column id: expected int, got str"),
        (["id"], b"ibm", "not JSON: invalid character (byte 0)"),
        (["id"], b'42,"name":"x"', "not JSON: trailing characters (byte 3)"),
        (["name", "id"], b"ibm", "no JSON object with name, id"),
        (["name", "id"], b'["ibm"]', "no JSON object with name, id"),
    ],
)
def test_another_kafka_key_is_a_dead_letter(key, kafka_key, reason):
    found = taken(key, [5, (kafka_key, 7), 9])
    assert found.streams["table"][OFFSET].to_list() == [0, 2]
    (letter,) = found.dead_letters
    assert (letter.offset, letter.stage) == (1, "tombstone")
    assert letter.reason == f"Kafka key: {reason}{REMEDY}"
    counts = found.counts
    assert counts.records == counts.passed + counts.dead == 3


def test_a_tombstone_is_not_before_earlier_records_and_moves_no_time():
    records = [(b"a", -1), 50, (b"a", 20), (b"b", -1), (b"c", 90), 60, (b"d", 300_000_000_000_000)]
    found = taken(["name"], records)
    rows = found.streams["table"].select(OFFSET, EVENT_TIME, WATERMARK).rows()
    assert rows == [(1, 50, NEVER_MS), (2, 50, 48), (3, 50, 48), (4, 90, 48), (5, 60, 48)]
    assert found.progress.watermark_ms == 58
    assert (found.counts.passed, found.counts.blank, found.counts.dead) == (5, 1, 1)
    assert "outside the years" in found.dead_letters[0].reason


def test_a_table_that_is_loaded_has_tombstones_without_a_watermark():
    found = taken(["name"], [50, (b"a", 20)], Progress(loading=True))
    assert found.streams["table"].select(EVENT_TIME, WATERMARK).rows() == [(50, NEVER_MS)] * 2


@given(
    st.lists(st.integers(0, 9) | st.tuples(st.sampled_from([b"a", b"\xff"]), st.integers(-1, 9))),
    st.data(),
)
def test_cuts_change_nothing(records, data):
    table = ingest("name")
    progress, rows, dead, counted = Progress(), [], [], []
    while progress.next_offset < len(records):
        begin = progress.next_offset
        end = data.draw(st.integers(begin + 1, len(records)))
        part = table.take(batch(records[begin:end], begin), progress)
        rows += part.streams["table"].rows()
        dead += [(each.offset, each.reason) for each in part.dead_letters]
        counted.append(part.counts)
        progress = part.progress
    if records:
        whole = table.take(batch(records), Progress())
        assert rows == whole.streams["table"].rows()
        assert dead == [(each.offset, each.reason) for each in whole.dead_letters]
        assert sum(each.blank for each in counted) == whole.counts.blank
