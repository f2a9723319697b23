"""Records that are arrays: docs/semantics.md, "Records of several rows"."""

import json
from typing import Any

import pytest

from tidemark import RECORD_TIME, Pipeline, bounded, col, count, punctuated, tumbling
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, OFFSET, SUB_ROW, WATERMARK
from tidemark.ingest.ingest import Ingest, IngestOutput, Progress, RecordBatch

SCHEMA = {"k": str, "at": int, "done": bool}


def take(*documents: Any, **source: Any) -> IngestOutput:
    pipeline = Pipeline("p")
    settings = {"schema": SCHEMA, "event_time": "at", "watermark": bounded("2ms"), **source}
    rows = pipeline.source("in", **settings)
    rows = rows.filter(col("k").ne_missing("no"))
    rows.key_by("k").window(tumbling("10s")).aggregate(n=count()).to("out")
    values = [json.dumps(each).encode() for each in documents]
    batch = RecordBatch.of_values("in", 0, 0, values, received_at_ms=50)
    return Ingest(pipeline.plan()).take(batch, Progress())


def rows(taken: IngestOutput) -> list[tuple[int, int, int, int]]:
    return taken.streams["in"].select(OFFSET, SUB_ROW, EVENT_TIME, WATERMARK).rows()


def reasons(taken: IngestOutput) -> list[tuple[int, str, str]]:
    return [(each.offset, each.stage, each.reason) for each in taken.dead_letters]


def test_rows_of_a_record_share_the_watermark_before_it():
    taken = take({"k": "a", "at": 12}, [{"k": "a", "at": 21}, {"k": "b", "at": 3}], {"k": "a"})

    assert rows(taken) == [(0, 0, 12, NEVER_MS), (1, 0, 21, 10), (1, 1, 3, 10)]
    assert taken.progress.watermark_ms == 19
    assert reasons(taken) == [(2, "event time", "event time at: missing")]


def test_a_record_with_a_bad_element_is_dead_and_moves_no_time_if_that_lacks_time():
    taken = take(
        [{"k": "a", "at": 10}, {"k": 5, "at": 20}, {"at": "x"}],
        [{"k": "a", "at": 40}, {"k": "a"}, {"k": "a"}],
        [{"k": "a", "at": 30}, {"at": 31}],
        {"k": "a", "at": 5},
    )

    assert reasons(taken) == [
        (0, "parse", "element 1: column k: expected str, got int"),
        (1, "event time", "element 1: event time at: missing"),
        (2, "key_by(k)", "null key"),
    ]
    assert rows(taken) == [(3, 0, 5, 29)]  # only the last dead record has moved time


def test_a_dead_record_moves_time_if_all_its_elements_have_time():
    taken = take([{"k": 1, "at": 10}, {"k": 2, "at": 20}], {"k": "a", "at": 5})

    assert rows(taken) == [(1, 0, 5, 18)]


def test_the_reason_of_an_element_without_time_names_the_units_of_texts():
    taken = take(
        [{"k": "a", "at": "2026-01-02T03:04:05Z"}, {"k": "a", "at": "x"}],
        schema={"k": str, "at": str},
        unit=["iso8601", "rfc2822"],
    )

    reason = "element 1: event time at: no date and time in unit iso8601 or rfc2822"
    assert reasons(taken) == [(0, "event time", reason)]


def test_an_empty_array_is_dead_and_elements_are_filtered_one_by_one():
    taken = take([], [{"k": "no", "at": 1}, {"k": "a", "at": 2}], [{"k": "no", "at": 3}])

    assert rows(taken) == [(1, 0, 2, NEVER_MS)]
    counts = taken.counts
    assert (counts.blank, counts.passed, counts.filtered, counts.dead) == (0, 1, 1, 1)
    (letter,) = taken.dead_letters
    assert letter.reason == "expected an object, got an empty array"


def test_marks_and_the_future_are_those_of_the_whole_record():
    marked = punctuated(when=col("done"))
    taken = take(
        [{"k": "a", "at": 10, "done": True}, {"k": "a", "at": 30}],
        [{"k": "a", "at": 11, "done": False}, {"k": "a", "at": 99_999}],
        {"k": "a", "at": 12},
        watermark=marked,
        max_future="1s",
    )

    assert rows(taken) == [(0, 0, 10, NEVER_MS), (0, 1, 30, NEVER_MS), (2, 0, 12, 10)]
    assert reasons(taken) == [(1, "event time", "future timestamp")]


def test_an_array_too_large_for_the_log_is_dead_before_it_is_expanded():
    taken = take([{}] * 200_000, event_time=RECORD_TIME)

    assert reasons(taken) == [
        (0, "parse", "rows of 4,800,000 bytes, at most 4,194,304 are possible")
    ]


@pytest.mark.parametrize("single", [True, False])
def test_an_array_of_one_object_is_as_the_object(single: bool):
    document = {"k": "a", "at": 7}

    assert rows(take([document] if single else document)) == [(0, 0, 7, NEVER_MS)]
