"""Sessions against the oracle: no cut, restore or purge may show.

HYPOTHESIS_PROFILE=thorough runs more examples of each.
"""

from dataclasses import replace

import polars as pl
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.oracles.aligned import Run, in_order
from tests.oracles.session import Sessions, Spec, own_gap, sessions
from tests.support.logs import COLUMNS, crowds, cut_segments, event_logs, raws, recordings
from tests.support.running import AGGREGATION, incidents, run_crowd
from tests.support.running import run as run_log
from tidemark.core.operators.operator import Operator
from tidemark.core.operators.sessions.operator import AFTER_MERGING, STRICT, SessionAggregate
from tidemark.core.windows.trigger import on_close, on_final
from tidemark.core.windows.window import Session


def operator(spec, topics):
    columns = {**COLUMNS, **({"gap": pl.Int64()} if spec.own_gaps else {})}
    body = SessionAggregate(
        Session(25, "gap") if spec.own_gaps else Session(spec.gap_ms),
        AGGREGATION,
        ("key",),
        columns,
        spec.allowed_lateness_ms,
        on_final() if spec.on_final else on_close(),
        STRICT if spec.strict else AFTER_MERGING,
    )
    return Operator("s", topics, frozenset(topics), ("key",), columns, body)


def specs(strict=(False, True)):
    gaps, lateness = st.sampled_from((1, 4, 10, 25)), st.sampled_from((0, 3, 10, 40))
    return st.builds(Spec, gaps, lateness, st.sampled_from(strict), st.booleans(), st.booleans())


def with_gaps(segments):
    """Give every row the gap that the oracle makes of its value."""
    return [replace(s, streams={n: gapped(f) for n, f in s.streams.items()}) for s in segments]


def gapped(rows):
    gaps = [own_gap(value) for value in rows["value"]]
    return rows.with_columns(pl.Series("gap", gaps, pl.Int64()))


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


@given(st.data(), raws(), specs(strict=(True,)))
def test_two_recordings_agree_where_lateness_is_strict(data, raw, spec):
    runs = [run(spec, raw.topics, data.draw(recordings(raw)).segments) for _ in range(2)]
    assert sorted(runs[0].late, key=str) == sorted(runs[1].late, key=str)
    assert view(runs[0]) == view(runs[1])


def view(made):
    """What a sink holds: the highest revision, gone once it is withdrawn; without ``final``."""
    seen = {}
    for pane in made.panes:
        at = pane.key, pane.start
        if pane.retracted:
            seen.pop(at, None)
        elif at not in seen or pane.revision > seen[at].revision:
            seen[at] = pane._replace(final=False)
    return seen
