"""Windows in order of arrival, row by row; docs/semantics.md, "Windows in order of arrival"."""

import polars as pl
import pytest

from tests.support.arrival_stream import COLUMNS, Stream
from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.windows.arrival import (
    CountWindow,
    DeltaWindow,
    GlobalWindow,
    PunctuationWindow,
    StepWindow,
)
from tidemark.core.windows.trigger import EveryEventTime, EveryProcessingTime, EveryRows
from tidemark.errors import PipelineError

DELTA = DeltaWindow("value", 5, floats=False)
MARKED = PunctuationWindow("value == 0")


# Count windows


def test_a_count_window_is_published_by_its_last_row_and_spans_the_times_of_its_rows():
    #   a: 100 110 | 90 ...      the third row is earlier than the window before it
    pairs = Stream(CountWindow(2, 2))
    assert pairs.rows("a 100 1, b 5 7, a 110 2, a 90 3") == [
        "a #0 [100,111) 3 r2 on_time final",
    ]
    assert pairs.rows("a 95 4, b 1 1") == [
        "a #1 [90,96) 7 r2 on_time final",
        "b #0 [1,6) 8 r2 on_time final",
    ]


def test_count_windows_overlap_where_one_begins_before_another_is_full():
    #   rows   1 2 3 4 5 6 7 8
    #   #0    [- - - -)
    #   #1        [- - - -)
    #   #2            [- - - -)
    fours = Stream(CountWindow(4, 2))
    assert fours.rows("a 1 1, a 2 2, a 3 3") == []
    assert fours.rows("a 4 4, a 5 5") == ["a #0 [1,5) 10 r4 on_time final"]
    assert fours.rows("a 6 6, a 7 7, a 8 8") == [
        "a #1 [3,7) 18 r4 on_time final",
        "a #2 [5,9) 26 r4 on_time final",
    ]


def test_a_slide_that_does_not_divide_the_size_works_too():
    fives = Stream(CountWindow(5, 2))
    panes = [pane for at in range(1, 12) for pane in fives.rows(f"a {at} {at}")]
    assert panes == [
        "a #0 [1,6) 15 r5 on_time final",
        "a #1 [3,8) 25 r5 on_time final",
        "a #2 [5,10) 35 r5 on_time final",
        "a #3 [7,12) 45 r5 on_time final",
    ]


def test_every_row_updates_all_windows_that_it_is_in_oldest_first():
    fours = Stream(CountWindow(4, 2), EveryRows(1))
    assert fours.rows("a 1 1, a 1 2, a 1 3") == [
        "a #0 [1,2) 1 r1 early",
        "a #0 [1,2) 3 r2 early",
        "a #0 [1,2) 6 r3 early",
        "a #1 [1,2) 3 r1 early",
    ]
    assert fours.rows("a 1 4") == [
        "a #0 [1,2) 10 r4 on_time final",
        "a #1 [1,2) 7 r2 early",
    ]


def test_every_second_row_is_counted_in_each_window():
    fives = Stream(CountWindow(5, 5), EveryRows(2))
    panes = [pane for at in range(1, 8) for pane in fives.rows(f"a {at} 1")]
    assert panes == [
        "a #0 [1,3) 2 r2 early",
        "a #0 [1,5) 4 r4 early",
        "a #0 [1,6) 5 r5 on_time final",
        "a #1 [6,8) 2 r2 early",
    ]


@pytest.mark.parametrize(("size", "slide"), [(0, 1), (-1, -1), (2, 3), (2, 0)])
def test_a_count_window_that_means_nothing_is_refused(size, slide):
    with pytest.raises(PipelineError, match="count window"):
        CountWindow(size, slide)


# Punctuation


def test_a_marked_row_is_the_last_of_its_window():
    marked = Stream(MARKED)
    assert marked.rows("a 1 1, b 3 1, a 2 !, a 3 3, b 1 !") == [
        "a #0 [1,3) 1 r2 on_time final",
        "b #0 [1,4) 1 r2 on_time final",
    ]
    assert marked.rows("a 1 4, a 2 !, a 5 !") == [
        "a #1 [1,4) 7 r3 on_time final",
        "a #2 [5,6) None r1 on_time final",
    ]


