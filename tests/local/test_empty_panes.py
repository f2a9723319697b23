"""Panes of zero rows: discarding, a window is told closed though early panes showed its rows."""

import pytest

from tests.support.aggregating import CountRows
from tidemark import (
    Pipeline,
    apply_frame,
    col,
    collect,
    count,
    count_distinct,
    custom,
    every,
    first,
    last,
    latest,
    max,  # noqa: A004
    max_by,
    mean,
    median,
    min,  # noqa: A004
    min_by,
    monotonic,
    on_close,
    quantile,
    stddev,
    sum,  # noqa: A004
    top_k,
    tumbling,
    value_counts,
    variance,
)
from tidemark.local.run import LocalRun

OF_NOTHING = {
    "custom": (custom(CountRows(), "v", int), 0),
    "count": (count(), 0),
    "count of a column": (count("v"), 0),
    "count_distinct": (count_distinct("v"), 0),
    "collect": (collect("v"), []),
    "collect by arrival": (collect("v", order="arrival"), []),
    "first": (first("v"), None),
    "last": (last("v"), None),
    "count_distinct, approximate": (count_distinct("v", approximate=True), 0),
    "apply_frame": (apply_frame(lambda rows: rows.height, "v", int), 0),
    "max": (max("v"), None),
    "max_by": (max_by("v", "ts"), None),
    "mean": (mean("v"), None),
    "median": (median("v"), None),
    "min": (min("v"), None),
    "min_by": (min_by("v", "ts"), None),
    "quantile, approximate": (quantile("v", 0.9, approximate=True), None),
    "stddev": (stddev("v"), None),
    "sum": (sum("v"), None),
    "sum of floats": (sum("f"), None),
    "top_k": (top_k("v", 3), []),
    "variance": (variance("v"), None),
    "latest": (latest(), None),
    "latest by arrival": (latest("v", order="arrival"), None),
    "value_counts": (value_counts("v"), []),
    "top_k, ties": (top_k("v", 3, by="ts", ties=True, ranks=True), []),
    "count, where": (count(where=col("v") > 0), 0),
    "sum, where": (sum("v", where=col("v") > 0), None),
    "collect, where": (collect("v", where=col("v") > 0), []),
}


@pytest.mark.parametrize("name", OF_NOTHING)
def test_an_aggregate_of_zero_rows_is_that_of_nothing(name):
    aggregate, nothing = OF_NOTHING[name]
    pipeline = Pipeline("empty", partitions=1)
    schema = {"k": str, "ts": int, "v": int, "f": float}
    rows = pipeline.source("in", schema=schema, event_time="ts", watermark=monotonic())
    panes = rows.key_by("k").window(
        tumbling("10ms"), trigger=on_close(early=every(rows=1)), accumulation="discarding"
    )
    panes.aggregate(x=aggregate).to("out")
    run = LocalRun(pipeline.plan())
    lines = [b'{"k": "a", "ts": 1, "v": 7, "f": 0.5}', b'{"k": "b", "ts": 10, "v": 1, "f": 1.5}']
    assert list(run.run({"in": lines})) == [2]
    shown = run.published["out"].every("panes").filter(k="a")
    assert shown["timing"].to_list() == ["early", "on_time"]
    early, closed = shown["x"].to_list()
    assert early != closed or name in ("stddev", "variance")
    assert closed == nothing
