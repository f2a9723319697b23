"""Panes of zero rows: discarding, a window is told closed though early panes showed its rows."""

import pytest

from tidemark import (
    Pipeline,
    collect,
    count,
    count_distinct,
    every,
    first,
    last,
    max,  # noqa: A004
    max_by,
    mean,
    min,  # noqa: A004
    min_by,
    monotonic,
    on_close,
    stddev,
    sum,  # noqa: A004
    tumbling,
    variance,
)
from tidemark.local import LocalRun

OF_NOTHING = {
    "count": (count(), 0),
    "count of a column": (count("v"), 0),
    "count_distinct": (count_distinct("v"), 0),
    "collect": (collect("v"), []),
    "collect by arrival": (collect("v", order="arrival"), []),
    "first": (first("v"), None),
    "last": (last("v"), None),
    "max": (max("v"), None),
    "max_by": (max_by("v", "ts"), None),
    "mean": (mean("v"), None),
    "min": (min("v"), None),
    "min_by": (min_by("v", "ts"), None),
    "stddev": (stddev("v"), None),
    "sum": (sum("v"), None),
    "sum of floats": (sum("f"), None),
    "variance": (variance("v"), None),
}


@pytest.mark.parametrize("name", OF_NOTHING)
def test_an_aggregate_of_zero_rows_is_that_of_nothing(name):
    aggregate, nothing = OF_NOTHING[name]
    pipeline = Pipeline("empty", partitions=1)
    schema = {"k": str, "ts": int, "v": int, "f": float}
    rows = pipeline.source("in", schema=schema, event_time="ts", watermark=monotonic())
    panes = rows.key_by("k").window(
        tumbling(10), trigger=on_close(early=every(rows=1)), accumulation="discarding"
    )
    panes.aggregate(x=aggregate).to("out")
    run = LocalRun(pipeline.plan())
    lines = [b'{"k": "a", "ts": 1, "v": 7, "f": 0.5}', b'{"k": "b", "ts": 10, "v": 1, "f": 1.5}']
    assert list(run.run({"in": lines})) == [2]
    shown = run.published["out"].all_panes().filter(k="a")
    assert shown["timing"].to_list() == ["early", "on_time"]
    early, closed = shown["x"].to_list()
    assert early != closed or name in ("stddev", "variance")
    assert closed == nothing
