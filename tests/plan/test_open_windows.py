"""How many windows an operator says that rows can still reach, and their bounds."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.running import Task
from tidemark import (
    Pipeline,
    bounded,
    col,
    count,
    count_window,
    every,
    hopping,
    sequence,
    session,
    sliding,
    step,
    tumbling,
)
from tidemark.ingest.ingest import Ingest, Progress, RecordBatch
from tidemark.ingest.segment_builder import SegmentBuilder

# Rows of keys a and b at 1, 11 and 25 s; the clock stands at 23 s.
TIMES_MS = (1_000, 11_000, 25_000)


S = 1_000


@pytest.mark.parametrize(
    ("window", "options", "windows", "bounds"),
    [
        (tumbling("10s"), {}, 1, {(20 * S, 30 * S): 1}),
        (  # [10, 20) until 25
            tumbling("10s"),
            {"allowed_lateness": "5s"},
            2,
            {(10 * S, 20 * S): 1, (20 * S, 30 * S): 1},
        ),
        (
            tumbling("10s"),
            {"allowed_lateness": "5s", "trigger": every(rows=1)},
            2,
            {(10 * S, 20 * S): 1, (20 * S, 30 * S): 1},
        ),
        (
            tumbling("10s"),
            {"allowed_lateness": "5s", "empty": True},
            2,
            {(10 * S, 20 * S): 1, (20 * S, 30 * S): 1},
        ),
        (hopping("10s", "5s"), {}, 2, {(20 * S, 30 * S): 1, (25 * S, 35 * S): 1}),
        # At 25, and at 11, whose slice goes as a whole; a slice is 10,001 ms long.
        (sliding("10s"), {}, 4, {(1, 10_002): 2, (10_002, 20_003): 2}),
        (session("5s"), {}, 2, {(25 * S, 30 * S): 2}),  # of each key the one at 25
        (
            session("5s"),
            {"allowed_lateness": "10s"},
            4,
            {(11 * S, 16 * S): 2, (25 * S, 30 * S): 2},
        ),
        (session("5s"), {"trigger": every(rows=1)}, 2, {(25 * S, 30 * S): 2}),
        (count_window(2), {}, 2, {}),  # the third row of each key
        # A window and a row that waits.
        (count_window(4, order="event_time"), {}, 4, {(25 * S, 25 * S): 2}),
    ],
)
def test_windows_that_rows_can_reach_are_open(window, options, windows, bounds):
    def windowed(rows: Any) -> None:
        rows.window(window, **options).aggregate(n=count()).to("out")

    assert opened(windowed) == (windows, bounds)


def paired(rows: Any) -> None:
    rows.join(rows, within=("-5s", "10s")).to("out")


def matched(rows: Any) -> None:
    two = sequence(first=step(col("at") > 0), second=step(col("at") > 50_000))
    two = two.within("15s")
    rows.match(two).select(first_at="first.at").to("out")


def distinct(rows: Any) -> None:
    rows.distinct_by(within="25s").to("out")


@pytest.mark.parametrize(
    ("operate", "windows", "bounds"),
    [
        # As a left row until 10 s later, as a right row until 5 s later.
        (paired, 4, {(25 * S, 35 * S): 2, (25 * S, 30 * S): 2}),
        # The partial match since 11 s; the row at 25 s waits for the clock.
        (matched, 4, {(11 * S, 26 * S): 2, (25 * S, 25 * S): 2}),
        (distinct, 4, {(1 * S, 26 * S): 2, (25 * S, 25 * S): 2}),
    ],
)
def test_rows_that_others_can_still_meet_are_open(operate, windows, bounds):
    assert opened(operate) == (windows, bounds)


def opened(operate: Callable[[Any], None]) -> tuple[int, dict[tuple[int, int], int]]:
    """Return how many windows are open after the rows, and how many have the same bounds."""
    pipeline = Pipeline("p", partitions=1)
    schema = {"k": str, "at": int}
    rows = pipeline.source("t", schema=schema, event_time="at", watermark=bounded("2s"))
    operate(rows.key_by("k"))
    plan = pipeline.plan()
    values = [b'{"k":"%s","at":%d}' % (key, at) for at in TIMES_MS for key in (b"a", b"b")]
    taken = Ingest(plan).take(batch(values), Progress())
    builder = SegmentBuilder(epoch=0)
    builder.add(taken)
    ((segment,),) = builder.build(plan.logs[0], 0, {"t": 1})

    task = Task(plan.operators[0].operator)
    task.step(segment)
    task.state.purge(task.clocks.clock_ms)

    assert task.clocks.clock_ms == 23_000
    return task.state.open_windows(), counted(task.state.open_bounds())


def counted(found):
    """Return how many open windows have the same bounds."""
    counts: Counter[tuple[int, int]] = Counter()
    for each in found:
        numbers = each.counts if each.counts is not None else np.ones_like(each.begin_ms)
        for place, (begin_ms, number) in enumerate(zip(each.begin_ms, numbers, strict=True)):
            counts[int(begin_ms), each.end_of(place)] += int(number)
    return {bounds: number for bounds, number in counts.items() if number}


def batch(values: list[bytes]) -> RecordBatch:
    count = len(values)
    nothing = [None] * count
    offsets = np.arange(count)
    return RecordBatch("t", 0, offsets, [-1] * count, nothing, nothing, values, count, 0)
