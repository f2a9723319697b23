"""The pipeline of the trials of size: what each key's records carried, all of it in one pane."""

import os

from tidemark import Pipeline, collect, count, monotonic, on_final, tumbling
from tidemark import sum as total


def build(name: str) -> Pipeline:
    """Return the pipeline under a name of its own, so that tests share a broker."""
    pipeline = Pipeline(name, partitions=1)
    records = pipeline.source(
        f"{name}-in",
        schema={"k": str, "ts": int, "v": int, "pad": str},
        event_time="ts",
        watermark=monotonic(),
    )
    records.key_by("k").window(tumbling("10s"), trigger=on_final()).aggregate(
        count=count(), sum=total("v"), pads=collect("pad")
    ).to("out")
    return pipeline


pipeline = build(os.environ.get("TEST_PIPELINE", "pads"))
