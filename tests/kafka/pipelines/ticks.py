"""The pipeline of the tests of time: counts and sums per key; options of its source by test."""

import json
import os
from typing import Any

from tidemark import Pipeline, count, monotonic, on_final, tumbling
from tidemark import sum as total


def build(name: str, size: str = "10s", **options: Any) -> Pipeline:
    """Return the pipeline under a name of its own, so that tests share a broker."""
    pipeline = Pipeline(name, partitions=2)
    ticks = pipeline.source(
        f"{name}-moves",
        schema={"k": str, "ts": int, "v": int},
        event_time="ts",
        watermark=monotonic(),
        **options,
    )
    ticks.key_by("k").window(tumbling(size), trigger=on_final()).aggregate(
        count=count(), sum=total("v")
    ).to("out")
    return pipeline


pipeline = build(
    os.environ.get("TEST_PIPELINE", "ticks"), **json.loads(os.environ.get("TEST_OPTIONS", "{}"))
)
