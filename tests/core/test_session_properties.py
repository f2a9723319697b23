"""Sessions against the oracle: no cut, restore or purge may show.

HYPOTHESIS_PROFILE=thorough runs more examples of each.
"""

from dataclasses import replace

import polars as pl
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.core.logs import COLUMNS, cut_segments, event_logs, raws, recordings
from tests.core.oracle import Judged, Run, in_order
from tests.core.running import incidents, late_row, panes
from tests.core.running import run as run_log
from tests.core.session_oracle import Sessions, Spec, own_gap, sessions
from tidemark.core import aggregates
from tidemark.core.aggregate import Aggregation
from tidemark.core.operator import Operator
from tidemark.core.segment import NEVER_MS, ROW_COLUMNS, SOURCE
from tidemark.core.session import AFTER_MERGING, STRICT, SessionAggregate
from tidemark.core.trigger import on_close, on_final
from tidemark.core.window import Session

AGGREGATION = Aggregation(
    {
        "n": aggregates.count(),
        "total": aggregates.sum("value"),
        "low": aggregates.min("value"),
        "high": aggregates.max("value"),
        "first": aggregates.first("value"),
        "last": aggregates.last("value"),
    },
    COLUMNS,
)


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
    assert got.clocks == expected.clocks
    assert got.late == expected.late
    assert got.steps == expected.steps
    assert got.rows == expected.rows


@st.composite
def crowds(draw):
    """Draw steps of one key whose rows come with any W from the clock on, so that most meet."""
    clock_ms, offset, steps = 0, 0, []
    for _ in range(draw(st.integers(1, 6))):
        rows = []
        for _ in range(draw(st.integers(0, 5))):
            at_ms, w_ms = (clock_ms + draw(st.integers(*ends)) for ends in ((-30, 25), (0, 30)))
            rows.append(Judged("t/0", offset, 0, at_ms, w_ms, "a", offset))
            offset += 1
        clock_ms += draw(st.sampled_from((0, 1, 5, 15)))
        steps.append((rows, clock_ms))
    return steps


@given(crowds(), specs(), incidents())
def test_a_crowd_of_rows_behind_gives_the_oracles_panes(steps, spec, happen):
    body, oracle, expected = operator(spec, ("t",)).body, Sessions(spec), Run()
    state, changelog, before_ms, late = body.fresh(), [], NEVER_MS, []
    schema = {**ROW_COLUMNS, SOURCE: pl.String(), **COLUMNS}
    for step, (rows, clock_ms) in enumerate(steps):
        frame = gapped(pl.DataFrame(rows, schema=schema, orient="row"))
        late += [late_row(row) for row in body.fold(frame, state).iter_rows(named=True)]
        for row in rows:
            oracle.fold(row, expected)
        due = [*in_order(oracle.withdraw()), *in_order(oracle.publish(clock_ms))]
        assert panes(body.publish(state, before_ms, clock_ms), ("key",)) == due
        assert late == expected.late
        before_ms = clock_ms
        changelog.append(state.changes())
        if step in happen.purges:
            state.purge(clock_ms)
        if step in happen.snapshots:
            changelog = [state.snapshot()]
        if step in happen.replays:
            state = body.fresh()
            for changes in changelog:
                state.apply(changes)
        state.validate()


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
