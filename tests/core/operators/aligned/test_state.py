"""State of aligned windows: what snapshots hold, and how blocks merge."""

import pytest

from tests.support.aligned_stream import Windowing
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.aligned import slice_buffer
from tidemark.core.operators.aligned import state as slices
from tidemark.core.operators.aligned.slice_buffer import SLICE
from tidemark.core.operators.aligned.state import BLOCKS
from tidemark.core.windows.trigger import on_close, on_final


def test_sums_that_outgrow_a_column_survive_a_restore():
    big = 2**62
    sums = Windowing(10)
    sums.step(f"a 1 {big} | a 2 {big} | a 3 {big}", watermark=0)
    sums.step("a 4 1", watermark=0)
    sums.step("b 4 1 | b 11 1", watermark=0)
    sums.task.take_snapshot()
    sums.task.compact()
    sums.task.restart()
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
