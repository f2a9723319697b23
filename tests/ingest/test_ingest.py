import json
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hostile import BLANK, GOOD, VALUES
from tidemark import INGEST_TIME, RECORD_TIME, Pipeline, StateError, bounded, col, count, tumbling
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, OFFSET, SUB_ROW, WATERMARK, SourceMark
from tidemark.ingest.ingest import Ingest, IngestOutput, Progress, RecordBatch
from tidemark.plan.physical import Plan
from tidemark.serde.records import Counts

Value = bytes | dict[str, object] | None


SCHEMA = {"player": str, "at": int, "x": float, "ok": bool}


def inverse(row: dict[str, Any]) -> dict[str, float | None]:
    return {"y": None if row["x"] is None else 1 / row["x"]}


def game(key: str = "player", **source: Any) -> Plan:
    """Moves that are not said to be not ok; the user's function fails on those with x = 0."""
    pipeline = Pipeline("game")
    settings = {"schema": SCHEMA, "event_time": "at", "watermark": bounded("2ms"), **source}
    moves = pipeline.source("moves", **settings).filter(col("ok").fill_null(value=True))
    moves = moves.apply(inverse, columns={"y": float})
    moves.key_by(key).window(tumbling("1m")).aggregate(n=count()).to("pops")
    return pipeline.plan()


def batch(values: Sequence[Value], first: int = 0, **columns: Any) -> RecordBatch:
    raw = [json.dumps(v).encode() if isinstance(v, dict) else v for v in values]
    records = RecordBatch(
        topic="moves",
        partition=0,
        offsets=np.arange(first, first + len(raw)),
        timestamps=[-1] * len(raw),
        keys=[None] * len(raw),
        headers=[None] * len(raw),
        values=raw,
        next_offset=first + len(raw),
        received_at_ms=0,
    )
    return replace(records, **columns)


def take(plan: Plan, *values: Value, **columns: Any) -> IngestOutput:
    return Ingest(plan).take(batch(values, **columns), Progress())


def rows(taken: IngestOutput) -> list[tuple[int, int, int]]:
    """Offset, event time and watermark of each row."""
    return taken.streams["moves"].select(OFFSET, EVENT_TIME, WATERMARK).rows()


def reasons(taken: IngestOutput) -> list[tuple[int, str, str]]:
    return [(letter.offset, letter.stage, letter.reason) for letter in taken.dead_letters]


def test_rows_carry_the_watermark_before_them():
    taken = take(
        game(), {"player": "a", "at": 10}, {"player": "b", "at": 30}, {"player": "a", "at": 20}
    )

    assert rows(taken) == [(0, 10, NEVER_MS), (1, 30, 8), (2, 20, 28)]
    assert taken.mark == SourceMark("moves/0", 0, 3, NEVER_MS, 28)
    assert taken.progress == Progress(3, 28)
    assert taken.counts == Counts(records=3, passed=3)


def test_all_records_with_a_time_move_it_whatever_becomes_of_them():
    taken = take(
        game(),
        {"player": "a", "at": 10, "ok": False},  # filtered
        {"player": 5, "at": 20},  # dead for another column
        {"player": None, "at": 30},  # dead for its key
        {"player": "a"},  # dead for its time
        b'{"at":99',  # dead, and no time
        None,
        {"player": "a", "at": 40},
    )

    assert rows(taken) == [(6, 40, 28)]
    assert taken.counts == Counts(records=7, passed=1, filtered=1, dead=4, blank=1)
    assert reasons(taken) == [
        (1, "parse", "column player: expected str, got int"),
        (2, "key_by(player)", "null key"),
        (3, "event time", "event time at: missing"),
        (4, "parse", "not JSON: ends too early (byte 8)"),
    ]


def test_dead_letter_keeps_the_record():
    taken = take(game(), b"?", keys=[b"\xff"], timestamps=np.array([7]))

    (letter,) = taken.dead_letters
    assert (letter.topic, letter.partition, letter.offset) == ("moves", 0, 0)
    assert (letter.timestamp_ms, letter.key, letter.value) == (7, b"\xff", b"?")


