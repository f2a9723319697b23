"""Corrections of sessions, rule by rule.  Timelines show event times; the gap is 10 ms."""

import pytest

from tests.support.session_stream import Stream
from tidemark.core.operators.sessions.operator import AFTER_MERGING
from tidemark.core.windows.trigger import every, on_close, on_final
from tidemark.errors import PipelineError


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


def test_a_withdrawal_may_lie_any_time_behind_the_clock():
    #  -5    0     9 10     18 19
    #   a    a-----a-)-------|-)    row 9 keeps the session open until row -5 comes at 18
    stream = Stream(allowed_lateness_ms=5, lateness=AFTER_MERGING)
    assert stream.rows("a 0", clock=10) == ["a [0,10) r1 on_time"]
    assert stream.rows("a 9 @10", clock=18) == []
    assert stream.rows("a -5 @18") == ["a [0,10) r1 retracted"]
    assert stream.body.outputs[0].holds_ms is None


def test_an_early_pane_may_be_withdrawn_any_time_behind_the_clock():
    stream = Stream(trigger=on_close(early=every(rows=2)), lateness=AFTER_MERGING)
    assert stream.rows("a 0, a 0", clock=5) == ["a [0,10) r2 early"]
    assert stream.rows("a 9", clock=18) == []
    assert stream.rows("a -5 @18")[0] == "a [0,10) r2 retracted"
    assert stream.body.outputs[0].holds_ms is None


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"allowed_lateness_ms": 5},
        {"allowed_lateness_ms": 5, "trigger": every(rows=2)},
        {"lateness": AFTER_MERGING},
        {"lateness": AFTER_MERGING, "allowed_lateness_ms": 5, "trigger": on_final()},
        {"lateness": AFTER_MERGING, "allowed_lateness_ms": 5, "discarding": True},
    ],
)
def test_other_panes_lie_no_further_behind_the_clock_than_the_allowed_lateness(settings):
    port = Stream(**settings).body.outputs[0]
    assert port.holds_ms == settings.get("allowed_lateness_ms", 0)


def test_an_open_session_may_change_its_start_without_a_word():
    stream = Stream(allowed_lateness_ms=50, lateness=AFTER_MERGING)
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
    assert stream.rows("a 0", clock=9) == []
    assert stream.rows("a 4 @9", clock=18) == []
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
        ({"lateness": "never"}, "lateness must be 'strict' or 'after_merging', got 'never'"),
        ({"allowed_lateness_ms": -1}, "allowed_lateness must not be negative, got -1 ms"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, message):
    with pytest.raises(PipelineError, match=message):
        Stream(**settings)
