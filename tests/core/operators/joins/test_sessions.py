"""Session joins against the oracle, whatever is cut, interleaved, restored or purged."""

from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.oracles.clock import Step
from tests.oracles.session_join import SessionRules, open_sessions, run_join
from tests.support.joins.raw_topics import every_recording_gives, rows_of
from tests.support.joins.sessions import session_join, session_rules
from tests.support.joins.stream import (
    JOIN_COLUMNS,
    LOGS,
    SELF,
    SIDES,
    for_joins,
    heard_by,
    raws,
    read,
    run,
    run_crowd,
    same,
    steps_of,
)
from tests.support.logs import crowds, cut_segments
from tests.support.running import Task, incidents
from tidemark.core.operators.joins.results import END_MS, START_MS
from tidemark.core.operators.joins.sessions import operator as module
from tidemark.core.operators.ports import ROWS
from tidemark.core.operators.rows import EVENT_TIME_MS
from tidemark.core.time.row_watermarks import ORDER, SEGMENT
from tidemark.core.time.segment import NEVER_MS, ROW_COLUMNS, SOURCE


@given(LOGS, session_rules(), st.sampled_from((SIDES, SIDES, SELF)), incidents())
def test_each_step_publishes_the_oracles_whatever_is_restored_or_purged(log, drawn, sides, happen):
    expected = run_join(drawn, heard_by(sides, log.segments), sides)

    found = run(session_join(drawn, sides), read(log), happen)

    same(found, expected)
    assert len({*found.ids.values()}) == len(found.ids)
    assert all(each.left != each.right for each in found.ids)


@fewer(3)
@given(LOGS, session_rules(), st.integers(0, 3), st.sampled_from((SIDES, SIDES, SELF)), incidents())
def test_a_row_with_too_many_pairs_is_late(log, drawn, most, sides, happen):
    drawn = drawn._replace(max_pairs=most)
    expected = run_join(drawn, heard_by(sides, log.segments), sides)

    same(run(session_join(drawn, sides), read(log), happen), expected)


@given(crowds((-20, 8), (0, 6)), session_rules(), incidents())
def test_rows_that_come_late_but_in_time_join_their_session(crowd, drawn, happen):
    steps = steps_of(crowd)

    same(run_crowd(session_join(drawn), steps, happen), run_join(drawn, steps, SIDES))


@fewer(3)
@given(st.data(), raws(), session_rules(), st.sampled_from((SIDES, SIDES, SELF)))
def test_pairs_late_and_unmatched_rows_are_a_function_of_the_raw_topics(data, raw, drawn, sides):
    expected = run_join(drawn, [Step(rows_of(raw), 0, 0, NEVER_MS)], sides)
    every_recording_gives(data, raw, session_join(drawn, sides), expected)


@fewer(3)
@given(st.data(), LOGS, session_rules())
def test_cuts_change_no_row(data, log, drawn):
    cut = data.draw(cut_segments(log.segments))

    whole, parts = (
        run(session_join(drawn), [for_joins(each) for each in segments])
        for segments in (log.segments, cut)
    )

    assert parts.ids == whole.ids
    assert Counter(parts.rejected) == Counter(whole.rejected)


@fewer(3)
@given(LOGS, session_rules())
def test_the_state_holds_exactly_the_sessions_that_rows_can_reach(log, drawn):
    task, members = Task(session_join(drawn)), []
    for step, segment in zip(heard_by(SIDES, log.segments), read(log), strict=True):
        task.step(segment)
        task.state.purge(task.clocks.clock_ms)
        members += [
            ("left" if row.source.startswith("t") else "right", row)
            for row in step.rows
            if row.at_ms + drawn.lateness_ms >= row.w_ms
        ]
        assert task.state.open_windows() == open_sessions(drawn, members, step.clock)


@fewer(3)
@given(LOGS, session_rules())
def test_results_show_the_bounds_of_their_session(log, drawn):
    task = Task(session_join(drawn))
    outputs = [task.step(segment) for segment in read(log)] + [task.finish()]
    for output in outputs:
        for row in output.frames[ROWS].iter_rows(named=True):
            assert row[EVENT_TIME_MS] == row[END_MS] - 1
            assert row[START_MS] < row[END_MS]


@fewer(3)
@given(LOGS, session_rules())
def test_few_pairs_at_once_give_the_same_rows(log, drawn):
    whole = run(session_join(drawn), read(log))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MOST_PAIRS", 2)
        parts = run(session_join(drawn), read(log))
    assert parts.steps == whole.steps


def test_results_of_a_batch_are_in_order_of_their_segments():
    """A pair of the later session comes after the rows alone of the earlier one."""
    rows = {
        "left": [(0, "alone"), (20, "pair")],
        "right": [(20, "pair")],
    }
    body = session_join(SessionRules("left", 5)).body
    frames = {
        side: pl.DataFrame(
            [
                ("t/0", n, 0, at_ms, NEVER_MS, key, None, f"t/0 {n} 0", n, 0)
                for n, (at_ms, key) in enumerate(each)
            ],
            schema={
                **ROW_COLUMNS,
                SOURCE: pl.String(),
                **JOIN_COLUMNS,
                ORDER: pl.Int64(),
                SEGMENT: pl.Int64(),
            },
            orient="row",
        )
        for side, each in rows.items()
    }
    state = body.open()
    body.process({**frames}, state)
    made = body.advance_each(state, NEVER_MS, [10, 30])[ROWS]
    assert made.select(SEGMENT, "key").rows() == [(0, "alone"), (1, "pair")]