# Delta


def test_a_row_that_differs_by_more_from_the_first_value_begins_the_next_window():
    #   a: 1 6 | 7 - 2 | 13        6 - 1 <= 5; 7 - 1 > 5; 2 is near 7, null near everything
    near = Stream(DELTA)
    assert near.rows("a 1 1, a 2 6, a 3 7, a 4 -") == ["a #0 [1,3) 7 r2 on_time final"]
    assert near.rows("a 5 2") == []
    assert near.rows("a 6 13") == ["a #1 [3,6) 9 r3 on_time final"]


def test_a_window_of_nulls_waits_for_a_value_to_differ_from():
    near = Stream(DELTA)
    assert near.rows("a 1 -") == []
    assert near.rows("a 2 100") == []
    assert near.rows("a 3 106, a 4 106, a 5 100") == [
        "a #0 [1,3) 100 r2 on_time final",
        "a #1 [3,5) 212 r2 on_time final",
    ]


def test_the_window_that_ends_comes_before_the_update_of_the_one_that_begins():
    near = Stream(DELTA, EveryRows(1))
    assert near.rows("a 1 1, a 2 7") == [
        "a #0 [1,2) 1 r1 early",
        "a #0 [1,2) 1 r1 on_time final",
        "a #1 [2,3) 7 r1 early",
    ]


def test_integers_as_far_apart_as_can_be_differ():
    near = Stream(DeltaWindow("value", 2**62, floats=False), aggregation=COUNTED)
    assert near.rows(f"a 1 {-(2**63)}, a 2 {2**63 - 1}, a 3 {2**63 - 2}") == [
        "a #0 [1,2) 1 r1 on_time final"
    ]


def test_windows_begin_far_into_a_segment_too():
    near = Stream(DELTA, aggregation=COUNTED)
    text = ", ".join(f"a {at} {0 if at < 700 else 9}" for at in range(1_000))
    assert near.rows(text) == ["a #0 [0,700) 700 r700 on_time final"]


def test_floats_differ_by_a_fraction_and_nan_from_nothing():
    class Floats(Stream):
        def frame(self, text):
            return super().frame(text).with_columns(pl.col("value").cast(pl.Float64) / 4)

    near = Floats(DeltaWindow("value", 0.5, floats=True), aggregation=COUNTED)
    assert near.rows("a 1 1, a 2 3, a 3 4, a 4 -, a 5 2") == ["a #0 [1,3) 2 r2 on_time final"]


COUNTED = Aggregation({"total": aggregates.count()}, COLUMNS)


# Global windows and rolling aggregates


def test_a_rolling_aggregate_has_one_pane_per_row_over_all_rows_so_far():
    rolling = Stream(GlobalWindow(), EveryRows(1))
    assert rolling.rows("a 1 1, b 3 1, a 2 2, a 3 3, - 1 9") == [
        "a #0 [1,2) 1 r1 early",
        "b #0 [3,4) 1 r1 early",
        "a #0 [1,3) 3 r2 early",
        "a #0 [1,4) 6 r3 early",
        "- #0 [1,2) 9 r1 early",
    ]
    assert rolling.rows("a 0 4, - 2 1") == ["a #0 [0,4) 10 r4 early", "- #0 [1,3) 10 r2 early"]


def test_a_global_window_is_published_every_so_many_rows():
    thirds = Stream(GlobalWindow(), EveryRows(3))
    assert thirds.rows("a 1 1, a 2 2") == []
    assert thirds.rows("a 3 3, a 4 4, a 5 5, a 6 6, a 7 7") == [
        "a #0 [1,4) 6 r3 early",
        "a #0 [1,7) 21 r6 early",
    ]


