"""Early and discarding panes of sliding windows against the oracle: no cut or restore may show.

HYPOTHESIS_PROFILE=thorough runs a thousand examples of each.
"""

from hypothesis import given

from tests.oracles.aligned import Run
from tests.oracles.early_sliding import EarlySlides, early_sliding
from tests.support.logs import crowds, event_logs
from tests.support.operators.early_sliding import operator, specs
from tests.support.running import incidents, run, run_crowd


@given(event_logs(), specs(), incidents())
def test_panes_and_late_rows_are_the_oracles_whatever_is_restored_or_purged(log, spec, happen):
    expected = early_sliding(log.segments, log.topics, spec)
    got = run(operator(spec, log.topics), log.segments, happen)
    assert got == expected


@given(crowds((-20, 15), (0, 20)), specs(("rows", "event_time", None)), incidents())
def test_a_crowd_of_rows_behind_gives_the_oracles_panes(crowd, spec, happen):
    state, expected = EarlySlides(spec), Run()

    def oracle(rows, before_ms, clock_ms):
        new = [row for row in rows if state.fold(row, 0, expected)]
        return state.publish(new, before_ms, clock_ms)

    run_crowd(operator(spec, ("t",)), crowd, happen, oracle, expected.late)
