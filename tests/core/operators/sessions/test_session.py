"""Sessions rule by rule.  Timelines show event times; the gap is 10 ms."""

import polars as pl
import pytest

from tests.support.session_stream import ROWS, Stream
from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.sessions.operator import STRICT, SessionAggregate
from tidemark.core.time.segment import NEVER_MS, ROW_COLUMNS, SOURCE
from tidemark.core.windows.trigger import on_close, on_final
from tidemark.core.windows.window import Session
from tidemark.errors import PipelineError

# Bounds


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
    state = body.fresh()
    schema = {**ROW_COLUMNS, SOURCE: pl.String(), **columns}
    body.fold(pl.DataFrame(rows, schema=schema, orient="row"), state)
    panes = body.publish(state, NEVER_MS, 100)
    assert panes.select("key", "room", "start", "end", "n").rows() == [
        ("a", 2, 1, 11, 1),
        (None, 1, 2, 12, 1),
        ("a", 1, 0, 14, 2),
        ("a", None, 3, 15, 2),
    ]


# Lateness


def test_a_row_is_late_when_the_session_it_would_be_in_is_past_its_time():
    #  0         10
    #  a---------)    row 2 comes at W = 12: its own [2,12) is past, and so is [0,10)
    stream = Stream()
    stream.rows("a 0", clock=12)
    assert stream.rows("a 2 @12") == ["late a 2"]


def test_a_late_row_says_what_it_missed_and_by_how_much_and_keeps_its_columns():
    stream = Stream(allowed_lateness_ms=5)
    late = stream.body.fold(stream.frame("a 2 @20, b 7 @21"), stream.state)
    assert late.columns == [*ROWS, "start", "end", "late_by_ms"]
    assert late.select("key", "start", "end", "late_by_ms").rows() == [("a", 2, 12, 3)]


def test_a_row_past_its_own_time_joins_a_session_that_is_still_open():
    #      5     12        22
    #      a-----a---------)     row 5 comes at W = 16: [5,15) is past, [5,22) is not
    stream = Stream()
    stream.rows("a 12")
    assert stream.rows("a 5 @16", clock=22) == ["a [5,22) r2 late final"]


def test_strict_lateness_looks_at_the_event_time_alone():
    #      5     12        22
    #      x     a---------)     row 5 comes at W = 16
    stream = Stream(lateness=STRICT)
    stream.rows("a 12")
    assert stream.rows("a 5 @16", clock=22) == ["late a 5", "a [12,22) r1 on_time final"]


def test_strict_lateness_allows_what_is_allowed_to_the_millisecond():
    stream = Stream(lateness=STRICT, allowed_lateness_ms=4)
    assert stream.rows("a 6 @10, b 5 @10", clock=20) == ["late b 5", "a [6,16) r1 late final"]


def test_late_rows_do_not_join_each_other():
    assert Stream().rows("a 0 @50, a 1 @50, a 2 @50", clock=60) == [
        "late a 0",
        "late a 1",
        "late a 2",
    ]


def test_the_row_that_a_late_row_would_have_bridged_to_does_not_save_it():
    #  0   5     10  12        22
    #  a---x-----)   a---------)    row 5 at W = 15 sees [12,22) and joins it, but [0,10) is past
    stream = Stream()
    assert stream.rows("a 0", clock=10) == ["a [0,10) r1 on_time final"]
    assert stream.rows("a 12, a 5 @15", clock=22) == ["a [5,22) r2 late final"]


def test_a_session_is_past_its_time_for_the_row_that_passed_it_and_not_for_others():
    #  0    6    10   16
    #  a----a----)-----)    row 6 at W = 12 does not see [0,10); row 3 at W = 4 sees both
    stream = Stream()
    stream.rows("a 0")
    assert stream.rows("a 6 @12") == []
    assert stream.rows("a 3 @4", clock=16) == ["a [0,16) r3 on_time final"]


def test_sessions_that_overlap_unseen_are_two():
    #  0         10
    #  a---------)          row 6 at W = 12 does not see [0,10): a session of its own
    #        a---------)
    stream = Stream()
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
    stream = Stream()
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
    stream = Stream()
    stream.rows("a 0")
    assert stream.rows("b 12", clock=12) == ["a [0,10) r1 on_time final"]
    if purged:
        stream.state.purge(12)
    assert stream.rows("a 5 @12, a 0 @12") == []
    assert stream.clock(15) == ["a [0,15) r2 late final"]


def test_the_timeline_of_strict_sessions_in_the_specification():
    stream = Stream(lateness=STRICT, allowed_lateness_ms=5)
    assert stream.rows("a 0 @-1, a 8 @0, b 16 @8, a 12 @16", clock=16) == []
    assert stream.rows("a 10 @16") == ["late a 10"]
    assert stream.clock(22) == ["a [0,22) r3 late"]


def test_a_strict_session_keeps_no_row_past_its_time():
    #  as above, where row 0 is late
    stream = Stream(lateness=STRICT)
    stream.rows("a 0")
    assert stream.rows("b 12", clock=12) == ["a [0,10) r1 on_time final"]
    assert stream.rows("a 5 @12, a 0 @12")[0].startswith("late a 5")


@pytest.mark.parametrize("purged", [False, True])
def test_state_past_its_time_is_invisible_purged_or_not(purged):
    #  0         10 12        22
    #  a---------)  a---------)    row 9 at W = 13 joins [12,22) only
    stream = Stream(allowed_lateness_ms=3)
    stream.rows("a 0", clock=13)
    if purged:
        stream.state.purge(13)
        assert list(stream.state.snapshot()) == []
    assert stream.rows("a 12 @13, a 9 @13", clock=22) == ["a [9,22) r2 on_time"]


# Corrections