def test_a_global_window_is_published_by_rows_that_step_into_a_later_interval_of_event_time():
    #   intervals of 10: 1 3 | 12 4 15 | 31
    steps = Stream(GlobalWindow(), EveryEventTime(10))
    assert steps.rows("a 1 1, a 3 1, a 12 1, b 25 1") == ["a #0 [1,13) 3 r3 early"]
    assert steps.rows("a 4 1, a 15 1, b 29 1") == []
    assert steps.rows("a 31 1, b 30 1") == ["a #0 [1,32) 6 r6 early", "b #0 [25,31) 3 r3 early"]


def test_count_windows_that_overlap_step_each_on_its_own():
    steps = Stream(CountWindow(3, 1), EveryEventTime(10))
    assert steps.rows("a 1 1, a 12 1, a 13 1") == [
        "a #0 [1,13) 2 r2 early",
        "a #0 [1,14) 3 r3 on_time final",
    ]
    assert steps.rows("a 25 1") == ["a #1 [12,26) 3 r3 on_time final", "a #2 [13,26) 2 r2 early"]


def test_a_discarding_global_window_begins_anew_after_each_step():
    steps = Stream(StepWindow(10))
    assert steps.rows("a 1 1, a 3 1, a 12 1, a 4 1") == ["a #0 [1,13) 3 r3 on_time final"]
    assert steps.rows("a 15 1, a 31 1, a 9 1") == ["a #1 [4,32) 3 r3 on_time final"]


def test_rows_are_published_when_an_interval_of_processing_time_is_over_before_those_after_it():
    seconds = Stream(GlobalWindow(), EveryProcessingTime(1_000))
    assert seconds.rows("a 1 1, b 2 1", now=100) == []
    assert seconds.rows("a 3 1", now=900) == []
    assert seconds.rows("a 4 1", now=1_000) == ["a #0 [1,4) 2 r2 early", "b #0 [2,3) 1 r1 early"]
    assert seconds.rows("c 9 1", now=3_500) == ["a #0 [1,5) 3 r3 early"]
    assert seconds.rows("", now=4_000) == ["c #0 [9,10) 1 r1 early"]


def test_a_window_that_closed_is_not_published_again_by_processing_time():
    seconds = Stream(CountWindow(2, 2), EveryProcessingTime(1_000))
    assert seconds.rows("a 1 1, a 2 1, a 3 1", now=0) == ["a #0 [1,3) 2 r2 on_time final"]
    assert seconds.rows("", now=1_000) == ["a #1 [3,4) 1 r1 early"]
    assert seconds.rows("a 4 1, a 5 1", now=1_500) == ["a #1 [3,5) 2 r2 on_time final"]
    assert seconds.rows("", now=2_000) == ["a #2 [5,6) 1 r1 early"]


def test_processing_time_publishes_all_windows_of_a_key_that_are_open():
    #   rows  1 2 | 3 | 4 5     #0 closes by row 4, #1 and #2 are open then
    fours = Stream(CountWindow(4, 2), EveryProcessingTime(1_000))
    assert fours.rows("a 1 1, a 2 2", now=0) == []
    assert fours.rows("a 3 3", now=1_000) == ["a #0 [1,3) 3 r2 early"]
    assert fours.rows("a 4 4, a 5 5", now=2_000) == [
        "a #0 [1,4) 6 r3 early",
        "a #1 [3,4) 3 r1 early",
        "a #0 [1,5) 10 r4 on_time final",
    ]
    assert fours.rows("b 9 1", now=3_000) == ["a #1 [3,6) 12 r3 early", "a #2 [5,6) 5 r1 early"]
    assert fours.rows("", now=4_000) == ["b #0 [9,10) 1 r1 early"]


def test_rows_without_an_open_window_are_not_published_by_processing_time():
    pairs = Stream(CountWindow(2, 2), EveryProcessingTime(1_000))
    assert pairs.rows("a 1 1, a 2 1", now=0) == ["a #0 [1,3) 2 r2 on_time final"]
    assert pairs.rows("", now=1_000) == []
