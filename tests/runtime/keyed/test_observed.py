"""What stats say of results and late rows is what the ports of each family of operators publish."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.support.logs import event_logs
from tests.support.operators.families import FAMILIES
from tidemark.core.operators.ports import DEAD, FAILED, LATE, LATE_BY, REASON, late_port
from tidemark.core.operators.rows import NoState
from tidemark.core.operators.task import OperatorTask
from tidemark.core.windows.open_bounds import OpenBounds, WindowAges
from tidemark.runtime.keyed.observed import KeyedTally, RecentAges
from tidemark.runtime.service.histogram import BOUNDS_MS

NOW_MS = 10**9


def counts(durations: list[int]) -> list[int]:
    edges = [-(2**62), *BOUNDS_MS, 2**62]
    return [sum(a < each <= b for each in durations) for a, b in pairwise(edges)]


@pytest.mark.parametrize("family", FAMILIES)
@fewer(5)
@given(data=st.data(), log=event_logs())
def test_ages_of_results_and_lateness_are_those_of_the_published_rows(family, data, log):
    case = FAMILIES[family](data.draw, log)
    tally = KeyedTally()
    task = OperatorTask(case.operator, tally=tally)
    ages: list[int] = []
    late_by: list[int] = []
    for steps in (each for segment in case.segments for each in task.steps([segment])):
        for port in case.operator.outputs:
            rows = steps.output.frames.get(port.name, pl.DataFrame())
            if rows.is_empty():
                continue
            published: Any = SimpleNamespace(port=port)
            tally.published(published, rows)
            shown = port.published(rows) if port.kind not in (DEAD, FAILED) else rows
            if port.kind == LATE:
                by_time = shown.filter(pl.col("reason") == "late")
                late_by += by_time[LATE_BY].drop_nulls().to_list()
            elif port.kind not in (DEAD, FAILED):
                column, shift_ms = port.row_time
                ages += [NOW_MS - (each + shift_ms) for each in shown[column].to_list()]
    assert tally.latency.stats(0).count == 0, "nothing is committed yet"
    tally.committed(NOW_MS)
    tally.committed(NOW_MS + 1)
    assert tally.latency.stats(0).counts == counts(ages)
    assert tally.late_by.stats(0).counts == counts(late_by)
    assert sum(each.count for each in tally.late_reasons.stats()) == tally.late
    assert sum(each.count for each in tally.dead_reasons.stats()) == tally.dead + tally.failed


def test_a_row_that_is_refused_for_another_reason_does_not_count_as_late_by_its_time():
    tally = KeyedTally()
    published: Any = SimpleNamespace(port=late_port(("k",), {"k": pl.String()}))
    reasons = ["late", "more than 1000 partial matches", None]
    tally.published(published, pl.DataFrame({REASON: reasons, LATE_BY: [300, -5, 700]}))
    assert tally.late_by.stats(0).counts == counts([300, 700])
    tally.published(published, pl.DataFrame({LATE_BY: [20]}))
    assert tally.late_by.stats(0).counts == counts([20, 300, 700])
    assert sum(each.count for each in tally.late_reasons.stats()) == 4


class Windows(NoState):
    """A state with a window that begins at each of some times; it counts how often it is read."""

    def __init__(self) -> None:
        self.begins_ms, self.reads = np.array([5, 50]), 0

    def open_bounds(self) -> list[OpenBounds]:
        self.reads += 1
        return [OpenBounds(self.begins_ms, lambda place: int(self.begins_ms[place]) + 10)]


def test_ages_of_few_windows_are_counted_for_each_record():
    ages, state = RecentAges(), Windows()
    first = ages.of(state, 2, 100, now_ms=0)
    state.begins_ms = np.array([50])
    assert first == WindowAges(5, 15, [0, 0, 0, 1, 1, *[0] * 14])
    assert ages.of(state, 1, 100, now_ms=1_000) == WindowAges(50, 60, [0, 0, 0, 1, *[0] * 15])


def test_ages_of_a_million_windows_are_counted_each_ten_seconds():
    ages, state = RecentAges(), Windows()
    for now_ms in range(0, 20_001, 1_000):
        ages.of(state, 1_000_000, 100, now_ms)
    assert state.reads == 3


def test_ages_of_a_million_windows_that_have_closed_are_not_shown():
    ages, state = RecentAges(), Windows()
    assert ages.of(state, 1_000_000, 100, now_ms=0) == WindowAges(5, 15, [0, 0, 0, 1, 1, *[0] * 14])
    state.begins_ms = np.array([], np.int64)
    assert ages.of(state, 0, 100, now_ms=1_000) == WindowAges()
