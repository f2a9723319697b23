"""Window joins against the oracle, whatever is cut, interleaved, restored or purged."""

from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.oracles.aligned import Aligned
from tests.oracles.calendar import Periods
from tests.oracles.clock import Judged, Step
from tests.oracles.window_join import WindowRules, joined, open_rows, run_join
from tests.support.joins.raw_topics import every_recording_gives, rows_of
from tests.support.joins.stream import (
    LOGS,
    SELF,
    SIDES,
    heard_by,
    of_sides,
    raws,
    read,
    run,
    run_crowd,
    same,
    steps_of,
)
from tests.support.joins.windows import window_join, window_rules
from tests.support.logs import crowds
from tests.support.running import Incidents, Task, incidents
from tidemark.core.operators.joins.results import END_MS, START_MS
from tidemark.core.operators.ports import ROWS
from tidemark.core.operators.rows import EVENT_TIME_MS
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, WATERMARK
from tidemark.core.windows.calendar import Calendar


@fewer(3)
@given(LOGS, window_rules(), st.sampled_from((SIDES, SIDES, SELF)))
def test_the_oracle_by_steps_ends_with_all_pairs_of_all_windows(log, drawn, sides):
    steps = heard_by(sides, log.segments)
    rows = [row for step in steps for row in step.rows]

    found, whole = run_join(drawn, steps, sides), joined(drawn, *of_sides(sides, rows))

    assert Counter(found.standing) == Counter(whole.standing)
    assert Counter(found.rejected) == Counter(whole.rejected)


@given(LOGS, window_rules(), st.sampled_from((SIDES, SIDES, SELF)), incidents())
def test_each_step_publishes_the_oracles_whatever_is_restored_or_purged(log, drawn, sides, happen):
    expected = run_join(drawn, heard_by(sides, log.segments), sides)

    found = run(window_join(drawn, sides), read(log), happen)

    same(found, expected)
    assert len({*found.ids.values()}) == len(found.ids)
    assert all(each.left != each.right for each in found.ids)


@fewer(3)
@given(LOGS, window_rules(), st.integers(0, 3), incidents())
def test_a_row_with_too_many_pairs_in_a_window_is_late_for_all(log, drawn, most, happen):
    drawn = drawn._replace(max_pairs=most)
    expected = run_join(drawn, heard_by(SIDES, log.segments), SIDES)

    same(run(window_join(drawn), read(log), happen), expected)


@given(crowds((-20, 8), (0, 6)), window_rules(), incidents())
def test_rows_behind_the_clock_withdraw_what_they_match(crowd, drawn, happen):
    """Rows come with any W, so that partners come late but in time."""
    steps = steps_of(crowd)

    same(run_crowd(window_join(drawn), steps, happen), run_join(drawn, steps, SIDES))


@fewer(3)
@given(st.data(), raws(), window_rules(), st.sampled_from((SIDES, SIDES, SELF)))
def test_pairs_late_and_unmatched_rows_are_a_function_of_the_raw_topics(data, raw, drawn, sides):
    expected = joined(drawn, *of_sides(sides, rows_of(raw)))
    every_recording_gives(data, raw, window_join(drawn, sides), expected)


@fewer(3)
@given(LOGS, window_rules())
def test_the_state_holds_exactly_the_rows_of_windows_that_rows_can_reach(log, drawn):
    task, rows = Task(window_join(drawn)), []
    for step, segment in zip(heard_by(SIDES, log.segments), read(log), strict=True):
        task.step(segment)
        task.state.purge(task.clocks.clock_ms)
        rows += step.rows
        assert task.state.open_windows() == open_rows(drawn, rows, step.clock)


@fewer(3)
@given(LOGS, window_rules())
def test_results_show_the_bounds_of_their_window(log, drawn):
    task = Task(window_join(drawn))
    outputs = [task.step(segment) for segment in read(log)] + [task.finish()]
    for output in outputs:
        for row in output.frames[ROWS].iter_rows(named=True):
            assert row[EVENT_TIME_MS] == row[END_MS] - 1
            assert row[START_MS] == drawn.windows.start(row[END_MS])


@pytest.mark.parametrize(
    ("watermark_ms", "own_step"), [(NEVER_MS, False), (9, False), (10, True), (11, True)]
)
def test_a_row_behind_in_one_of_its_windows_is_taken_alone(watermark_ms, own_step):
    """It may withdraw the row without a partner of the window [0, 10)."""
    drawn = WindowRules("full", Aligned(10, 5, 0, 30, on_final=False), withdraws=True)
    row = pl.DataFrame({EVENT_TIME: [7], WATERMARK: [watermark_ms]})
    body = window_join(drawn).body
    assert body.needs_own_step({"left": row})["left"].tolist() == [own_step]
    body = window_join(drawn._replace(withdraws=False)).body
    assert body.needs_own_step({"left": row})["left"].tolist() == [False]


DAY_MS = 86_400_000
CLOCKS_CHANGE_MS = 1_616_889_600_000
"""28 March 2021, 00:00 UTC: a day of 23 hours in Berlin, from 27 March, 23:00 UTC, on."""


@pytest.mark.parametrize("withdraws", [False, True])
def test_a_day_on_which_the_clocks_change_is_a_window(withdraws):
    periods = Periods("day", "Europe/Berlin", "monday", 0, not withdraws)
    hours = (-2, -1, 0, 21, 22, 23)
    rows = [
        Judged(f"{'tu'[n % 2]}/0", n, 0, CLOCKS_CHANGE_MS + hour * DAY_MS // 24, NEVER_MS, "a", 1)
        for n, hour in enumerate(hours)
    ]
    late = Judged("t/0", 9, 0, CLOCKS_CHANGE_MS, CLOCKS_CHANGE_MS + DAY_MS, "a", 1)
    steps = [
        Step(rows, 0, NEVER_MS, CLOCKS_CHANGE_MS),
        Step([late], 0, CLOCKS_CHANGE_MS, CLOCKS_CHANGE_MS + DAY_MS),
    ]
    for how in ("full", "semi"):
        drawn = WindowRules(how, periods, withdraws)
        made = window_join(drawn, windows=Calendar("day", "Europe/Berlin"))
        same(run_crowd(made, steps, Incidents()), run_join(drawn, steps, SIDES))
