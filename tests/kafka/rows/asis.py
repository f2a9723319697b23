"""Orders as rows: those of an amount of ``least`` or more, all of them by user, and counts."""

import json
import os

from tidemark import Pipeline, bounded, col, count, tumbling


def build(name: str, least: int = 2, more: bool = False) -> Pipeline:
    """Return the pipeline under a name; ``more``: whether rows have a further column."""
    pipeline = Pipeline(name, partitions=2)
    orders = pipeline.source(
        f"{name}-orders",
        schema={"at": int, "user": str, "amount": int},
        event_time="at",
        watermark=bounded("2s"),
        idle_after="1h",
    )
    large = orders.filter(col("amount") >= least)
    large = large.with_columns(twice=col("amount") * 2) if more else large
    large.to("large")
    orders.key_by("user").to("by-user", format="avro")
    orders.key_by("user").window(tumbling("10s")).aggregate(n=count()).to("counts")
    return pipeline


pipeline = build(
    os.environ.get("TEST_PIPELINE", "asis"), **json.loads(os.environ.get("TEST_OPTIONS", "{}"))
)
