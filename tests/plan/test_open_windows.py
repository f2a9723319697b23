"""How many windows an operator says that rows can still reach."""

import numpy as np
import pytest

from tests.support.running import Task
from tidemark import (
    Pipeline,
    bounded,
    count,
    count_window,
    every,
    hopping,
    session,
    sliding,
    tumbling,
)
from tidemark.ingest.ingest import Ingest, Progress, RecordBatch
from tidemark.ingest.segment_builder import SegmentBuilder

# Rows of keys a and b at 1, 11 and 25 s; the clock stands at 23 s.
TIMES_MS = (1_000, 11_000, 25_000)


@pytest.mark.parametrize(
    ("window", "options", "windows"),
    [
        (tumbling("10s"), {}, 1),  # [20, 30)
        (tumbling("10s"), {"allowed_lateness": "5s"}, 2),  # [10, 20) until 25
        (tumbling("10s"), {"allowed_lateness": "5s", "trigger": every(rows=1)}, 2),
        (tumbling("10s"), {"allowed_lateness": "5s", "empty": True}, 2),
        (hopping("10s", "5s"), {}, 2),  # [20, 30) and [25, 35)
        (sliding("10s"), {}, 4),  # at 25, and at 11, whose slice goes as a whole
        (session("5s"), {}, 2),  # of each key the one at 25
        (session("5s"), {"allowed_lateness": "10s"}, 4),
        (session("5s"), {"trigger": every(rows=1)}, 2),
        (count_window(2), {}, 2),  # the third row of each key
        (
            count_window(4, order="event_time"),
            {},
            4,
        ),  # a window and a row that waits
    ],
)
def test_windows_that_rows_can_reach_are_open(window, options, windows):
    pipeline = Pipeline("p", partitions=1)
    schema = {"k": str, "at": int}
    rows = pipeline.source("t", schema=schema, event_time="at", watermark=bounded("2s"))
    rows.key_by("k").window(window, **options).aggregate(n=count()).to("out")
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
    assert task.state.open_windows() == windows


def batch(values: list[bytes]) -> RecordBatch:
    count = len(values)
    nothing = [None] * count
    offsets = np.arange(count)
    return RecordBatch("t", 0, offsets, [-1] * count, nothing, nothing, values, count, 0)
