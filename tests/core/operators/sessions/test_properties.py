"""Sessions against the oracle: no cut, restore or purge may show.

HYPOTHESIS_PROFILE=thorough runs more examples of each.
"""

from itertools import pairwise

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.oracles.aligned import Run, in_order
from tests.oracles.session import Sessions, sessions
from tests.support.logs import crowds, cut_segments, event_logs, raws, recordings
from tests.support.operators.sessions import gapped, operator, specs, view, with_gaps
from tests.support.running import incidents, run_crowd
from tests.support.running import run as run_log


def run(spec, topics, segments, happen=None):
    return run_log(operator(spec, topics), with_gaps(segments), happen)


@given(event_logs(), specs(), incidents())
def test_panes_and_late_rows_are_the_oracles_whatever_is_restored_or_purged(log, spec, happen):
    expected, _ = sessions(log.segments, log.topics, spec)
    got = run(spec, log.topics, log.segments, happen)
    assert got == expected


@given(crowds((-30, 25), (0, 30)), specs(), incidents())
def test_a_crowd_of_rows_behind_gives_the_oracles_panes(crowd, spec, happen):
    state, expected = Sessions(spec), Run()

    def oracle(rows, _before_ms, clock_ms):
        for row in rows:
            state.fold(row, expected)
        return [*in_order(state.withdraw()), *in_order(state.publish(clock_ms))]

    run_crowd(operator(spec, ("t",)), crowd, happen, oracle, expected.late, gapped)


@given(st.data(), event_logs(), specs())
def test_cuts_change_no_late_row_and_no_last_pane(data, log, spec):
    whole = run(spec, log.topics, log.segments)
    cut = run(spec, log.topics, data.draw(cut_segments(log.segments)))
    assert cut.late == whole.late
    assert view(cut) == view(whole)


@given(event_logs(), specs())
def test_a_sink_sees_just_the_sessions_there_are(log, spec):
    _, state = sessions(log.segments, log.topics, spec)
    assume(not state.starts_repeat)
    got = run(spec, log.topics, log.segments)
    there = {
        (key, burst.start): (burst.end, len(burst.rows))
        for key, bursts in state.bursts.items()
        for burst in bursts
    }
    assert {at: (pane.end, pane.revision) for at, pane in view(got).items()} == there
    accepted = sum(pane.revision for pane in view(got).values())
    assert accepted + len(got.late) == got.rows


@given(st.data(), event_logs(), specs(strict=(True,)), incidents())
def test_final_sessions_of_a_key_never_overlap_where_lateness_is_strict(data, log, spec, happen):
    made = run(spec, log.topics, data.draw(cut_segments(log.segments)), happen)
    stands: dict[str | None, list[tuple[int, int]]] = {}
    for pane in made.panes:
        others = [bounds for bounds in stands.get(pane.key, []) if bounds[0] != pane.start]
        if pane.retracted:
            stands[pane.key] = others
            continue
        assert not any(start < pane.end and pane.start < end for start, end in others if pane.final)
        stands[pane.key] = [*others, (pane.start, pane.end)]
    for bounds in stands.values():
        ordered = sorted(bounds)
        assert all(a[1] <= b[0] for a, b in pairwise(ordered))


@given(st.data(), raws(), specs(strict=(True,)))
def test_two_recordings_agree_where_lateness_is_strict(data, raw, spec):
    runs = [run(spec, raw.topics, data.draw(recordings(raw)).segments) for _ in range(2)]
    assert sorted(runs[0].late, key=str) == sorted(runs[1].late, key=str)
    assert view(runs[0]) == view(runs[1])
