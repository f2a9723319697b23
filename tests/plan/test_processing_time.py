"""Pipelines with processing time: windows, horizon, silence, and what is refused."""

from dataclasses import replace

import pytest

from tests.support.logs import COLUMNS
from tests.support.processing_time import stepped
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
from tidemark.ingest.silence import due_ms


def keyed(pipeline, **options):
    schema = {"key": str, "at": int}
    source = pipeline.source("t", schema=schema, event_time="at", watermark=monotonic(), **options)
    return source.key_by("key")


def test_windows_without_rows_are_published_where_asked():
    #  recorded at  5   12       31      40
    #               [0,10) [10,20) [20,30) [30,40)
    pipeline = Pipeline("p")
    tens = processing_time(tumbling("10ms"))
    keyed(pipeline).window(tens, empty=True).aggregate(n=count()).to("out")
    (plan,) = pipeline.plan().operators
    (side,) = plan.operator.inputs
    operator = replace(plan.operator, inputs=(replace(side, columns=COLUMNS),))
    assert stepped(operator, (5, (1,)), (12, ()), (31, (2,)), (40, ())) == [
        [], ["[0,10) r1"], [], ["[10,20) r0", "[20,30) r0", "[30,40) r1"],
    ]  # fmt: skip


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
    assert operator.operator.horizon_ms == horizon_ms + 60_000


@pytest.mark.parametrize(
    ("window", "told"), [(processing_time(tumbling("1m")), True), (tumbling("1m"), False)]
)
def test_silence_moves_processing_time_where_it_may_not_move_the_clock_too(window, told):
    pipeline = Pipeline("p")
    keyed(pipeline, when_silent="wait").window(window).aggregate(n=count()).to("out")
    plan = pipeline.plan()
    (source,) = plan.sources
    assert due_ms(source, 0, plan.horizon_ms) == 10_000
    assert due_ms(source, 50_000, plan.horizon_ms) == (55_000 if told else None)
    assert due_ms(source, plan.horizon_ms, plan.horizon_ms) is None


def test_what_has_no_processing_time_is_refused():
    with pytest.raises(
        PipelineError, match=r'processing_time: sliding\("1m"\) is not one of tumbling'
    ):
        processing_time(sliding("1m"))  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(PipelineError, match="windows by rows or by processing time do not wait"):
        keyed(Pipeline("p")).window(processing_time(tumbling("1m")), allowed_lateness="1s")
    with pytest.raises(PipelineError, match="do not wait for late rows"):
        keyed(Pipeline("p")).window(processing_time(session("1m")), lateness="strict")
