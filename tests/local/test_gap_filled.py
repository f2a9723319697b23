"""Empty windows of a pipeline: filled when the next window is published."""

from tidemark import Pipeline, bounded, collect, count, tumbling
from tidemark.local.run import LocalRun


def test_a_gap_is_filled_when_the_next_window_is_published():
    pipeline = Pipeline("p")
    schema = {"k": str, "at": int}
    rows = pipeline.source("t", schema=schema, event_time="at", watermark=bounded(0)).key_by("k")
    filled = rows.window(tumbling("10s"), empty=True).aggregate(n=count(), values=collect("at"))
    filled.to("out")
    local = LocalRun(pipeline.plan())
    lines = [b'{"k":"a","at":%d}' % at for at in (1_000, 35_000)]
    list(local.run({"t": lines}))
    panes = local.published["out"].last_panes()
    assert panes.select("start", "revision", "n", "values").rows() == [
        (0, 1, 1, [1_000]),
        (10_000, 0, 0, []),
        (20_000, 0, 0, []),
        (30_000, 1, 1, [35_000]),
    ]
    assert "tumbling(10s), empty ones too" in pipeline.plan().operators[0].description
