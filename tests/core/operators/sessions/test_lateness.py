"""Lateness of sessions, rule by rule.  Timelines show event times; the gap is 10 ms."""

import pytest

from tests.core.operators.sessions.lateness_rules import compare
from tests.support.session_stream import ROWS, Stream
from tidemark.core.operators.sessions.operator import AFTER_MERGING
from tidemark.core.windows.window import Session


def test_a_row_is_late_when_the_session_it_would_be_in_is_past_its_time():
    #  0         10
    #  a---------)    row 2 comes at W = 12: its own [2,12) is past, and so is [0,10)
    stream = Stream(lateness=AFTER_MERGING)
    stream.rows("a 0", clock=12)
    assert stream.rows("a 2 @12") == ["late a 2"]


def test_a_late_row_says_what_it_missed_and_by_how_much_and_keeps_its_columns():
    stream = Stream(lateness=AFTER_MERGING, allowed_lateness_ms=5)
    late = stream.body.fold(stream.frame("a 2 @20, b 7 @21"), stream.state)
    assert late.columns == [*ROWS, "start", "end", "late_by_ms"]
    assert late.select("key", "start", "end", "late_by_ms").rows() == [("a", 2, 12, 3)]


def test_a_row_past_its_own_time_joins_a_session_that_is_still_open():
    #      5     12        22
    #      a-----a---------)     row 5 comes at W = 16: [5,15) is past, [5,22) is not
    stream = Stream(lateness=AFTER_MERGING)
    stream.rows("a 12")
    assert stream.rows("a 5 @16", clock=22) == ["a [5,22) r2 late final"]


def test_by_default_final_sessions_of_a_key_never_overlap():  # A10
    #  0    3    5    8
    #  a----x----)             row 3 comes at W = 6: [0,5) is final
    stream = Stream(windows=Session(5))
    assert stream.rows("a 0, b 6", clock=6) == ["a [0,5) r1 on_time final"]
    assert stream.rows("a 3 @6", clock=20) == ["late a 3", "b [6,11) r1 on_time final"]


def test_a_strict_late_row_says_by_how_much_it_missed_its_own_time():
    stream = Stream(allowed_lateness_ms=5)
    late = stream.body.fold(stream.frame("a 2 @20, b 16 @22"), stream.state)
    assert late.select("key", "start", "end", "late_by_ms").rows() == [
        ("a", 2, 12, 13),
        ("b", 16, 26, 1),
    ]


def test_strict_lateness_looks_at_the_event_time_alone():
    #      5     12        22
    #      x     a---------)     row 5 comes at W = 16
    stream = Stream()
    stream.rows("a 12")
    assert stream.rows("a 5 @16", clock=22) == ["late a 5", "a [12,22) r1 on_time final"]


def test_strict_lateness_allows_what_is_allowed_to_the_millisecond():
    stream = Stream(allowed_lateness_ms=4)
    assert stream.rows("a 6 @10, b 5 @10", clock=20) == ["late b 5", "a [6,16) r1 late final"]


def test_late_rows_do_not_join_each_other():
    assert Stream(lateness=AFTER_MERGING).rows("a 0 @50, a 1 @50, a 2 @50", clock=60) == [
        "late a 0",
        "late a 1",
        "late a 2",
    ]


def test_the_row_that_a_late_row_would_have_bridged_to_does_not_save_it():
    #  0   5     10  12        22
    #  a---x-----)   a---------)    row 5 at W = 15 sees [12,22) and joins it, but [0,10) is past
    stream = Stream(lateness=AFTER_MERGING)
    assert stream.rows("a 0", clock=10) == ["a [0,10) r1 on_time final"]
    assert stream.rows("a 12, a 5 @15", clock=22) == ["a [5,22) r2 late final"]


def test_a_session_is_past_its_time_for_the_row_that_passed_it_and_not_for_others():
    #  0    6    10   16
    #  a----a----)-----)    row 6 at W = 12 does not see [0,10); row 3 at W = 4 sees both
    stream = Stream(lateness=AFTER_MERGING)
    stream.rows("a 0")
    assert stream.rows("a 6 @12") == []
    assert stream.rows("a 3 @4", clock=16) == ["a [0,16) r3 on_time final"]


def test_sessions_that_overlap_unseen_are_two():
    #  0         10
    #  a---------)          row 6 at W = 12 does not see [0,10): a session of its own
    #        a---------)
    stream = Stream(lateness=AFTER_MERGING)
    stream.rows("a 0")
    assert stream.rows("a 6 @12", clock=16) == [
        "a [0,10) r1 on_time final",
        "a [6,16) r1 on_time final",
    ]


@pytest.mark.parametrize("segments", [1, 4])
def test_a_row_finds_the_session_it_is_in_behind_a_shorter_one_that_nobody_saw(segments):
    #  0    5   8    15 18
    #       a--------)            row 8 at W = 15 does not see [5,15)
    #           a-------)         row 0 at W = 16 makes it [0,18), around [5,15)
    #  a---------------a)------)  row 16
    stream = Stream(lateness=AFTER_MERGING)
    rows = ["a 5", "a 8 @15", "a 0 @16", "a 16"]
    for segment in rows if segments == 4 else [",".join(rows)]:
        stream.rows(segment)
    assert stream.clock(26) == [
        "a [5,15) r1 on_time final",
        "a [0,26) r3 late final",
    ]


@pytest.mark.parametrize("purged", [False, True])
def test_a_row_past_its_time_may_take_the_start_of_a_session_past_its_time(purged):
    #  0    5    10   15
    #  a---------)             over at W = 12, which row 5 comes at
    #       a---------)
    #  a--------------)        row 0 at W = 12 joins the second only, purged or not
    stream = Stream(lateness=AFTER_MERGING)
    stream.rows("a 0")
    assert stream.rows("b 12", clock=12) == ["a [0,10) r1 on_time final"]
    if purged:
        stream.state.purge(12)
    assert stream.rows("a 5 @12, a 0 @12") == []
    assert stream.clock(15) == ["a [0,15) r2 late final"]


def test_the_timeline_of_strict_sessions_in_the_specification():
    stream = Stream(allowed_lateness_ms=5)
    assert stream.rows("a 0 @-1, a 8 @0, b 16 @8, a 12 @16", clock=16) == []
    assert stream.rows("a 10 @16") == ["late a 10"]
    assert stream.clock(22) == ["a [0,22) r3 late"]


def test_a_strict_session_keeps_no_row_past_its_time():
    #  as above, where row 0 is late
    stream = Stream()
    stream.rows("a 0")
    assert stream.rows("b 12", clock=12) == ["a [0,10) r1 on_time final"]
    assert stream.rows("a 5 @12, a 0 @12")[0].startswith("late a 5")


@pytest.mark.parametrize("purged", [False, True])
def test_state_past_its_time_is_invisible_purged_or_not(purged):
    #  0         10 12        22
    #  a---------)  a---------)    row 9 at W = 13 joins [12,22) only
    stream = Stream(lateness=AFTER_MERGING, allowed_lateness_ms=3)
    stream.rows("a 0", clock=13)
    if purged:
        stream.state.purge(13)
        assert list(stream.state.snapshot()) == []
    assert stream.rows("a 12 @13, a 9 @13", clock=22) == ["a [9,22) r2 on_time"]


def test_the_rules_differ_in_random_streams_as_the_decision_says():
    for (strict, lateness_ms), counts in compare(12).items():
        found = counts.overlapping, counts.differing
        assert found == (0, 0) if strict else lateness_ms or all(found), counts
