"""Late panes by count as users ask for them: where they are, and where they are refused."""

from typing import Any

import pytest

from tidemark import (
    Pipeline,
    calendar,
    count,
    count_window,
    every,
    hopping,
    monotonic,
    on_close,
    processing_time,
    session,
    sliding,
    tumbling,
)
from tidemark.core.operators.early import EarlyAggregate
from tidemark.core.operators.late_panes import LateAggregate
from tidemark.core.operators.sessions.early import EarlySessionAggregate
from tidemark.core.operators.sessions.operator import SessionAggregate
from tidemark.errors import PipelineError

LATE = on_close(late=every(rows=3))


def keyed() -> Any:
    pipeline = Pipeline("p")
    schema = {"k": str, "ts": int}
    source = pipeline.source("t", schema=schema, event_time="ts", unit="s", watermark=monotonic())
    return pipeline, source.key_by("k")


def planned(window: Any, trigger: Any) -> Any:
    pipeline, stream = keyed()
    stream.window(window, allowed_lateness="1m", trigger=trigger).aggregate(n=count()).to("out")
    return pipeline.plan().operators[0]


@pytest.mark.parametrize(
    "window", [tumbling("10s"), hopping("10s", "5s"), calendar("day", "UTC"), sliding("10s")]
)
def test_windows_have_late_panes_by_count_alone_and_with_early_panes(window: Any):
    plan = planned(window, LATE)

    assert isinstance(plan.operator.body, LateAggregate)
    assert plan.state_signature["windows"].endswith(
        "allowed lateness 1m, on close, late every 3 rows"
    )
    both = planned(window, on_close(early=every(rows=2), late=every(rows=3))).operator.body
    assert isinstance(both, EarlyAggregate)
    assert isinstance(both.inner, LateAggregate)


def test_sessions_have_late_panes_by_count():
    plan = planned(session("10s"), LATE)
    both = planned(session("10s"), on_close(early=every(rows=2), late=every(rows=3)))

    assert isinstance(plan.operator.body, SessionAggregate)
    assert plan.operator.body.trigger == LATE
    assert isinstance(both.operator.body, EarlySessionAggregate)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": tumbling("10s")}, r"trigger\): on_close\(late=every\(rows=3\)\): without allo"),
        ({"window": count_window(5)}, r"without allowed_lateness a window accepts no rows"),
        ({"window": processing_time(tumbling("10s"))}, r"without allowed_lateness"),
        (
            {"window": tumbling("10s"), "allowed_lateness": "1m", "empty": True},
            r"window\(empty\): on_close\(late=...\) cannot be combined with empty=True",
        ),
    ],
)
def test_windows_without_late_panes_by_count_refuse_the_option(options: Any, message: str):
    _, stream = keyed()

    with pytest.raises(PipelineError, match=message):
        stream.window(trigger=LATE, **options)
