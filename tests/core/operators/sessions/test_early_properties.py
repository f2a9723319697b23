"""Early and discarding panes of sessions against the oracle: no cut, restore or purge may show.

HYPOTHESIS_PROFILE=thorough runs more examples of each.
"""

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.aligned import Run
from tests.oracles.early_session import Sessions, Spec, early_sessions
from tests.support.logs import COLUMNS, crowds, cut_segments, event_logs
from tests.support.running import AGGREGATION, incidents, run, run_crowd
from tidemark.core.operators.operator import Operator
from tidemark.core.operators.sessions.early import EarlySessionAggregate
from tidemark.core.operators.sessions.operator import AFTER_MERGING, STRICT, SessionAggregate
from tidemark.core.windows.trigger import every, on_close
from tidemark.core.windows.window import Session


def operator(spec, topics):
    trigger = every(**{spec.by: spec.every}) if spec.every else None
    body = SessionAggregate(
        Session(spec.gap_ms),
        AGGREGATION,
        ("key",),
        COLUMNS,
        spec.allowed_lateness_ms,
        on_close(trigger) if spec.closes else trigger,
        STRICT if spec.strict else AFTER_MERGING,
        spec.discarding,
    )
    early = EarlySessionAggregate(body) if spec.every else body
    return Operator("s", topics, frozenset(topics), ("key",), COLUMNS, early)


@st.composite
def specs(draw, kinds=("rows", "rows", "event_time", "processing_time")):
    by = draw(st.sampled_from(kinds))
    some = {"rows": (1, 1, 2, 3, 0), "event_time": (1, 3, 10), "processing_time": (1_500,)}
    number = draw(st.sampled_from(some[by]))
    return Spec(
        draw(st.sampled_from((1, 4, 10, 25))),
        draw(st.sampled_from((0, 3, 40))),
        draw(st.booleans()),
        not number or draw(st.booleans()),
        number,
        # Without early panes, accumulating ones are another test's.
        not number or draw(st.booleans()),
        by,
    )


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
