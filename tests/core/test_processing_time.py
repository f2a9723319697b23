"""Processing time: docs/semantics.md, "Processing time"; and against the oracle."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core import test_session_properties, test_window_properties
from tests.core.clock_oracle import WallClock
from tests.core.logs import COLUMNS, Commit, Raw, Read, Record, cut_segments, event_logs, record
from tests.core.oracle import Aligned, windowed
from tests.core.running import Task, incidents
from tests.core.running import run as run_log
from tests.core.session_oracle import Spec, sessions
from tidemark import (
    Pipeline,
    PipelineError,
    calendar,
    count,
    monotonic,
    processing_time,
    session,
    sliding,
    tumbling,
)
from tidemark.core.windows.pane import END, REVISION, START


def by_clock(operator):
    return replace(operator, by_processing_time=True)


def keyed(pipeline, **options):
    schema = {"key": str, "at": int}
    source = pipeline.source("t", schema=schema, event_time="at", watermark=monotonic(), **options)
    return source.key_by("key")


def segments(*commits):
    """Record commits of (processing time, event times), one row of key a each."""
    records = tuple(Record(at, (("a", 1),)) for _, times in commits for at in times)
    made = record(
        Raw({"t/0": records}, 0), [Commit((Read("t/0", len(times)),)) for _, times in commits]
    )
    return [replace(s, ingested_at_ms=now) for s, (now, _) in zip(made, commits, strict=True)]


def stepped(operator, *commits):
    task, shown = Task(operator), []
    for segment in segments(*commits):
        panes = task.step(segment).panes
        shown.append([f"[{s},{e}) r{r}" for s, e, r in panes.select(START, END, REVISION).rows()])
    return shown


def test_the_timeline_of_the_specification():
    #  recorded at   1_003   1_008    1_005        1_010   1_019   1_030 (a heartbeat)
    #  event times   7, 900  -5       2            12              -
    tens = by_clock(test_window_properties.operator(Aligned(10, 10, 0, 0, False), ("t",)))
    commits = [(1_003, (7, 900)), (1_008, (-5,)), (1_005, (2,)), (1_010, (12,)), (1_019, ())]
    assert stepped(tens, *commits, (1_030, ())) == [
        [], [], [], ["[1000,1010) r4"], [], ["[1010,1020) r1"],
    ]  # fmt: skip


def test_a_session_closes_when_nothing_was_recorded_for_its_gap():
    #  recorded at  100  105  115: exactly one gap apart
    tens = by_clock(test_session_properties.operator(Spec(10, 0, False, False), ("t",)))
    assert stepped(tens, (100, (1,)), (105, (500,)), (115, (2,)), (124, ()), (125, ())) == [
        [], [], ["[100,115) r2"], [], ["[115,125) r1"],
    ]  # fmt: skip


def test_windows_without_rows_are_published_where_asked():
    #  recorded at  5   12       31      40
    #               [0,10) [10,20) [20,30) [30,40)
    pipeline = Pipeline("p")
    tens = processing_time(tumbling(10))
    keyed(pipeline).window(tens, empty=True).aggregate(n=count()).to("out")
    (plan,) = pipeline.plan().operators
    operator = replace(plan.operator, columns=COLUMNS)
    assert stepped(operator, (5, (1,)), (12, ()), (31, (2,)), (40, ())) == [
        [], ["[0,10) r1"], [], ["[10,20) r0", "[20,30) r0", "[30,40) r1"],
    ]  # fmt: skip


@st.composite
def recorded(draw, log):
    """Let the wall clock of a log go on by small steps, and back by some."""
    now_ms, made = 0, []
    for segment in log.segments:
        now_ms += draw(st.integers(-20, 30))
        made.append(replace(segment, ingested_at_ms=now_ms))
    return made


@given(st.data(), event_logs(), test_window_properties.specs(), incidents())
def test_windows_are_the_oracles_whatever_is_restored_or_purged(data, log, spec, happen):
    spec = spec._replace(allowed_lateness_ms=0)
    read = data.draw(recorded(log))
    operator = by_clock(test_window_properties.operator(spec, log.topics))
    expected = windowed(read, log.topics, spec, WallClock)
    got = run_log(operator, read, happen)
    assert (got.steps, got.late, got.clocks) == (expected.steps, [], expected.clocks)


@given(st.data(), event_logs(), st.sampled_from((1, 4, 10, 25)), st.booleans(), incidents())
def test_sessions_are_the_oracles_whatever_is_restored_or_purged(data, log, gap_ms, own, happen):
    spec = Spec(gap_ms, 0, False, False, own)
    read = test_session_properties.with_gaps(data.draw(recorded(log)))
    operator = by_clock(test_session_properties.operator(spec, log.topics))
    expected, _ = sessions(read, log.topics, spec, WallClock)
    got = run_log(operator, read, happen)
    assert (got.steps, got.late, got.clocks) == (expected.steps, [], expected.clocks)


@given(st.data(), event_logs(), test_window_properties.specs())
def test_cuts_change_nothing(data, log, spec):
    spec = spec._replace(allowed_lateness_ms=0)
    read = data.draw(recorded(log))
    operator = by_clock(test_window_properties.operator(spec, log.topics))
    whole, cut = run_log(operator, read), run_log(operator, data.draw(cut_segments(read)))
    assert cut.panes == whole.panes
    assert cut.late == whole.late == []


@pytest.mark.parametrize(
    ("window", "service", "text", "horizon_ms"),
    [
        (tumbling("1m"), "windowing", "processing_time(tumbling(1m))", 60_000),
        (calendar("day", "UTC"), "windowing", "processing_time(calendar(day, UTC))", 172_800_000),
        (session("30s"), "sessions", "processing_time(session(30s))", 30_000),
        (session("at"), "sessions", "processing_time(session(at, max 1d))", 86_400_000),
    ],
)
def test_silence_is_told_until_every_window_has_closed(window, service, text, horizon_ms):
    pipeline = Pipeline("p")
    keyed(pipeline).window(processing_time(window)).aggregate(n=count()).to("out")
    (operator,) = pipeline.plan().operators
    assert (operator.service, operator.description) == (service, f"n=count() in {text}")
    assert operator.operator.by_processing_time
    assert operator.horizon_ms == horizon_ms + 60_000


@pytest.mark.parametrize(
    ("window", "told"), [(processing_time(tumbling("1m")), True), (tumbling("1m"), False)]
)
def test_silence_moves_processing_time_where_it_may_not_move_the_clock_too(window, told):
    pipeline = Pipeline("p")
    keyed(pipeline, when_silent="wait").window(window).aggregate(n=count()).to("out")
    plan = pipeline.plan()
    (source,) = plan.sources
    assert source.reports_silence(0, 10_000, plan.horizon_ms)
    assert source.reports_silence(59_000, 60_000, plan.horizon_ms) == told
    assert not source.reports_silence(plan.horizon_ms, plan.horizon_ms + 1, plan.horizon_ms)


def test_what_has_no_processing_time_is_refused():
    with pytest.raises(PipelineError, match=r"processing_time: Sliding.* is not one of tumbling"):
        processing_time(sliding("1m"))
    with pytest.raises(PipelineError, match="no row is late for a window in order of arrival or"):
        keyed(Pipeline("p")).window(processing_time(tumbling("1m")), allowed_lateness="1s")
    with pytest.raises(PipelineError, match="no row is late"):
        keyed(Pipeline("p")).window(processing_time(session("1m")), lateness="strict")
