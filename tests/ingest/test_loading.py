"""Ingest of a source that is loaded: it has no watermark, whatever the order of its records."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tidemark import Pipeline, bounded, count, tumbling
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, OFFSET, WATERMARK, SourceMark
from tidemark.ingest.ingest import Ingest, Progress, RecordBatch

TIMES = [900, 20, 400, 5, 1_000, 30]


def ingest(**options):
    pipeline = Pipeline("game")
    moves = pipeline.source(
        "moves",
        schema={"player": str, "at": int},
        event_time="at",
        watermark=bounded("2ms"),
        **options,
    )
    moves.key_by("player").window(tumbling("10ms")).aggregate(n=count()).to("counts")
    return Ingest(pipeline.plan())


def batch(times=TIMES, first=0):
    values = [json.dumps({"player": "a", "at": at}).encode() for at in times]
    return RecordBatch.of_values("moves", 0, first, values, 0)


def rows(taken):
    return taken.streams["moves"].select(OFFSET, EVENT_TIME, WATERMARK).rows()


def test_rows_and_marks_have_no_watermark():
    taken = ingest().take(batch(), Progress(loading=True))
    assert rows(taken) == [(offset, at, NEVER_MS) for offset, at in enumerate(TIMES)]
    assert taken.mark == SourceMark("moves/0", 0, 6, NEVER_MS, NEVER_MS)
    assert taken.progress == Progress(6, 998, loading=True)


def test_the_next_rows_have_that_of_all_records():
    game = ingest()
    loaded = game.take(batch(), Progress(loading=True)).progress
    taken = game.take(batch([10], first=6), replace(loaded, loading=False))
    assert rows(taken) == [(6, 10, 998)]
    assert taken.mark == SourceMark("moves/0", 6, 7, 998, 998)


@given(st.lists(st.integers(0, 2_000), min_size=1, max_size=12), st.data())
def test_cuts_change_nothing_of_what_is_loaded(times, data):
    game = ingest(max_future="500ms")
    whole = game.take(batch(times), Progress(loading=True))
    found, dead, progress, begin = [], [], Progress(loading=True), 0
    while begin < len(times):
        end = data.draw(st.integers(begin + 1, len(times)))
        taken = game.take(batch(times[begin:end], first=begin), progress)
        found += rows(taken)
        dead += [each.offset for each in taken.dead_letters]
        progress, begin = taken.progress, end
    assert found == rows(whole)
    assert dead == [each.offset for each in whole.dead_letters]
    assert progress == whole.progress
