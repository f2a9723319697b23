"""Ingest of a source that is loaded: it has no watermark, whatever the order of its records."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.ingest.test_ingest import batch, game, rows
from tidemark.core.time.segment import NEVER_MS, SourceMark
from tidemark.ingest.ingest import Ingest, Progress

TIMES = [900, 20, 400, 5, 1_000, 30]


def moves(times=TIMES):
    return [{"player": "a", "at": at} for at in times]


def test_rows_and_marks_have_no_watermark():
    taken = Ingest(game()).take(batch(moves()), Progress(loading=True))
    assert rows(taken) == [(offset, at, NEVER_MS) for offset, at in enumerate(TIMES)]
    assert taken.mark == SourceMark("moves/0", 0, 6, NEVER_MS, NEVER_MS)
    assert taken.progress == Progress(6, 998, loading=True)


def test_the_next_rows_have_that_of_all_records():
    ingest = Ingest(game())
    loaded = ingest.take(batch(moves()), Progress(loading=True)).progress
    taken = ingest.take(batch(moves([10]), first=6), replace(loaded, loading=False))
    assert rows(taken) == [(6, 10, 998)]
    assert taken.mark == SourceMark("moves/0", 6, 7, 998, 998)


@given(st.lists(st.integers(0, 2_000), min_size=1, max_size=12), st.data())
def test_cuts_change_nothing_of_what_is_loaded(times, data):
    ingest = Ingest(game(max_future="500ms"))
    whole = ingest.take(batch(moves(times)), Progress(loading=True))
    found, dead, progress, begin = [], [], Progress(loading=True), 0
    while begin < len(times):
        end = data.draw(st.integers(begin + 1, len(times)))
        taken = ingest.take(batch(moves(times[begin:end]), first=begin), progress)
        found += rows(taken)
        dead += [each.offset for each in taken.dead_letters]
        progress, begin = taken.progress, end
    assert found == rows(whole)
    assert dead == [each.offset for each in whole.dead_letters]
    assert progress == whole.progress
