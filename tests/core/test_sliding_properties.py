"""Sliding windows against the oracle: no cut, restore, purge or interleaving may show."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.core.logs import COLUMNS, cut_segments, event_logs, raws, recordings
from tests.core.oracle import Judged, Run, in_order
from tests.core.running import incidents, late_row, panes, run
from tests.core.sliding_oracle import Slides, Spec, sliding
from tests.core.test_window_properties import AGGREGATION
from tidemark.core.operator import Operator
from tidemark.core.segment import NEVER_MS, ROW_COLUMNS, SOURCE
from tidemark.core.sliding import SlidingAggregate
from tidemark.core.trigger import on_close, on_final
from tidemark.core.window import Sliding


def operator(spec, topics):
    body = SlidingAggregate(
        Sliding(spec.reach_ms),
        AGGREGATION,
        ("key",),
        COLUMNS,
        spec.allowed_lateness_ms,
        on_final() if spec.on_final else on_close(),
    )
    return Operator("s", topics, frozenset(topics), ("key",), COLUMNS, body)


def specs():
    reaches, lateness = st.sampled_from((1, 2, 5, 10, 25, 70)), st.sampled_from((0, 3, 10, 200))
    return st.builds(Spec, reaches, lateness, st.booleans())


@given(event_logs(), specs(), incidents())
def test_panes_and_late_rows_are_the_oracles_whatever_is_restored_or_purged(log, spec, happen):
    expected = sliding(log.segments, log.topics, spec)
    got = run(operator(spec, log.topics), log.segments, happen)
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
            at_ms, w_ms = (clock_ms + draw(st.integers(*ends)) for ends in ((-20, 15), (0, 20)))
            rows.append(Judged("t/0", offset, 0, at_ms, w_ms, "a", offset))
            offset += 1
        clock_ms += draw(st.sampled_from((0, 1, 5, 15)))
        steps.append((rows, clock_ms))
    return steps


@given(crowds(), specs(), incidents())
def test_a_crowd_of_rows_behind_gives_the_oracles_panes(steps, spec, happen):
    body, oracle, expected = operator(spec, ("t",)).body, Slides(spec), Run()
    state, changelog, before_ms, late = body.fresh(), [], NEVER_MS, []
    schema = {**ROW_COLUMNS, SOURCE: pl.String(), **COLUMNS}
    for step, (rows, clock_ms) in enumerate(steps):
        frame = pl.DataFrame(rows, schema=schema, orient="row")
        late += [late_row(row) for row in body.fold(frame, state).iter_rows(named=True)]
        new = [row for row in rows if oracle.fold(row, expected)]
        due = in_order(oracle.publish(new, before_ms, clock_ms))
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
