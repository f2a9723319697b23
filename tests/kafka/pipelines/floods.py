"""The pipeline of the test of floods: each record makes many results, by three operators."""

import os

from tidemark import Pipeline, collect, count, hopping, monotonic, tumbling


def build(name: str) -> Pipeline:
    """Return the pipeline under a name of its own, so that tests share a broker."""
    pipeline = Pipeline(name, partitions=1)
    keyed = pipeline.source(
        f"{name}-in",
        schema={"k": str, "ts": int, "v": int},
        event_time="ts",
        watermark=monotonic(),
        idle_after="1h",
    ).key_by("k")
    keyed.window(tumbling("1s"), empty=True).aggregate(n=count()).to("gaps")
    keyed.window(hopping("500s", "1s")).aggregate(n=count()).to("overlaps")
    keyed.aggregate(all=collect("v")).to("rolling")
    return pipeline


pipeline = build(os.environ.get("TEST_PIPELINE", "floods"))
