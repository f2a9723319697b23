"""Windows at the ends of the years 0001 to 9999: no pane has a bound outside."""

import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark import (
    Pipeline,
    calendar,
    col,
    count,
    hopping,
    monotonic,
    processing_time,
    session,
    sliding,
    tumbling,
)
from tidemark.core.operators.ports import PANES
from tidemark.core.time.event_time import EARLIEST_MS, LATEST_MS
from tidemark.local.run import Cuts, LocalRun

DAY_MS = 86_400_000
WINDOWS = {
    "tumbling": (tumbling("1d"), DAY_MS),
    "offset": (tumbling("7h", offset="3h"), 7 * 3_600_000),
    "hopping": (hopping("3d", "7h"), 3 * DAY_MS),
    "sliding": (sliding("1h"), 3_600_001),
    "session": (session("2d"), 2 * DAY_MS),
    "own gap": (session(col("gap"), max_gap="2d"), 2 * DAY_MS),
    "month": (calendar("month", "Pacific/Kiritimati"), 32 * DAY_MS),
    "week": (calendar("week", "America/Los_Angeles"), 8 * DAY_MS),
    "clocked": (processing_time(tumbling("10d")), 0),
}


def run(window, times):
    """Return the panes of a window over records at these times, and its dead letters."""
    pipeline = Pipeline("p", partitions=1)
    rows = pipeline.source(
        "t", schema={"at": int, "gap": int}, event_time="at", watermark=monotonic()
    )
    rows.with_columns(k=col("at").cast(pl.String)).key_by("k").window(window).aggregate(
        n=count()
    ).to("n")
    local = LocalRun(pipeline.plan(), Cuts(None), now_ms=0)
    lines = [json.dumps({"at": at, "gap": DAY_MS}).encode() for at in times]
    for _ in local.run({"t": lines}):
        pass
    return local


AT = st.one_of(
    *(
        st.integers(0, 40 * DAY_MS).map(shift)
        for shift in (lambda ms: EARLIEST_MS + ms, lambda ms: LATEST_MS - ms)
    )
)


@pytest.mark.parametrize("name", WINDOWS)
@given(times=st.lists(AT, min_size=1, max_size=8, unique=True))
def test_every_bound_lies_in_the_years_that_can_be_written(name, times):  # D5
    window, longest_ms = WINDOWS[name]
    times.sort()
    local = run(window, times)
    panes = local.published["n"].last(PANES).to_dicts()
    fitting = [at for at in times if EARLIEST_MS + longest_ms <= at <= LATEST_MS - longest_ms]
    assert all(EARLIEST_MS <= pane["start"] < pane["end"] <= LATEST_MS for pane in panes)
    assert {pane["k"] for pane in panes} == set(map(str, fitting))
    reason = "event time at: its window would have a bound outside the years 0001 to 9999"
    assert [letter.reason for letter in local.dead_letters] == [reason] * (
        len(times) - len(fitting)
    )


@pytest.mark.parametrize("stages", [1, 2])
def test_windows_of_stages_add_up_so_that_their_bounds_lie_in_the_years_too(stages):
    pipeline = Pipeline("p", 1)
    schema = {"k": str, "at": int}
    rows = pipeline.source("rows", schema=schema, event_time="at", watermark=monotonic())
    found = rows.key_by("k").window(tumbling("1d")).aggregate(n=count())
    found.to("first")
    for _ in range(stages):
        found = found.key_by("k").window(tumbling("1000d")).aggregate(n=count())
    found.to("last")
    nearest_ms = LATEST_MS - (1 + 1000 * stages) * DAY_MS
    times = [nearest_ms, nearest_ms + 1, LATEST_MS - 20 * DAY_MS]
    local = LocalRun(pipeline.plan(), Cuts(None))
    records = [json.dumps({"k": str(at), "at": at}).encode() for at in times]
    for _ in local.run({"rows": records}):
        pass
    panes = local.published["last"].last(PANES).to_dicts()
    assert [pane["k"] for pane in panes] == [str(nearest_ms)]
    assert all(EARLIEST_MS <= pane["start"] < pane["end"] <= LATEST_MS for pane in panes)
    assert len(local.dead_letters) == 2
