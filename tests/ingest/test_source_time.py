"""Time of a source's records: docs/semantics.md, "Sources, event time, watermarks"."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark import (
    RECORD_TIME,
    Pipeline,
    bounded,
    col,
    count,
    from_expression,
    lit,
    monotonic,
    punctuated,
    tumbling,
)
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, OFFSET, WATERMARK
from tidemark.ingest.ingest import Ingest, IngestOutput, Progress, RecordBatch

T = 1_767_225_600_000  # 2026-01-01T00:00:00Z
SCHEMA = {"k": str, "ts": int, "text": str, "done": bool, "low": int}


def ingest(**source: Any) -> Ingest:
    pipeline = Pipeline("p")
    settings = {"schema": SCHEMA, "event_time": "ts", "watermark": monotonic(), **source}
    rows = pipeline.source("in", **settings)
    rows.key_by("k").window(tumbling("10s")).aggregate(n=count()).to("out")
    return Ingest(pipeline.plan())


def batch(
    records: Sequence[dict[str, Any] | bytes],
    first: int = 0,
    timestamps: Sequence[int] = (),
    keys: Sequence[bytes | None] = (),
) -> RecordBatch:
    values = [r if isinstance(r, bytes) else json.dumps({"k": "a", **r}).encode() for r in records]
    return RecordBatch(
        topic="in",
        partition=0,
        offsets=np.arange(first, first + len(values)),
        timestamps=list(timestamps or [-1] * len(values)),
        keys=keys or [None] * len(values),
        headers=[None] * len(values),
        values=values,
        next_offset=first + len(values),
        received_at_ms=0,
    )


def take(source: Ingest, *records: dict[str, Any] | bytes, **columns: Any) -> IngestOutput:
    return source.take(batch(records, **columns), Progress())


def rows(taken: IngestOutput) -> list[tuple[int, int, int]]:
    """Offset, event time and watermark of each row."""
    return taken.streams["in"].select(OFFSET, EVENT_TIME, WATERMARK).rows()


def reasons(taken: IngestOutput) -> list[tuple[int, str, str]]:
    return [(letter.offset, letter.stage, letter.reason) for letter in taken.dead_letters]


def test_numbers_of_another_unit_are_dead_and_move_no_time():
    """Seconds, microseconds and nanoseconds in a field of milliseconds."""
    taken = take(
        ingest(min_time="2000-01-01T00:00:00Z", max_future="5m"),
        {"ts": T + 1_000},
        {"ts": T // 1_000 + 2},
        {"ts": (T + 3_000) * 1_000},
        {"ts": (T + 4_000) * 1_000_000},
        {"ts": T + 5_000},
        timestamps=[T] * 5,
    )

    assert rows(taken) == [(0, T + 1_000, NEVER_MS), (4, T + 5_000, T + 1_000)]
    years = "event time ts: outside the years 0001 to 9999 in unit ms"
    assert reasons(taken) == [
        (
            1,
            "event time",
            "event time ts: before min_time 2000-01-01T00:00:00Z in unit ms; in s it would fit",
        ),
        (2, "event time", f"{years}; in us it would fit"),
        (3, "event time", f"{years}; in ns it would fit"),
    ]


def test_the_last_of_all_timestamps_puts_no_record_into_the_future():
    taken = take(ingest(max_future="5m"), {"ts": T}, {"ts": T + 400_000}, timestamps=[2**63 - 1, T])

    assert [offset for offset, _, _ in rows(taken)] == [0]
    assert reasons(taken) == [(1, "event time", "future timestamp")]


def test_event_time_may_be_an_expression_over_a_record():
    time = col("ts") * 1_000 + pl.col("low").fill_null(0)
    taken = take(
        ingest(event_time=time, watermark=bounded("2ms")),
        {"ts": 5, "low": 7},
        {"ts": 6},
        {"low": 6},
        {"ts": 7, "k": 1},
        {"ts": 2**62, "low": 2**62},
        {"ts": 8},
    )

    assert rows(taken) == [(0, 5_007, NEVER_MS), (1, 6_000, 5_005), (5, 8_000, 6_998)]
    assert [letter.offset for letter in taken.dead_letters] == [2, 3, 4]
    assert reasons(taken)[0] == (2, "event time", "event time: missing")


def test_event_time_may_be_a_datetime_and_fail_on_single_records():
    time = col("text").str.to_datetime("%d.%m.%Y %H:%M:%S", time_zone="UTC")
    taken = take(
        ingest(event_time=time),
        {"text": "01.01.2026 00:00:01"},
        {"text": "tomorrow"},
        {"text": "01.01.2026 00:00:03"},
    )

    assert rows(taken) == [(0, T + 1_000, NEVER_MS), (2, T + 3_000, T + 1_000)]
    ((offset, stage, reason),) = reasons(taken)
    assert (offset, stage) == (1, "event time")
    assert reason.startswith("conversion from `str` to `datetime")


def test_event_time_may_look_at_the_record_of_kafka():
    time = pl.coalesce(col("ts"), col("_timestamp"))
    source = ingest(event_time=time)
    taken = take(source, {"ts": 5}, {}, {"k": 5}, {"ts": 20}, timestamps=[1, 12, 13, 14])

    assert rows(taken) == [(0, 5, NEVER_MS), (1, 12, 5), (3, 20, 13)]

    keyed = ingest(event_time=col("_key").cast(pl.Int64))
    taken = take(keyed, {}, {}, {}, keys=[b"7", b"\xff", b"9"])
    assert rows(taken) == [(0, 7, NEVER_MS), (2, 9, 7)]
    assert reasons(taken) == [(1, "_key", "_key is not UTF-8 (byte 0)")]


def test_a_punctuated_watermark_is_the_time_of_the_last_marked_record():
    #  ts       10   40   30*   20   25*   50 dead*   60
    #  before    -    -    -    30   30    30         50
    source = ingest(watermark=punctuated(when=col("done")))
    taken = take(
        source,
        {"ts": 10},
        {"ts": 40},
        {"ts": 30, "done": True},
        {"ts": 20, "done": False},
        {"ts": 25, "done": True},
        {"ts": 50, "done": True, "k": 1},
        {"ts": 60},
    )

    assert [(at, w) for _, at, w in rows(taken)] == [
        (10, NEVER_MS), (40, NEVER_MS), (30, NEVER_MS), (20, 30), (25, 30), (60, 50),
    ]  # fmt: skip
    assert taken.progress == Progress(7, 50)


def test_a_watermark_may_come_from_the_records():
    #  low       -    5    3    -    9
    #  before    -    -    5    5    5
    source = ingest(watermark=from_expression(col("low")))
    taken = take(
        source,
        {"ts": 10},
        {"ts": 40, "low": 5},
        {"ts": 30, "low": 3},
        {"ts": 20},
        {"ts": 25, "low": 9},
    )

    assert [w for _, _, w in rows(taken)] == [NEVER_MS, NEVER_MS, 5, 5, 5]
    assert taken.progress.watermark_ms == 9


def test_a_watermark_out_of_range_kills_its_record_and_moves_no_time():
    source = ingest(
        watermark=from_expression(col("low")), min_time="2000-01-01T00:00:00Z", max_future="1m"
    )
    taken = take(
        source,
        {"ts": T, "low": T // 1_000},
        {"ts": T, "low": T * 1_000},
        {"ts": T, "low": T + 60_001},
        {"ts": T, "low": T + 60_000},
        {"ts": T},
        timestamps=[T] * 5,
    )

    assert rows(taken) == [(3, T, NEVER_MS), (4, T, T + 60_000)]
    stages = [(stage, reason.partition(" in unit")[0]) for _, stage, reason in reasons(taken)]
    assert stages == [
        ("watermark", "watermark: before min_time 2000-01-01T00:00:00Z"),
        ("watermark", "watermark: outside the years 0001 to 9999"),
        ("event time", "future timestamp"),
    ]


def test_a_watermark_that_fails_on_a_record_kills_it_alone():
    source = ingest(watermark=punctuated(when=col("text").cast(pl.Int64) > 0))
    taken = take(
        source, {"ts": 5, "text": "1"}, {"ts": 6, "text": "x"}, {"ts": 7}, {"ts": 8, "text": "2"}
    )

    assert rows(taken) == [(0, 5, NEVER_MS), (2, 7, 5), (3, 8, 5)]
    ((offset, stage, _),) = reasons(taken)
    assert (offset, stage) == (1, "watermark")
    assert taken.progress.watermark_ms == 8


def test_times_of_the_record_take_any_watermark():
    source = ingest(event_time=RECORD_TIME, watermark=punctuated(when=lit(value=True)))
    taken = take(source, {}, b"?", b"", {}, timestamps=[5, 9, 99, 7])

    assert rows(taken) == [(0, 5, NEVER_MS), (3, 7, 5)]


SOURCES = {
    "bounded": ingest(watermark=bounded("2ms"), max_future="10ms"),
    "punctuated": ingest(watermark=punctuated(when=col("done")), max_future="10ms"),
    "expression": ingest(
        event_time=pl.coalesce(col("ts"), col("_timestamp")),
        watermark=from_expression(col("low") - 3),
        max_future="10ms",
    ),
    "records": ingest(
        event_time=RECORD_TIME, watermark=punctuated(when=col("text").str.len_bytes() > 1)
    ),
}
RECORDS = st.lists(
    st.sampled_from([b"", b"?", b"[]"])
    | st.fixed_dictionaries(
        {},
        optional={
            "ts": st.integers(0, 40) | st.none(),
            "k": st.sampled_from(["b", None, 5]),
            "done": st.sampled_from([True, False, None, 1]),
            "low": st.integers(0, 40) | st.just(2**62),
            "text": st.sampled_from(["x", "xx", None]),
        },
    ),
    max_size=16,
)
STAMPS = st.lists(st.sampled_from([-1, 5, 20]), min_size=16, max_size=16)
CUTS = st.lists(st.integers(0, 16), max_size=4).map(sorted)


@pytest.mark.parametrize("kind", SOURCES)
@given(RECORDS, STAMPS, CUTS)
def test_any_cut_gives_the_same_times_watermarks_and_dead_letters(
    kind: str, records: list[Any], stamps: list[int], cuts: list[int]
):
    """Between batches, ingest remembers an offset and one watermark."""
    source = SOURCES[kind]
    stamps = stamps[: len(records)]
    whole = source.take(batch(records, timestamps=stamps), Progress())

    parts, progress = [], Progress()
    for begin, end in zip([0, *cuts], [*cuts, len(records)], strict=True):
        part = batch(records[begin:end], min(begin, len(records)), stamps[begin:end])
        parts.append(source.take(part, progress))
        progress = parts[-1].progress

    assert [row for part in parts for row in rows(part)] == rows(whole)
    assert [letter for part in parts for letter in part.dead_letters] == whole.dead_letters
    assert progress == whole.progress


@given(RECORDS)
def test_a_punctuated_watermark_is_that_of_reading_record_by_record(records: list[Any]):
    source = ingest(watermark=punctuated(when=col("done")))
    taken = take(source, *records)

    watermark_ms, expected = NEVER_MS, []
    dead = {letter.offset for letter in taken.dead_letters}
    for offset, record in enumerate(records):
        if isinstance(record, bytes):
            continue
        at, done = record.get("ts"), record.get("done")
        if offset not in dead:
            expected.append((offset, at, watermark_ms))
        if at is not None and done is True:
            watermark_ms = max(watermark_ms, at)
    assert rows(taken) == expected
    assert taken.progress.watermark_ms == watermark_ms
