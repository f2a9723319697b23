"""Tumbling and hopping windows: docs/semantics.md, "Windows", "Lateness", "Panes"."""

from tests.support.aligned_stream import Windowing
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.windows.trigger import on_final


def test_a_pane_is_published_once_when_the_clock_reaches_the_window_end():
    #  1       9 10
    # [0--------)[10------)
    sums = Windowing(10)
    assert sums.step("a 1 5 | a 9 2 | a 10 7", watermark=9) == []
    assert sums.step(watermark=10) == ["a [0,10) 7 on_time r2!"]
    assert sums.step(watermark=15) == []
    assert sums.step(watermark=20) == ["a [10,20) 7 on_time r1!"]


def test_the_timeline_of_the_specification():
    #  event   t=1  t=9      t=12         t=4              t=16       t=3
    #  W        -    1        9            12               12         16
    #  [0,10)   in   in                    behind           late: 10 + 5 <= 16
    sums = Windowing(10, lateness_ms=5)
    assert sums.step("a 1 1", watermark=1) == []
    assert sums.step("a 9 1", watermark=9) == []
    assert sums.step("a 12 1", watermark=12) == ["a [0,10) 2 on_time r2"]
    assert sums.step("a 4 1", watermark=12) == ["a [0,10) 3 late r3"]
    assert sums.step("a 16 1", watermark=16) == []
    assert sums.step("a 3 1", watermark=16) == []
    assert sums.late == ["a 3 [0,10) by 1"]
    assert sums.finish() == ["a [10,20) 2 on_time r2!"]


def test_the_timeline_of_hopping_windows_in_the_specification():
    #  t=6 comes at W = 12: late for [0,10), and in [5,15); t=4 is late for both of its own
    sums = Windowing(10, slide_ms=5)
    assert sums.step("a 3 1", watermark=3) == []
    assert sums.step("a 7 1", watermark=7) == ["a [-5,5) 1 on_time r1!"]
    assert sums.step("a 12 1", watermark=12) == ["a [0,10) 2 on_time r2!"]
    assert sums.step("a 6 1", watermark=12) == []
    assert sums.step("a 16 1", watermark=16) == ["a [5,15) 3 on_time r3!"]
    assert sums.step("a 4 1", watermark=16) == []
    assert sums.late == ["a 4 [0,10) by 6"]
    assert sums.finish()[0] == "a [10,20) 2 on_time r2!"


def test_windows_before_1970_are_floored_too():
    #   -11 -10      -1 0
    # -20)[-10-------)[0-------)
    sums = Windowing(10)
    sums.step("a -11 1 | a -10 2 | a -1 3 | a 0 4", watermark=-20)
    assert sums.step(watermark=5) == ["a [-20,-10) 1 on_time r1!", "a [-10,0) 5 on_time r2!"]


def test_an_offset_moves_all_windows():
    sums = Windowing(10, offset_ms=-3)
    sums.step("a 6 1 | a 7 2", watermark=6)
    assert sums.step(watermark=30) == ["a [-3,7) 1 on_time r1!", "a [7,17) 2 on_time r1!"]


def test_a_hopping_row_is_in_every_window_that_contains_it():
    #        6
    # [-5--------5)
    #    [0--------10)
    #         [5-------15)
    sums = Windowing(10, slide_ms=5)
    sums.step("a 6 1", watermark=0)
    assert sums.step(watermark=9) == []
    assert sums.step(watermark=10) == ["a [0,10) 1 on_time r1!"]
    assert sums.step(watermark=15) == ["a [5,15) 1 on_time r1!"]


def test_a_slide_that_does_not_divide_the_size_covers_some_times_more_often():
    #          7
    # [0---------10)
    #     [4---------14)
    #         [8---------18)
    sums = Windowing(10, slide_ms=4)
    sums.step("a 7 1 | a 9 2", watermark=0)
    assert sums.step(watermark=100) == [
        "a [0,10) 3 on_time r2!",
        "a [4,14) 3 on_time r2!",
        "a [8,18) 2 on_time r1!",
    ]


def test_rows_behind_stay_out_of_the_on_time_pane_and_follow_it():
    # its own source is at 12 while another still holds the clock: nothing was published yet
    sums = Windowing(10, lateness_ms=10)
    panes = sums.step("a 1 5 | a 12 7 | a 3 2 @12 | b 4 1 @12", watermark=12)
    assert panes == ["a [0,10) 5 on_time r1", "a [0,10) 7 late r2", "b [0,10) 1 late r1"]


def test_a_key_that_only_came_behind_has_only_late_panes():
    sums = Windowing(10, lateness_ms=10)
    sums.step("a 1 5", watermark=12)
    assert sums.step("b 2 1", watermark=12) == ["b [0,10) 1 late r1"]