def test_fault_of_a_function_kills_its_record_alone():
    taken = take(
        game(),
        {"player": "a", "at": 1},
        {"player": "a", "at": 2, "x": 0},
        {"player": "a", "at": 3, "x": 2},
    )

    assert rows(taken) == [(0, 1, NEVER_MS), (2, 3, 0)]
    assert reasons(taken) == [(1, "apply(inverse)", "ZeroDivisionError: float division by zero")]


def test_record_from_the_future_is_quarantined():
    #  timestamp   100  100  100   none   none
    #  event time   90  111  110    121    120     max_future 10
    times = [90, 111, 110, 121, 120]
    taken = take(
        game(max_future="10ms"),
        *({"player": "a", "at": time} for time in times),
        timestamps=np.array([100, 100, 100, -1, -1]),
    )

    assert rows(taken) == [(0, 90, NEVER_MS), (2, 110, 88), (4, 120, 108)]
    assert reasons(taken) == [
        (1, "event time", "future timestamp"),
        (3, "event time", "future timestamp"),
    ]


def test_record_dead_for_another_column_does_not_move_time_from_the_future():
    taken = take(
        game(max_future="10ms"),
        {"player": 5, "at": 111},
        {"player": "a", "at": 50},
        timestamps=np.array([100, 100]),
    )

    assert rows(taken) == [(1, 50, NEVER_MS)]
    assert [reason for _, _, reason in reasons(taken)] == ["column player: expected str, got int"]


def test_iso_8601_times_are_read_in_the_zone_of_the_source():
    plan = game(
        schema={"player": str, "when": str, "x": float, "ok": bool},
        event_time="when",
        unit="iso8601",
        zone="Europe/Berlin",
    )
    taken = take(
        plan,
        {"player": "a", "when": "1970-01-01T01:00:00.005"},
        {"player": 5, "when": "1970-01-01T00:00:01Z"},
        {"player": "a", "when": "2026-03-29T02:30:00"},
        {"player": "a", "when": "1970-01-01T00:00:00Z"},
    )

    assert rows(taken) == [(0, 5, NEVER_MS), (3, 0, 998)]
    assert reasons(taken)[1] == (
        2,
        "event time",
        "event time when: skipped or repeated by a clock change of the zone",
    )


def test_record_time_is_the_event_time_of_all_but_blank_records():
    taken = take(
        game(event_time=RECORD_TIME),
        {"player": "a"},
        b"?",
        None,
        {"player": "a"},
        {"player": "a"},
        timestamps=np.array([10, 20, 99, 15, -1]),
    )

    assert rows(taken) == [(0, 10, NEVER_MS), (3, 15, 18)]
    assert reasons(taken)[1] == (4, "event time", "event time: missing")
    assert taken.progress.watermark_ms == 18


def test_ingest_time_never_goes_back():
    ingest = Ingest(game(event_time=INGEST_TIME))
    first = ingest.take(batch([{"player": "a"}], received_at_ms=50), Progress())
    second = ingest.take(batch([{"player": "a"}], first=1, received_at_ms=40), first.progress)

    assert rows(first) + rows(second) == [(0, 50, NEVER_MS), (1, 50, 48)]


def test_key_that_is_no_text_kills_only_where_the_pipeline_looks_at_keys():
    keys = [b"a", b"\xff", None]
    values = [{"player": "p", "at": 1}, {"player": "p", "at": 5}, {"player": "p", "at": 7}]

    assert take(game(), *values, keys=keys).counts.passed == 3

    pipeline = Pipeline("game")
    moves = pipeline.source(
        "moves", schema={"at": int}, event_time="at", watermark=bounded("2ms")
    ).with_columns(who=col("_key"), sent=col("_timestamp"), place=col("_offset"))
    moves.key_by("who").window(tumbling("1m")).aggregate(n=count()).to("pops")
    taken = take(pipeline.plan(), *values, keys=keys, timestamps=np.array([3, 4, -1]))

    assert reasons(taken) == [
        (1, "_key", "_key is not UTF-8 (byte 0)"),
        (2, "key_by(who)", "null key"),
    ]
    assert taken.streams["moves"].select("who", "sent", "place").rows() == [("a", 3, 0)]
    assert taken.progress.watermark_ms == 5


