"""Flush records: docs/semantics.md, "Flush"."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark import INGEST_TIME, Pipeline, bounded, col, count, monotonic, punctuated, tumbling
from tidemark.core.rows.tombstones import TOMBSTONE
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, OFFSET, WATERMARK
from tidemark.ingest.ingest import Ingest, IngestOutput, Progress
from tidemark.serde.formats.flushes import HEADER, flush_header
from tidemark.serde.records import Headers, RecordBatch

Record = dict[str, Any] | int | bytes
"""A record; an int is the time of a flush, bytes are a flush header that cannot be read."""


def ingest(**source: Any) -> Ingest:
    pipeline = Pipeline("p")
    schema = {"k": str, "ts": int, "done": bool}
    settings = {"schema": schema, "event_time": "ts", "watermark": monotonic(), **source}
    stream = pipeline.source("in", **settings)
    stream.key_by("k").window(tumbling("10s")).aggregate(n=count()).to("out")
    return Ingest(pipeline.plan())


def with_flushes(*records: Record, first: int = 0, pipeline: str = "p") -> RecordBatch:
    return RecordBatch(
        topic="in",
        partition=0,
        offsets=np.arange(first, first + len(records)),
        timestamps=[-1] * len(records),
        keys=[None] * len(records),
        headers=[headers(each, pipeline) for each in records],
        values=[
            json.dumps({"k": "a", **each}).encode() if isinstance(each, dict) else None
            for each in records
        ],
        next_offset=first + len(records),
        received_at_ms=0,
    )


def headers(record: Record, pipeline: str) -> Headers:
    if isinstance(record, dict):
        return None
    if isinstance(record, bytes):
        return [(HEADER, record)]
    return [flush_header(pipeline, record)]


def rows(taken: IngestOutput) -> list[tuple[int, int, int]]:
    """Offset, event time and watermark of each row."""
    return taken.streams["in"].select(OFFSET, EVENT_TIME, WATERMARK).rows()


def reasons(taken: IngestOutput) -> list[tuple[int, str, str]]:
    return [(letter.offset, letter.stage, letter.reason) for letter in taken.dead_letters]


def take(source: Ingest, *records: Record, **how: Any) -> IngestOutput:
    return source.take(with_flushes(*records, **how), Progress())


def test_the_timeline_of_the_page():
    bound = ingest(watermark=bounded("2ms"))
    taken = take(bound, {"ts": 11}, {"ts": 13}, 20, {"ts": 14}, {"ts": 25}, {"ts": 21})

    watermarks = [w_ms for _, _, w_ms in rows(taken)]
    assert watermarks == [NEVER_MS, 9, 20, 20, 23]
    assert (taken.mark.watermark_ms, taken.flushes) == (23, {2: 20})
    assert (taken.counts.records, taken.counts.passed, taken.counts.blank) == (6, 5, 1)


def test_a_flush_never_takes_time_back():
    taken = take(ingest(), {"ts": 50}, 20, {"ts": 30})
    assert [w_ms for _, _, w_ms in rows(taken)] == [NEVER_MS, 50]


def test_a_flush_of_another_pipeline_is_blank():
    taken = take(ingest(), {"ts": 5}, 20, {"ts": 30}, pipeline="other")

    assert [w_ms for _, _, w_ms in rows(taken)] == [NEVER_MS, 5]
    assert (taken.flushes, taken.counts.blank) == ({}, 1)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"soon", "header tidemark-flush: JSON is malformed: invalid character (byte 0)"),
        (b'{"pipeline":"p"}', "Object missing required field `untilMs`"),
        (b'{"pipeline":"p","untilMs":300000000000000}', "is outside the years 0001 to 9999"),
    ],
)
def test_a_flush_that_cannot_be_read_is_a_dead_letter(header, reason):
    taken = take(ingest(), {"ts": 5}, header, {"ts": 6})

    ((offset, stage, said),) = reasons(taken)
    assert (offset, stage) == (1, "flush")
    assert reason in said
    assert [w_ms for _, _, w_ms in rows(taken)] == [NEVER_MS, 5]
    assert (taken.counts.records, taken.counts.dead, taken.counts.blank) == (3, 1, 0)


def test_records_with_the_time_of_ingest_are_not_before_the_flush():
    read = ingest(event_time=INGEST_TIME)
    assert [at_ms for _, at_ms, _ in rows(take(read, {}, 70, {}))] == [0, 70]
    assert [at_ms for _, at_ms, _ in rows(take(read, {}, {}))] == [0, 0]


def test_a_record_without_a_timestamp_is_compared_with_the_flush():
    read = ingest(max_future="1s")
    ahead = {"ts": 5_000}
    assert reasons(take(read, {"ts": 1}, ahead, 4_000))[0][0] == 1
    assert reasons(take(read, {"ts": 1}, 4_000, ahead)) == []


def test_a_flush_of_a_topic_of_cloud_events_needs_no_attributes():
    read = ingest(format="cloudevents", schema={"k": str, "ts": int, "done": bool})
    taken = take(read, 20)
    assert (reasons(taken), taken.mark.watermark_ms) == ([], 20)


def test_a_flush_deletes_nothing_of_a_table():
    pipeline = Pipeline("p")
    names = pipeline.source(
        "in", schema={"k": str, "ts": int}, event_time="ts", watermark=bounded("0s")
    )
    orders = pipeline.source(
        "orders", schema={"k": str, "ts": int}, event_time="ts", watermark=bounded("0s")
    )
    orders.key_by("k").join(names.key_by("k").table(keep="1h")).to("joined")
    taken = Ingest(pipeline.plan()).take(with_flushes({"ts": 5}, 20, {"ts": 6}), Progress())

    assert [frame[TOMBSTONE].sum() for frame in taken.streams.values()] == [0]
    assert (taken.counts.passed, taken.counts.blank) == (2, 1)


RECORDS = st.lists(
    st.one_of(
        st.builds(lambda at, done: {"ts": at, "done": done}, st.integers(0, 60), st.booleans()),
        st.builds(lambda at, done: {"ts": at, "done": done}, st.integers(0, 60), st.booleans()),
        st.integers(0, 90),
    ),
    max_size=14,
)


@pytest.mark.parametrize("kind", ["bounded", "punctuated"])
@given(RECORDS, st.lists(st.integers(0, 14)))
def test_any_cut_gives_the_watermarks_of_reading_one_by_one(kind, records, cuts):
    delay_ms = 3 if kind == "bounded" else 0
    read = ingest(watermark=bounded("3ms") if kind == "bounded" else punctuated(col("done")))
    expected, watermark_ms, unflushed_ms = [], NEVER_MS, NEVER_MS
    for each in records:
        if isinstance(each, int):
            watermark_ms = max(watermark_ms, each)
            continue
        expected.append((each["ts"], watermark_ms))
        if kind == "bounded" or each["done"]:
            watermark_ms = max(watermark_ms, each["ts"] - delay_ms)
            unflushed_ms = max(unflushed_ms, each["ts"] - delay_ms)

    found, progress = [], Progress()
    ends = sorted({*(cut for cut in cuts if 0 < cut < len(records)), len(records)})
    for begin, end in zip([0, *ends], ends, strict=False):
        if begin < end:
            taken = read.take(with_flushes(*records[begin:end], first=begin), progress)
            found += [(at_ms, w_ms) for _, at_ms, w_ms in rows(taken)]
            progress = taken.progress
    assert found == expected
    assert progress.watermark_ms == watermark_ms
    assert progress.unflushed_ms == (None if unflushed_ms == watermark_ms else unflushed_ms)
