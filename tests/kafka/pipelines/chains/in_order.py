"""Rows in order of event time: distinct readings, values before, and windows after them."""

import os

from tidemark import Pipeline, bounded, col, count, cum_sum, diff, prev, tumbling


def build(name: str) -> Pipeline:
    """Return the pipeline under a name of its own, so that tests share a broker."""
    pipeline = Pipeline(name, partitions=2)
    readings = pipeline.source(
        f"{name}-moves",
        schema={"id": str, "sensor": str, "at": int, "v": int},
        event_time="at",
        watermark=bounded("2s"),
        idle_after="1h",
    )
    once = readings.distinct_by("id", within="20s")
    once.to("once")
    scanned = once.key_by("sensor").scan(
        before=prev("v"), delta=diff("v"), total=cum_sum("v"), max_silence="30s"
    )
    scanned.to("scanned", format="avro")
    rising = scanned.filter(col("delta") > 0).key_by("sensor").window(tumbling("10s"))
    rising.aggregate(n=count()).to("rising")
    return pipeline


pipeline = build(os.environ.get("TEST_PIPELINE", "in-order"))
