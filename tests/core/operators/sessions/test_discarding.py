"""Discarding panes of sessions: each holds the rows since the pane before, wherever merges lead.

HYPOTHESIS_PROFILE=thorough runs more examples of each.
"""

from dataclasses import replace

from hypothesis import given

from tests.oracles.session import sessions
from tests.support.logs import event_logs
from tests.support.operators.sessions import operator, specs, view, with_gaps
from tests.support.running import incidents
from tests.support.running import run as run_log
from tests.support.session_stream import Stream


class Totals(Stream):
    """A stream of discarding panes, which shows what each adds."""

    def __init__(self, **settings):
        super().__init__(discarding=True, **settings)

    def rows(self, text, clock=None):
        self.body.fold(self.frame(text), self.state)
        before_ms, self.clock_ms = self.clock_ms, self.clock_ms if clock is None else clock
        panes = self.body.publish(self.state, before_ms, self.clock_ms)
        assert not panes["retracted"].any()
        return [
            f"[{p['start']},{p['end']}) r{p['revision']} +{p['total']}"
            for p in panes.iter_rows(named=True)
        ]


def test_a_correction_holds_what_came_after_the_pane():
    #  0    5         15
    #  a----a---------)
    stream = Totals(allowed_lateness_ms=20)
    assert stream.rows("a 0, a 5", clock=15) == ["[0,15) r2 +2"]
    assert stream.rows("a 3 @15") == ["[0,15) r3 +1"]
    assert stream.rows("a 4 @15, a 4 @15") == ["[0,15) r5 +2"]
    assert stream.clock(99) == []


def test_a_session_that_opens_again_closes_with_its_new_rows():
    stream = Totals(allowed_lateness_ms=20)
    assert stream.rows("a 0", clock=10) == ["[0,10) r1 +1"]
    assert stream.rows("a 9 @10, a 12") == []
    assert stream.rows("a 13", clock=23) == ["[0,23) r4 +3"]


def test_sessions_that_merge_show_all_bounds_and_nothing_twice():
    #  0         10  14        24
    #  a---------)   a---------)
    #        a---------)           bridges both; no pane is withdrawn
    stream = Totals(allowed_lateness_ms=50)
    assert stream.rows("a 0, a 14", clock=24) == ["[0,10) r1 +1", "[14,24) r1 +1"]
    assert stream.rows("a 7 @24") == ["[0,24) r3 +1"]
    assert stream.rows("a -5 @24") == ["[-5,24) r4 +1"]


def test_a_shown_and_an_unseen_session_merge_into_what_is_unseen():
    stream = Totals(allowed_lateness_ms=50)
    assert stream.rows("a 0, a 14, a 15", clock=10) == ["[0,10) r1 +1"]
    assert stream.rows("a 7 @10") == []
    assert stream.clock(25) == ["[0,25) r4 +3"]


@given(event_logs(), specs(), incidents())
def test_panes_are_those_that_accumulate_and_add_up_to_the_rows(log, spec, happen):
    accumulating = operator(spec, log.topics)
    body = replace(accumulating.body, discarding=True)
    segments = with_gaps(log.segments)
    whole = run_log(accumulating, segments)
    parts = run_log(replace(accumulating, body=body), segments, happen)
    assert parts.late == whole.late
    assert [[named(pane) for pane in step] for step in parts.steps] == [
        [named(pane) for pane in step if not pane.retracted] for step in whole.steps
    ]
    assert sum(pane.n for pane in parts.panes) == parts.rows - len(parts.late)
    _, state = sessions(log.segments, log.topics, spec)
    if not state.starts_repeat:
        assert total(parts.panes) == total(view(whole).values())


def total(panes):
    return sum(pane.total or 0 for pane in panes)


def named(pane):
    return pane.key, pane.start, pane.end, pane.revision, pane.timing, pane.final, pane.retracted