def test_a_published_window_is_corrected_once_a_segment():
    sums = Windowing(10, lateness_ms=10)
    sums.step("a 1 5 | b 1 1", watermark=12)
    assert sums.step("a 2 1 | a 3 1", watermark=12) == ["a [0,10) 7 late r3"]
    assert sums.step("a 4 1", watermark=13) == ["a [0,10) 8 late r4"]


def test_a_row_late_for_one_window_counts_in_the_open_ones():
    #      6      W=11
    # [0---------10)         late
    #     [5---------15)     on time
    sums = Windowing(10, slide_ms=5)
    sums.step(watermark=11)
    sums.step("a 6 1", watermark=11)
    assert sums.late == []
    assert sums.finish() == ["a [5,15) 1 on_time r1!"]


def test_a_window_never_shows_a_row_that_was_late_for_it_but_not_for_the_next():
    # with 2 ms of lateness, 6 @13 is too late for [0,10) and on time for [5,15)
    sums = Windowing(10, slide_ms=5, lateness_ms=2)
    assert sums.step("a 1 1 | a 3 10 @11 | a 6 100 @13", watermark=13) == [
        "a [-5,5) 1 on_time r1!",
        "a [0,10) 1 on_time r1!",
        "a [0,10) 11 late r2!",
    ]
    assert sums.finish() == ["a [5,15) 100 on_time r1!"]
    alone = Windowing(10, slide_ms=5, lateness_ms=2, trigger=on_final())
    assert alone.step("a 1 1 | a 6 100 @12", watermark=12) == [
        "a [-5,5) 1 on_time r1!",
        "a [0,10) 1 on_time r1!",
    ]


def test_a_row_late_for_all_its_windows_names_the_last_of_them():
    sums = Windowing(10, slide_ms=5, lateness_ms=2)
    sums.step(watermark=17)
    assert sums.step("a 6 1 | a 5 1", watermark=17) == []
    assert sums.late == ["a 6 [5,15) by 0", "a 5 [5,15) by 0"]


def test_a_row_exactly_at_the_end_of_lateness_is_late():
    sums = Windowing(10, lateness_ms=5)
    sums.step("a 1 1 @14 | a 1 1 @15", watermark=15)
    assert sums.late == ["a 1 [0,10) by 0"]


def test_on_final_publishes_everything_once_after_the_lateness():
    sums = Windowing(10, lateness_ms=5, trigger=on_final())
    assert sums.step("a 1 5 | b 2 1", watermark=12) == []
    assert sums.step("a 3 2", watermark=14) == []
    assert sums.step(watermark=15) == ["a [0,10) 7 late r2!", "b [0,10) 1 on_time r1!"]
    assert sums.step("a 3 2", watermark=30) == []
    assert sums.late == ["a 3 [0,10) by 0"]


def test_a_pane_is_final_when_nothing_can_be_added_any_more():
    sums = Windowing(10, lateness_ms=5)
    sums.step("a 1 5", watermark=14)
    sums.step("b 11 5", watermark=20)
    assert sums.step(watermark=25) == []
    near, far = Windowing(10, lateness_ms=5), Windowing(10, lateness_ms=5)
    assert near.step("a 1 5", watermark=14) == ["a [0,10) 5 on_time r1"]
    assert far.step("a 1 5", watermark=15) == ["a [0,10) 5 on_time r1!"]


def test_panes_come_by_end_then_key_then_revision():
    sums = Windowing(10, lateness_ms=50)
    sums.step("b 1 1 | a 2 1", watermark=10)
    assert sums.step("- 11 1 | b 15 1 | a 12 1 | b 13 1 @20 | b 3 1 | a 21 1", watermark=30) == [
        "b [0,10) 2 late r2",
        "None [10,20) 1 on_time r1",
        "a [10,20) 1 on_time r1",
        "b [10,20) 1 on_time r1",
        "b [10,20) 2 late r2",
        "a [20,30) 1 on_time r1",
    ]


def test_the_end_of_input_jumps_over_empty_windows():
    sums = Windowing(1)
    sums.step("a 0 1 | a 4000000000000 2", watermark=0)
    assert sums.finish() == [
        "a [0,1) 1 on_time r1!",
        "a [4000000000000,4000000000001) 2 on_time r1!",
    ]


def test_several_key_columns_make_one_key():
    sums = Windowing(10, key=("region", "key"))
    sums.step("a/eu 1 1 | a/us 2 2 | b/eu 3 4 | a/eu 4 8", watermark=0)
    assert sums.step(watermark=10) == [
        "a [0,10) 9 on_time r2!",
        "b [0,10) 4 on_time r1!",
        "a [0,10) 2 on_time r1!",
    ]


def test_nothing_published_still_has_the_columns_of_panes():
    sums = Windowing(10)
    empty = sums.operator.body.publish(sums.task.state, NEVER_MS, 5)
    sums.step("a 1 1", watermark=0)
    full = sums.operator.body.publish(sums.task.state, 0, 10)
    assert empty.is_empty()
    assert empty.schema == full.schema
