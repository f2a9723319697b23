"""Processing time: docs/semantics.md, "Processing time"; and against the oracle."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.aligned import Aligned, windowed
from tests.oracles.clock import WallClock
from tests.oracles.session import Spec, sessions
from tests.support.logs import cut_segments, event_logs
from tests.support.operators import aligned as drawn_aligned
from tests.support.operators import sessions as drawn_sessions
from tests.support.processing_time import by_clock, stepped
from tests.support.running import incidents
from tests.support.running import run as run_log


def test_the_timeline_of_the_specification():
    #  recorded at   1_003   1_008    1_005        1_010   1_019   1_030 (a heartbeat)
    #  event times   7, 900  -5       2            12              -
    tens = by_clock(drawn_aligned.operator(Aligned(10, 10, 0, 0, False), ("t",)))
    commits = [(1_003, (7, 900)), (1_008, (-5,)), (1_005, (2,)), (1_010, (12,)), (1_019, ())]
    assert stepped(tens, *commits, (1_030, ())) == [
        [], [], [], ["[1000,1010) r4"], [], ["[1010,1020) r1"],
    ]  # fmt: skip


def test_a_session_closes_when_nothing_was_recorded_for_its_gap():
    #  recorded at  100  105  115: exactly one gap apart
    tens = by_clock(drawn_sessions.operator(Spec(10, 0, False, False), ("t",)))
    assert stepped(tens, (100, (1,)), (105, (500,)), (115, (2,)), (124, ()), (125, ())) == [
        [], [], ["[100,115) r2"], [], ["[115,125) r1"],
    ]  # fmt: skip


@st.composite
def recorded(draw, log):
    """Let the wall clock of a log go on by small steps, and back by some."""
    now_ms, made = 0, []
    for segment in log.segments:
        now_ms += draw(st.integers(-20, 30))
        made.append(replace(segment, ingested_at_ms=now_ms))
    return made


@given(st.data(), event_logs(), drawn_aligned.specs(), incidents())
def test_windows_are_the_oracles_whatever_is_restored_or_purged(data, log, spec, happen):
    spec = spec._replace(allowed_lateness_ms=0)
    read = data.draw(recorded(log))
    operator = by_clock(drawn_aligned.operator(spec, log.topics))
    expected = windowed(read, log.topics, spec, WallClock)
    got = run_log(operator, read, happen)
    assert (got.steps, got.late, got.clocks) == (expected.steps, [], expected.clocks)


@given(st.data(), event_logs(), st.sampled_from((1, 4, 10, 25)), st.booleans(), incidents())
def test_sessions_are_the_oracles_whatever_is_restored_or_purged(data, log, gap_ms, own, happen):
    spec = Spec(gap_ms, 0, False, False, own)
    read = drawn_sessions.with_gaps(data.draw(recorded(log)))
    operator = by_clock(drawn_sessions.operator(spec, log.topics))
    expected, _ = sessions(read, log.topics, spec, WallClock)
    got = run_log(operator, read, happen)
    assert (got.steps, got.late, got.clocks) == (expected.steps, [], expected.clocks)


@given(st.data(), event_logs(), drawn_aligned.specs())
def test_cuts_change_nothing(data, log, spec):
    spec = spec._replace(allowed_lateness_ms=0)
    read = data.draw(recorded(log))
    operator = by_clock(drawn_aligned.operator(spec, log.topics))
    whole, cut = run_log(operator, read), run_log(operator, data.draw(cut_segments(read)))
    assert cut.panes == whole.panes
    assert cut.late == whole.late == []
