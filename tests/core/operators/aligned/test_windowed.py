"""Tumbling and hopping windows as transcripts: docs/semantics.md, "Windows", "Lateness", "Panes".

A row is written ``key at value``, and ``@w`` after it where its own watermark is not that of the
step before.  A pane is shown as ``key [start,end) total timing rN``, with ``!`` where it is final.
"""

import polars as pl
import pytest

from tests.support.running import Task
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.aggregates.constructors import count
from tidemark.core.aggregates.constructors import sum as total
from tidemark.core.operators.aligned import slice_buffer
from tidemark.core.operators.aligned import state as slices
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.aligned.slice_buffer import SLICE
from tidemark.core.operators.aligned.state import BLOCKS
from tidemark.core.operators.operator import Operator
from tidemark.core.time.segment import NEVER_MS, ROW_COLUMNS, Segment, SourceMark
from tidemark.core.windows.trigger import on_close, on_final
from tidemark.core.windows.window import Hopping, Session
from tidemark.errors import PipelineError

COLUMNS = {"key": pl.String(), "region": pl.String(), "value": pl.Int64()}


class Windowing:
    """A task of one operator with one source, driven by text."""

    def __init__(self, size_ms=10, *, lateness_ms=0, trigger=None, key=("key",), **windows):
        hopping = Hopping(size_ms, windows.pop("slide_ms", size_ms), **windows)
        aggregation = Aggregation({"total": total("value"), "n": count()}, COLUMNS)
        body = WindowAggregate(
            hopping, aggregation, key, COLUMNS, lateness_ms, trigger or on_close()
        )
        self.operator = Operator("sums", ("s",), frozenset({"t"}), key, COLUMNS, body)
        self.task = Task(self.operator)
        self.watermark_ms, self.offset = NEVER_MS, 0
        self.late: list[str] = []

    def step(self, rows="", *, watermark):
        """Fold rows, move the watermark, and show the panes."""
        made = [self._row(text) for text in rows.split("|") if text.strip()]
        first, self.offset = self.offset, self.offset + len(made)
        mark = SourceMark("t/0", first, self.offset, self.watermark_ms, watermark)
        frame = pl.DataFrame(
            [(0, first + i, 0, *row) for i, row in enumerate(made)],
            schema={**ROW_COLUMNS, **COLUMNS},
            orient="row",
        )
        output = self.task.step(Segment(0, 0, (mark,), {"t": 1}, 0, {"s": frame}))
        self.watermark_ms = watermark
        self.late = [shown_late(row) for row in output.late.iter_rows(named=True)]
        return shown(output.panes)

    def finish(self):
        return shown(self.operator.finish(self.task.clocks, self.task.state).panes)

    def _row(self, text):
        words = text.split()
        own_ms = int(words.pop()[1:]) if words[-1].startswith("@") else self.watermark_ms
        key, at, value = words
        name, _, region = key.partition("/")
        return (int(at), own_ms, None if name == "-" else name, region, int(value))


def shown(panes):
    return [
        f"{p['key']} [{p['start']},{p['end']}) {p['total']} {p['timing']} r{p['revision']}"
        + ("!" if p["final"] else "")
        for p in panes.iter_rows(named=True)
    ]


def shown_late(row):
    return f"{row['key']} {row['@event_time']} [{row['start']},{row['end']}) by {row['late_by_ms']}"


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


def test_changes_are_what_was_added_and_nothing_twice():
    sums = Windowing(10)
    sums.step("a 1 1 | a 2 1 | a 11 1", watermark=0)
    assert sums.task.changelog[-1][BLOCKS][SLICE].sort().to_list() == [0, 10]
    sums.step(watermark=0)
    assert sums.task.changelog[-1] == {}


def test_sums_that_outgrow_a_column_survive_a_restore():
    big = 2**62
    sums = Windowing(10)
    sums.step(f"a 1 {big} | a 2 {big} | a 3 {big}", watermark=0)
    sums.step("a 4 1", watermark=0)
    sums.step("b 4 1 | b 11 1", watermark=0)
    sums.task.snapshot()
    sums.task.compact()
    sums.task.restore()
    assert sums.step(watermark=10) == [
        f"a [0,10) {3 * big + 1} on_time r4!",
        "b [0,10) 1 on_time r1!",
    ]
    assert sums.step(watermark=20) == ["b [10,20) 1 on_time r1!"]


