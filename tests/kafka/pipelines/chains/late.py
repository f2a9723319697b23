"""Late readings as a stream: published as rows, and taken by windows that wait longer."""

import os

from tidemark import Pipeline, bounded, count, tumbling
from tidemark import max as highest


def build(name: str) -> Pipeline:
    """Return the pipeline under a name of its own, so that tests share a broker."""
    pipeline = Pipeline(name, partitions=2)
    readings = pipeline.source(
        f"{name}-moves",
        schema={"id": str, "sensor": str, "at": int, "v": int},
        event_time="at",
        watermark=bounded("1s"),
        idle_after="1h",
    )
    seconds = readings.key_by("sensor").window(tumbling("1s")).aggregate(n=count())
    seconds.to("seconds")
    seconds.late.to("lates")
    again = seconds.late.key_by("v").window(tumbling("1s"), allowed_lateness="4s")
    again.aggregate(n=count(), most=highest("late_by_ms")).to("again")
    return pipeline


pipeline = build(os.environ.get("TEST_PIPELINE", "late"))