def test_rows_behind_a_published_session_give_one_correction_a_segment():
    #  0  3  5   10 13 15
    #  a--a--a---)  )  )     rows 3 and 5 come after [0,10) went out
    stream = Stream(allowed_lateness_ms=50)
    assert stream.rows("a 0", clock=20) == ["a [0,10) r1 on_time"]
    assert stream.rows("a 3 @20, a 5 @20") == ["a [0,15) r3 late"]
    assert stream.rows("b 90") == []


def test_a_session_that_grows_beyond_the_clock_waits_for_its_new_end():
    #  0       8 10   18
    #  a-------a-)----)     row 8 comes after [0,10) went out at 12
    stream = Stream(allowed_lateness_ms=50)
    assert stream.rows("a 0", clock=12) == ["a [0,10) r1 on_time"]
    assert stream.rows("a 8 @12") == []
    assert stream.clock(17) == []
    assert stream.clock(18) == ["a [0,18) r2 late"]


def test_a_new_start_withdraws_the_published_pane_at_once():
    #  0     6   10   16
    #  a-----a---)----)     row 0 comes after [6,16) went out
    stream = Stream(allowed_lateness_ms=50)
    assert stream.rows("a 6", clock=16) == ["a [6,16) r1 on_time"]
    assert stream.rows("a 0 @16") == ["a [6,16) r1 retracted", "a [0,16) r2 late"]


def test_a_new_start_withdraws_the_pane_even_where_the_session_is_open_again():
    #  3     9 13   19        and row 15: open until 25
    stream = Stream(allowed_lateness_ms=50)
    assert stream.rows("a 9", clock=20) == ["a [9,19) r1 on_time"]
    assert stream.rows("a 3 @20, a 15 @20") == ["a [9,19) r1 retracted"]
    assert stream.clock(25) == ["a [3,25) r3 late"]


def test_a_start_under_which_nothing_went_out_is_not_withdrawn():
    #  -2    3     9  15   19   25
    #  a-----a-----a--a----)----)     [9,19) went out at 20; then 3 and 15, then -2
    stream = Stream(allowed_lateness_ms=50)
    stream.rows("a 9", clock=20)
    assert stream.rows("a 3 @20, a 15 @20") == ["a [9,19) r1 retracted"]
    assert stream.rows("a -2 @20") == []
    assert stream.clock(25) == ["a [-2,25) r4 late"]


def test_published_sessions_that_merge_keep_the_first_start_and_withdraw_the_others():
    #  0    7   10   14       24
    #  a----a---)----a--------)     row 7 comes after both went out
    stream = Stream(allowed_lateness_ms=50)
    assert stream.rows("a 0, a 14", clock=24) == ["a [0,10) r1 on_time", "a [14,24) r1 on_time"]
    assert stream.rows("a 7 @24") == ["a [14,24) r1 retracted", "a [0,24) r3 late"]


def test_a_withdrawal_names_the_pane_that_went_out_last():
    stream = Stream(allowed_lateness_ms=50)
    stream.rows("a 10", clock=20)
    assert stream.rows("a 12 @20", clock=22) == ["a [10,22) r2 late"]
    assert stream.rows("a 18 @22") == []
    assert stream.rows("a 5 @22", clock=28) == ["a [10,22) r2 retracted", "a [5,28) r4 late"]


def test_an_open_session_may_change_its_start_without_a_word():
    stream = Stream(allowed_lateness_ms=50)
    stream.rows("a 6", clock=8)
    assert stream.rows("a 0 @8", clock=16) == ["a [0,16) r2 on_time"]


def test_withdrawn_panes_have_no_values():
    stream = Stream(allowed_lateness_ms=50)
    stream.rows("a 6", clock=16)
    stream.body.fold(stream.frame("a 0 @16"), stream.state)
    panes = stream.body.publish(stream.state, 16, 16)
    assert panes.select("retracted", "total").rows() == [(True, None), (False, 2)]


def test_on_final_publishes_once_at_end_plus_lateness():
    #  0   4     10 14      19
    #  a---a-----)--)       : 14 + 5
    stream = Stream(allowed_lateness_ms=5, trigger=on_final())
    assert stream.rows("a 0", clock=12) == []
    assert stream.rows("a 4 @12", clock=18) == []
    assert stream.clock(19) == ["a [0,14) r2 late final"]
    assert stream.rows("a 5 @20", clock=99) == ["late a 5"]


def test_a_pane_is_final_once_the_clock_passed_end_plus_lateness():
    stream = Stream(allowed_lateness_ms=5, trigger=on_close())
    assert stream.rows("a 0, b 6", clock=15) == ["a [0,10) r1 on_time final"]
    assert stream.clock(16) == ["b [6,16) r1 on_time"]


def test_withdrawals_come_first_then_panes_by_end_key_and_start():
    stream = Stream(allowed_lateness_ms=50)
    stream.rows("b 6, a 8", clock=18)
    assert stream.rows("c 9, a 3 @18, b 2 @18, d 8, - 9", clock=19) == [
        "b [6,16) r1 retracted",
        "a [8,18) r1 retracted",
        "b [2,16) r2 late",
        "a [3,18) r2 late",
        "d [8,18) r1 on_time",
        "- [9,19) r1 on_time",
        "c [9,19) r1 on_time",
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lateness": "never"}, "lateness must be 'after_merging' or 'strict', got 'never'"),
        ({"allowed_lateness_ms": -1}, "allowed_lateness must not be negative, got -1 ms"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, message):
    with pytest.raises(PipelineError, match=message):
        Stream(**settings)


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
    stream = Stream(windows=Session(30, "gap"))
    stream.clock(20)
    assert stream.rows("a 10+10 @20, a 10+11 @20", 20) == ["late a 10"]
    assert stream.clock(21) == ["a [10,21) r1 on_time final"]