def test_blocks_of_a_slice_stay_few_and_merging_them_shows_nowhere():
    sums = Windowing(10, lateness_ms=5)
    for value in range(300):
        sums.step(f"a 1 {value} | a 2 0 @12", watermark=12)
        held = next(sums.task.state.snapshot())[BLOCKS]
        assert held.height < 80
    assert sums.step("a 3 0", watermark=12) == [f"a [0,10) {sum(range(300))} late r601"]


def test_purging_forgets_what_no_row_can_reach():
    sums = Windowing(10, slide_ms=5, lateness_ms=3)
    sums.step("a 1 1 | a 6 1", watermark=12)
    sums.task.state.purge(12)
    assert set(next(sums.task.state.snapshot())[BLOCKS][SLICE]) == {0, 5}
    sums.task.state.purge(13)
    assert set(next(sums.task.state.snapshot())[BLOCKS][SLICE]) == {5}
    sums.task.state.purge(18)
    assert list(sums.task.state.snapshot()) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Hopping(0, 1), "size must be positive, got 0 ms"),
        (lambda: Hopping(-5, 1), "size must be positive, got -5 ms"),
        (lambda: Hopping(10, 0), "slide must be positive .* got 0 ms"),
        (lambda: Hopping(10, 11), "at most the size of 10 ms, got 11 ms"),
        (lambda: Hopping(10, 5, 5), "shorter than the slide of 5 ms, got 5 ms"),
        (lambda: Hopping(10, 5, -5), "shorter than the slide of 5 ms, got -5 ms"),
        (lambda: Session(0), "gap must be positive, got 0 ms"),
    ],
)
def test_what_is_no_window_is_refused_with_its_value(make, message):
    with pytest.raises(PipelineError, match=message):
        make()


@pytest.mark.parametrize("purged", [False, True])
def test_rows_of_many_windows_at_once_give_the_panes_of_windows_kept_apart(monkeypatch, purged):
    def panes(few, many):
        monkeypatch.setattr(slices, "_FEW", few)
        monkeypatch.setattr(slice_buffer, "_MANY", many)
        windows = Windowing(20, slide_ms=10, lateness_ms=30)
        made = []
        for n in range(40):
            rows = "|".join(f"{'abc'[m % 3]} {n * 7 + m * 9} {m}" for m in range(12))
            made += windows.step(rows, watermark=n * 7 + 25)
            if purged:
                windows.task.state.purge(windows.task.clocks.clock_ms)
                windows.task.state.validate()
        return made + windows.finish()

    assert panes(few=3, many=3) == panes(few=100, many=3)


@pytest.mark.parametrize("trigger", [on_close(), on_final()])
@pytest.mark.parametrize("few", [0, 1_000])
def test_many_overlapping_windows_at_once_lay_out_few_blocks_at_a_time(monkeypatch, trigger, few):
    merged = []
    combine = Aggregation.combine

    def counted(aggregation, partials, by):
        merged.append(sum(part.height for part in partials))
        return combine(aggregation, partials, by)

    def panes(portion_bytes):
        merged.clear()
        monkeypatch.setattr(slices, "_PORTION_BYTES", portion_bytes)
        windows = Windowing(100, slide_ms=1, lateness_ms=1_000, trigger=trigger)
        rows = "|".join(f"a {n} {n}" for n in range(100))
        made = windows.step(rows, watermark=500)
        made += windows.step("a 50 1 | a 60 1", watermark=600)
        return made + windows.finish()

    monkeypatch.setattr(slices, "_FEW", few)
    monkeypatch.setattr(Aggregation, "combine", counted)
    whole = panes(portion_bytes=2**30)
    assert max(merged) >= 10_000
    assert panes(portion_bytes=10_000) == whole
    assert max(merged) < 1_000
