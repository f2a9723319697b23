"""Early and discarding panes of sessions against the oracle: no cut, restore or purge may show.

HYPOTHESIS_PROFILE=thorough runs more examples of each.
"""

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.aligned import Run
from tests.oracles.early_session import Sessions, early_sessions
from tests.support.logs import crowds, cut_segments, event_logs
from tests.support.operators.early_sessions import operator, specs
from tests.support.running import incidents, run, run_crowd

BY_ROWS = ("rows", "event_time")


@given(event_logs(), specs(), incidents())
def test_panes_and_late_rows_are_the_oracles_whatever_is_restored_or_purged(log, spec, happen):
    expected = early_sessions(log.segments, log.topics, spec)
    got = run(operator(spec, log.topics), log.segments, happen)
    assert got == expected


@given(crowds((-30, 25), (0, 30)), specs(BY_ROWS), incidents())
def test_a_crowd_of_rows_behind_gives_the_oracles_panes(crowd, spec, happen):
    state, expected = Sessions(spec), Run()

    def oracle(rows, _before_ms, clock_ms):
        for row in rows:
            state.fold(row, expected)
        return state.publish(clock_ms)

    run_crowd(operator(spec, ("t",)), crowd, happen, oracle, expected.late)


@given(st.data(), event_logs(), specs(BY_ROWS))
def test_cuts_change_no_early_pane(data, log, spec):
    whole = run(operator(spec, log.topics), log.segments)
    cut = run(operator(spec, log.topics), data.draw(cut_segments(log.segments)))
    assert cut.late == whole.late
    assert early(cut) == early(whole)


def early(made):
    return [pane for pane in made.panes if pane.timing == "early"]


@given(event_logs(), specs())
def test_discarding_panes_add_up_to_the_rows_accepted(log, spec):
    got = run(operator(spec._replace(discarding=True), log.topics), log.segments)
    assert sum(pane.n for pane in got.panes) + len(got.late) == got.rows
