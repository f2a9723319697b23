"""Bounds of sessions, rule by rule.  Timelines show event times; the gap is 10 ms."""

import polars as pl

from tests.support.session_stream import Stream
from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.sessions.operator import AFTER_MERGING, SessionAggregate
from tidemark.core.time.segment import NEVER_MS, ROW_COLUMNS, SOURCE
from tidemark.core.windows.window import Session


def test_a_session_is_published_once_when_the_clock_reaches_last_event_plus_gap():
    #  0    5         15
    #  a----a---------)
    stream = Stream()
    assert stream.rows("a 0, a 5", clock=14) == []
    assert stream.clock(15) == ["a [0,15) r2 on_time final"]
    assert stream.clock(99) == []


def test_two_events_exactly_one_gap_apart_stay_separate():
    #  0         10        20
    #  a---------)a--------)
    assert Stream().rows("a 0, a 10", clock=20) == [
        "a [0,10) r1 on_time final",
        "a [10,20) r1 on_time final",
    ]


def test_two_events_less_than_a_gap_apart_join_in_any_order_and_segment():
    #  0        9         19
    #  a--------a---------)
    stream = Stream()
    stream.rows("a 9 @0")
    assert stream.rows("a 0", clock=19) == ["a [0,19) r2 on_time final"]


def test_an_event_between_two_open_sessions_makes_them_one():
    #  0      7       15        25
    #  a------a-------a---------)
    stream = Stream()
    stream.rows("a 0, a 15 @0")
    assert stream.rows("a 7 @0", clock=25) == ["a [0,25) r3 on_time final"]


def test_an_event_exactly_one_gap_from_both_neighbours_bridges_nothing():
    #  0         10        20        30
    #  a---------)a--------)a--------)
    stream = Stream()
    stream.rows("a 0, a 20 @0")
    ends = stream.rows("a 10 @0", clock=30)
    assert ends == [f"a [{t},{t + 10}) r1 on_time final" for t in (0, 10, 20)]


def test_a_key_may_have_several_open_sessions_and_only_the_touched_one_grows():
    #  0    10   20  25   30  35   40   50
    #  a----)    a---a-------)    a-----)
    stream = Stream()
    stream.rows("a 0, a 20 @0, a 40 @0, b 3")
    assert stream.rows("a 25 @0", clock=50) == [
        "a [0,10) r1 on_time final",
        "b [3,13) r1 on_time final",
        "a [20,35) r2 on_time final",
        "a [40,50) r1 on_time final",
    ]


def test_sessions_before_1970_are_like_any_others():
    #  -25    -18       -8 -5        5
    #  a------a---------)  a---------)
    assert Stream().rows("a -25, a -18, a -5", clock=5) == [
        "a [-25,-8) r2 on_time final",
        "a [-5,5) r1 on_time final",
    ]


def test_a_null_key_is_a_key():
    assert Stream().rows("- 0, a 1, - 5", clock=20) == [
        "a [1,11) r1 on_time final",
        "- [0,15) r2 on_time final",
    ]


def test_keys_stay_apart_however_far_apart_their_times_are():
    far = 2**61
    stream = Stream()
    near = [f"{key} {5 * n - far} @{-far}" for key in "abcde" for n in range(40)]
    assert stream.rows(",".join([*near, f"a {far} @{-far}"]), clock=far + 10) == [
        *(f"{key} [{-far},{-far + 205}) r40 on_time final" for key in "abcde"),
        f"a [{far},{far + 10}) r1 on_time final",
    ]


def test_the_columns_of_a_composite_key_count_together():
    columns = {"key": pl.String(), "room": pl.Int64(), "value": pl.Int64()}
    body = SessionAggregate(
        Session(10), Aggregation({"n": aggregates.count()}, columns), ("key", "room"), columns
    )
    keys = [("a", 1), ("a", 2), (None, 1), ("a", None), ("a", 1), ("a", None)]
    rows = [("t/0", i, 0, i, i, *key, None) for i, key in enumerate(keys)]
    state = body.open()
    schema = {**ROW_COLUMNS, SOURCE: pl.String(), **columns}
    body.fold(pl.DataFrame(rows, schema=schema, orient="row"), state)
    panes = body.publish(state, NEVER_MS, 100)
    assert panes.select("key", "room", "start", "end", "n").rows() == [
        ("a", 2, 1, 11, 1),
        (None, 1, 2, 12, 1),
        ("a", 1, 0, 14, 2),
        ("a", None, 3, 15, 2),
    ]


# Gaps that are values of rows


def test_a_row_lasts_for_the_gap_of_its_own():
    #  0+3   5+20     9+2          25+1
    #  [--)  [--------[-)--------)[)
    stream = Stream(windows=Session(30, "gap"))
    assert stream.rows("a 0+3, a 5+20, a 9+2, a 25+1", 3) == ["a [0,3) r1 on_time final"]
    assert stream.clock(24) == []
    assert stream.clock(26) == ["a [5,25) r2 on_time final", "a [25,26) r1 on_time final"]


def test_the_end_of_a_session_is_the_latest_end_of_a_row_not_that_of_its_latest_row():
    #  0+10 ........)
    #     4+2)  9+30 .........)
    stream = Stream(windows=Session(30, "gap"), allowed_lateness_ms=5)
    assert stream.rows("a 0+10, a 4+2 @4", 10) == ["a [0,10) r2 on_time"]
    assert stream.rows("a 9+30 @10", 10) == []
    assert stream.clock(39) == ["a [0,39) r3 late"]


def test_whether_a_row_is_late_is_told_by_its_own_gap():
    stream = Stream(windows=Session(30, "gap"), lateness=AFTER_MERGING)
    stream.clock(20)
    assert stream.rows("a 10+10 @20, a 10+11 @20", 20) == ["late a 10"]
    assert stream.clock(21) == ["a [10,21) r1 on_time final"]
