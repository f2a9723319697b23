"""State of a window is gone once the clock has passed its end and the allowed lateness.

Three thousand rows of a few keys, over hundreds of windows: what is held at the end is what it was
after half of them, and nothing is held once time has passed all windows.
"""

import numpy as np
import pytest

from tests.support.running import Task
from tidemark import (
    Pipeline,
    bounded,
    calendar,
    collect,
    every,
    hopping,
    on_close,
    on_final,
    on_update,
    processing_time,
    session,
    sliding,
    tumbling,
)
from tidemark.ingest.ingest import Ingest, Progress, RecordBatch
from tidemark.ingest.segment_builder import SegmentBuilder

HOUR_MS = 3_600_000
STEPS, ROWS = 16, 200
LATE = {"allowed_lateness": "30m"}


@pytest.mark.parametrize(
    ("window", "options"),
    [
        (tumbling("1h"), {}),
        (tumbling("1h"), LATE),
        (tumbling("1h"), {"trigger": on_final(), **LATE}),
        (tumbling("1h"), {"trigger": on_update(), **LATE}),
        (tumbling("1h"), {"trigger": every(rows=3), "accumulation": "discarding", **LATE}),
        (hopping("1h", "10m"), LATE),
        (hopping("1h", "30m"), {"trigger": on_close(early=every(event_time="10m"))}),
        (calendar("day", "Europe/Berlin"), {}),
        (sliding("20m"), LATE),
        (sliding("5m"), {"trigger": on_close(early=every(rows=5))}),
        (session("20m"), LATE),
        (session("20m"), {"lateness": "after_merging", **LATE}),
        (session("20m"), {"trigger": every(rows=3), "accumulation": "discarding"}),
        (processing_time(tumbling("1h")), {}),
        (processing_time(session("20m")), {}),
    ],
)
def test_state_does_not_grow_with_time_and_ends_with_it(window, options):
    pipeline = Pipeline("p", partitions=1)
    rows = pipeline.source(
        "t", schema={"k": str, "at": int}, event_time="at", watermark=bounded("10m")
    )
    stream = rows.key_by("k").window(window, **options)
    stream.aggregate(all=collect("at")).to("out")
    plan = pipeline.plan()
    ingest, progress = Ingest(plan), Progress()
    task = Task(plan.operators[0].operator)
    held, shown = [], 0
    for step in range(STEPS):
        times = records(step)
        values = [b'{"k":"%d","at":%d}' % each for each in times]
        batch = RecordBatch.of_values("t", 0, progress.next_offset, values, 0)
        taken = ingest.take(batch, progress)
        progress = taken.progress
        builder = SegmentBuilder(epoch=step)
        builder.add(taken)
        ((segment,),) = builder.build(plan.logs[0], int(times[-1][1]), {"t": 1})
        shown += task.step(segment)["panes"].height
        task.state.purge(task.clocks.clock_ms)
        held.append(task.state.size_bytes())
    assert shown > STEPS
    assert max(held[STEPS // 2 :]) <= 1.5 * max(held[: STEPS // 2])
    task.finish()
    task.state.purge(task.clocks.clock_ms)
    assert task.state.open_windows() == 0
    assert [piece for piece in task.state.snapshot() if any(map(len, piece.values()))] == []


def records(step: int) -> list[tuple[int, int]]:
    """Return keys and times: twelve hours of events, out of order by up to fifteen minutes."""
    draw = np.random.default_rng(step)
    times = step * 12 * HOUR_MS + np.sort(draw.integers(0, 12 * HOUR_MS, ROWS))
    times -= draw.integers(0, HOUR_MS // 4, ROWS)
    return list(zip(draw.integers(0, 5, ROWS).tolist(), times.tolist(), strict=True))
