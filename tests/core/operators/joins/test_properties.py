"""Joins against the oracle: pairs, unmatched rows and late rows, whatever is cut or interleaved."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.oracles.join import (
    LEFT,
    RIGHT,
    JoinRules,
    joined,
    open_rows,
    run_join,
)
from tests.support.joins.by_hand import Joining
from tests.support.joins.raw_topics import every_recording_gives, rows_of
from tests.support.joins.stream import (
    LOGS,
    SELF,
    SIDES,
    Found,
    for_joins,
    heard_by,
    of_sides,
    operator,
    raws,
    read,
    rules,
    run,
    run_crowd,
    same,
    steps_of,
)
from tests.support.logs import crowds, cut_segments
from tests.support.running import Task, incidents
from tidemark.core.operators.task import OperatorTask


@given(LOGS, rules(), st.sampled_from((SIDES, SIDES, SELF)))
def test_the_oracle_by_steps_ends_with_all_pairs_of_all_rows(log, drawn, sides):
    steps = heard_by(sides, log.segments)
    rows = [row for step in steps for row in step.rows]

    run, whole = run_join(drawn, steps, sides), joined(drawn, *of_sides(sides, rows))

    assert Counter(run.standing) == Counter(whole.standing)
    assert Counter(run.rejected) == Counter(whole.rejected)


@given(LOGS, rules(), incidents())
def test_each_step_publishes_the_oracles_whatever_is_restored_or_purged(log, drawn, happen):
    expected = run_join(drawn, heard_by(SIDES, log.segments), SIDES)

    same(run(operator(drawn), read(log), happen), expected)


@given(LOGS, rules(), incidents())
def test_a_stream_joins_itself_but_no_row_joins_itself(log, drawn, happen):
    expected = run_join(drawn, heard_by(SELF, log.segments), SELF)

    found = run(operator(drawn, SELF), read(log), happen)

    same(found, expected)
    assert all(each.left != each.right for each in found.ids)


@given(LOGS, rules(), st.integers(0, 3), incidents())
def test_a_row_with_too_many_pairs_is_late(log, drawn, most, happen):
    drawn = drawn._replace(max_pairs=most)
    expected = run_join(drawn, heard_by(SIDES, log.segments), SIDES)

    same(run(operator(drawn), read(log), happen), expected)


@given(crowds((-20, 8), (0, 6)), rules(), incidents())
def test_rows_behind_the_clock_withdraw_what_they_match(crowd, drawn, happen):
    """Rows come with any W, so that partners come late but in time."""
    steps = steps_of(crowd)

    same(run_crowd(operator(drawn), steps, happen), run_join(drawn, steps, SIDES))


@given(st.data(), LOGS, rules(), incidents())
def test_cuts_change_no_result_that_stands(data, log, drawn, happen):
    cut = data.draw(cut_segments(log.segments))

    whole, parts = (
        run(operator(drawn), [for_joins(each) for each in segments], happen)
        for segments in (log.segments, cut)
    )

    assert Counter(parts.standing) == Counter(whole.standing)
    assert Counter(parts.rejected) == Counter(whole.rejected)
    both = parts.ids.keys() & whole.ids.keys()
    assert {each: parts.ids[each] for each in both} == {each: whole.ids[each] for each in both}


@fewer(3)
@given(st.data(), raws(), rules(), st.sampled_from((SIDES, SIDES, SELF)))
def test_pairs_late_and_unmatched_rows_are_a_function_of_the_raw_topics(data, raw, drawn, sides):
    expected = joined(drawn, *of_sides(sides, rows_of(raw)))
    every_recording_gives(data, raw, operator(drawn, sides), expected)


@given(LOGS, rules())
def test_the_state_holds_exactly_the_rows_that_may_still_pair(log, drawn):
    """So memory is freed by time, also without new rows of the key."""
    steps = heard_by(SIDES, log.segments)
    task, accepted = Task(operator(drawn)), []
    for step, segment in zip(steps, read(log), strict=True):
        task.step(segment)
        task.state.purge(task.clocks.clock_ms)

        refused = {(each.side, each.row) for each in run_join(drawn, [step], SIDES).rejected}
        accepted += [
            (side, row)
            for side, rows in zip((LEFT, RIGHT), of_sides(SIDES, step.rows), strict=True)
            for row in rows
            if (side, row[:3]) not in refused
        ]
        assert task.state.open_windows() == open_rows(drawn, accepted, step.clock)


@fewer(3)
@given(LOGS, rules())
def test_without_lateness_both_triggers_give_the_same(log, drawn):
    plain, closing = (
        run(operator(drawn._replace(lateness_ms=0, withdraws=withdraws)), read(log))
        for withdraws in (False, True)
    )

    assert plain.steps == closing.steps
    assert not any(closing.withdrawn)


def test_a_row_that_no_partner_can_reach_stays_until_it_is_due():
    """It is due when the clock has passed its own time, later than the end of its interval."""
    join = Joining(JoinRules("left", -9, -3))

    assert join.step("L1 a 10", left=9, right=9) == []
    assert join.purge() == 0
    join.task.take_snapshot()
    join.task.compact()
    join.task.restart()
    assert join.step(left=11, right=11) == ["L1 10"]


@fewer(3)
@given(LOGS, rules(), st.frozensets(st.integers(0, 8)), st.integers(0, 8))
def test_a_purge_before_the_changes_are_written_loses_nothing(log, drawn, purges, moves):
    expected = run_join(drawn, heard_by(SIDES, log.segments), SIDES)
    made, changelog, found = operator(drawn), [], Found()
    task = OperatorTask(made)
    for step, segment in enumerate(read(log)):
        found.take(made, task.step(segment).frames)
        if step in purges:
            task.state.purge(task.clock_ms)
        changelog.append(task.state.changes())
        if step == moves:
            restored = OperatorTask(made)
            restored.restore(changelog, task.clocks.state(), task.next_offset)
            task = restored
    found.take(made, task.finish().frames)

    same(found, expected)
