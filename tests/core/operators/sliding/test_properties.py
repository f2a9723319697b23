"""Sliding windows against the oracle: no cut, restore, purge or interleaving may show."""

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.aligned import Run, in_order
from tests.oracles.sliding import Slides, sliding
from tests.support.logs import crowds, cut_segments, event_logs, raws, recordings
from tests.support.operators.sliding import operator, specs
from tests.support.running import incidents, run, run_crowd


@given(event_logs(), specs(), incidents())
def test_panes_and_late_rows_are_the_oracles_whatever_is_restored_or_purged(log, spec, happen):
    expected = sliding(log.segments, log.topics, spec)
    got = run(operator(spec, log.topics), log.segments, happen)
    assert got == expected


@given(crowds((-20, 15), (0, 20)), specs(), incidents())
def test_a_crowd_of_rows_behind_gives_the_oracles_panes(crowd, spec, happen):
    state, expected = Slides(spec), Run()

    def oracle(rows, before_ms, clock_ms):
        new = [row for row in rows if state.fold(row, expected)]
        return in_order(state.publish(new, before_ms, clock_ms))

    run_crowd(operator(spec, ("t",)), crowd, happen, oracle, expected.late)


@given(st.data(), event_logs(), specs())
def test_cuts_change_no_late_row_no_on_time_pane_and_no_last_pane(data, log, spec):
    whole = run(operator(spec, log.topics), log.segments)
    cut = run(operator(spec, log.topics), data.draw(cut_segments(log.segments)))
    assert cut.late == whole.late
    assert cut.lasts() == whole.lasts()
    assert cut.on_time() == whole.on_time()


@given(st.data(), raws(), specs())
def test_two_recordings_of_the_same_topics_agree(data, raw, spec):
    runs = [run(operator(spec, raw.topics), data.draw(recordings(raw)).segments) for _ in range(2)]
    assert sorted(runs[0].late, key=str) == sorted(runs[1].late, key=str)
    assert runs[0].lasts() == runs[1].lasts()
