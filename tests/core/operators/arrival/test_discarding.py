"""Discarding panes of windows in order of arrival, row by row."""

import polars as pl

from tests.support.arrival_stream import COLUMNS, Stream
from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.windows.arrival import CountWindow, DeltaWindow, GlobalWindow, PunctuationWindow
from tidemark.core.windows.trigger import EveryEventTime, EveryProcessingTime, EveryRows

DELTA = DeltaWindow("value", 5, floats=False)
MARKED = PunctuationWindow("value == 0")


def test_discarding_panes_hold_the_rows_since_the_one_before_and_span_the_whole_window():
    threes = Stream(CountWindow(3, 3), EveryRows(2), discarding=True)
    assert threes.rows("a 9 1, b 1 1") == []
    assert threes.rows("a 5 2, a 7 4, a 8 8") == [
        "a #0 [5,10) 3 r2 early",
        "a #0 [5,10) 4 r3 on_time final",
    ]
    assert threes.rows("a 3 16") == ["a #1 [3,9) 24 r2 early"]


def test_a_window_that_the_next_row_closes_may_have_shown_all_its_rows():
    near = Stream(DELTA, EveryRows(2), discarding=True)
    assert near.rows("a 1 1, a 2 6") == ["a #0 [1,3) 7 r2 early"]
    assert near.rows("a 3 7, a 4 8, a 5 9") == [
        "a #0 [1,3) None r2 on_time final",
        "a #1 [3,5) 15 r2 early",
    ]
    assert near.rows("a 6 20") == ["a #1 [3,6) 9 r3 on_time final"]


def test_windows_that_overlap_discard_each_on_its_own():
    #   rows  1 2 4 8     #0: 1 2 | 4 8     #1: 4 8 | ...
    fours = Stream(CountWindow(4, 2), EveryRows(2), discarding=True)
    assert fours.rows("a 1 1, a 2 2, a 3 4") == ["a #0 [1,3) 3 r2 early"]
    assert fours.rows("a 4 8, a 5 16") == [
        "a #0 [1,5) 12 r4 on_time final",
        "a #1 [3,5) 12 r2 early",
    ]


def test_a_discarding_window_steps_by_all_its_rows():
    marked = Stream(MARKED, EveryEventTime(10), discarding=True)
    assert marked.rows("a 1 1, a 12 2, a 5 4") == ["a #0 [1,13) 3 r2 early"]
    assert marked.rows("a 15 8, a 21 16") == ["a #0 [1,22) 28 r5 early"]
    assert marked.rows("a 7 !") == ["a #0 [1,22) None r6 on_time final"]


def test_processing_time_discards_what_it_has_shown():
    fours = Stream(CountWindow(4, 2), EveryProcessingTime(1_000), discarding=True)
    assert fours.rows("a 1 1, a 2 2, a 3 4", now=0) == []
    assert fours.rows("a 4 8", now=1_000) == [
        "a #0 [1,4) 7 r3 early",
        "a #1 [3,4) 4 r1 early",
        "a #0 [1,5) 8 r4 on_time final",
    ]
    assert fours.rows("", now=2_000) == ["a #1 [3,5) 8 r2 early"]


def test_each_pane_of_a_discarding_global_window_ends_it():
    seconds = Stream(GlobalWindow(), EveryProcessingTime(1_000), discarding=True)
    assert seconds.rows("a 1 1, a 2 2", now=0) == []
    assert seconds.rows("a 3 4", now=1_000) == ["a #0 [1,3) 3 r2 on_time final"]
    assert seconds.rows("", now=2_000) == ["a #1 [3,4) 4 r1 on_time final"]
    assert seconds.rows("", now=3_000) == []


def test_discarding_state_is_what_no_pane_has_shown():
    values = Aggregation({"total": aggregates.collect("value")}, COLUMNS)
    long = Stream(CountWindow(10_000, 10_000), EveryRows(5), values, discarding=True)
    for _ in range(19):
        long.rows(", ".join(f"a {at} 1" for at in range(52)))
    (line,) = pl.concat(each["slices"] for each in long.state.snapshot()).iter_rows(named=True)
    assert (line["@count"], line["@rows"]) == (19 * 52, 3)
    held = [len(value) for value in line.values() if isinstance(value, list)]
    assert held
    assert set(held) == {3}