def test_headers_partition_and_topic_are_columns():
    pipeline = Pipeline("game")
    moves = pipeline.source(
        "moves", schema={"at": int}, event_time="at", watermark=bounded("2ms")
    ).with_columns(
        agent=col("_headers").list.first().struct.field("value"),
        origin=col("_topic") + "/" + col("_partition").cast(pl.String),
    )
    moves.key_by("origin").window(tumbling("1m")).aggregate(n=count()).to("pops")
    taken = take(
        pipeline.plan(),
        {"at": 1},
        {"at": 1},
        {"at": 1},
        headers=[[("agent", b"web"), ("trace", b"\x00\xff")], None, [("agent", b"w\xc3\xbc\xff")]],
    )

    assert taken.streams["moves"].select("agent", "origin").rows() == [
        ("web", "moves/0"),
        (None, "moves/0"),
        ("wü\\xff", "moves/0"),
    ]
    assert reasons(taken) == []  # D3: no header that nobody reads kills a record


def test_empty_batch_moves_on_past_records_of_the_broker():
    taken = Ingest(game()).take(batch([], next_offset=9), Progress(7, 5))

    assert taken.mark == SourceMark("moves/0", 7, 9, 5, 5)
    assert taken.counts == Counts()
    assert taken.streams["moves"].height == 0


@pytest.mark.parametrize(
    "records",
    [
        batch([None], first=6),
        batch([None, None], first=7, offsets=np.array([7, 7])),
        batch([None], first=7, next_offset=7),
        batch([], next_offset=6),
    ],
)
def test_records_that_do_not_follow_stop_ingest(records: RecordBatch):
    with pytest.raises(StateError, match="moves/0"):
        Ingest(game()).take(records, Progress(7))


QUARANTINING = game(max_future="10ms")
RECORDS = st.lists(
    st.sampled_from([value for value, _ in VALUES if value is None or len(value) < 1000])
    | st.fixed_dictionaries(
        {"player": st.sampled_from(["a", "b", None]), "at": st.integers(0, 40)},
        optional={"ok": st.sampled_from([True, False, 1]), "x": st.sampled_from([0.5, 0])},
    ),
    max_size=20,
)
STAMPS = st.lists(st.sampled_from([-1, 5, 20]), min_size=20, max_size=20)
CUTS = st.lists(st.integers(0, 20), max_size=4).map(sorted)


@given(RECORDS, STAMPS, CUTS)
def test_batches_may_be_cut_anywhere(values: list[Value], stamps: list[int], cuts: list[int]):
    ingest = Ingest(QUARANTINING)
    timestamps = np.array(stamps[: len(values)], np.int64)
    whole = ingest.take(batch(values, timestamps=timestamps), Progress())

    parts, progress = [], Progress()
    for begin, end in zip([0, *cuts], [*cuts, len(values)], strict=True):
        part = batch(values[begin:end], min(begin, len(values)), timestamps=timestamps[begin:end])
        parts.append(ingest.take(part, progress))
        progress = parts[-1].progress

    assert pl.concat([part.streams["moves"] for part in parts]).equals(whole.streams["moves"])
    assert [letter for part in parts for letter in part.dead_letters] == whole.dead_letters
    assert reduce(add, (part.counts for part in parts)) == whole.counts
    assert progress == whole.progress


@given(RECORDS)
def test_every_record_is_accounted_for_once(values: list[Value]):
    taken = take(QUARANTINING, *values)
    counts, stream = taken.counts, taken.streams["moves"]

    assert counts.records == len(values)
    assert counts.records == counts.passed + counts.filtered + counts.dead + counts.blank
    assert counts.dead == len(taken.dead_letters)
    assert counts.passed == stream[OFFSET].n_unique()
    assert set(stream[OFFSET]).isdisjoint(letter.offset for letter in taken.dead_letters)
    assert stream[SUB_ROW].to_list() == [0] * stream.height


def test_every_hostile_record_meets_its_fate():
    taken = take(
        game(event_time=RECORD_TIME),
        *(value for value, _ in VALUES),
        timestamps=np.zeros(len(VALUES), np.int64),
    )
    expected = [
        (offset, outcome)
        for offset, (_, outcome) in enumerate(VALUES)
        if outcome not in (GOOD, BLANK)
    ]

    assert [(o, reason) for o, stage, reason in reasons(taken) if stage == "parse"] == expected
    assert taken.counts.blank == sum(outcome == BLANK for _, outcome in VALUES)
