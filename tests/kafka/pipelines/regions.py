"""The pipeline of the tests of sources of several topics: counts by topic, and of all topics."""

import json
import os
from typing import Any

from tidemark import Pipeline, bounded, col, count, on_final, tumbling
from tidemark import sum as total


def build(
    name: str,
    topics: str | None = None,
    names: list[str] | None = None,
    others: str | None = None,
    idle_after: str = "2s",
) -> Pipeline:
    """Return the pipeline; ``topics`` and ``others``: patterns, each the one of a source."""
    pipeline = Pipeline(name, partitions=2)
    options: dict[str, Any] = {
        "schema": {"k": str, "ts": int, "v": int},
        "event_time": "ts",
        "watermark": bounded("1s"),
        "idle_after": idle_after,
        "when_silent": "wait",
    }
    named = names if topics or names else f"{name}-moves"
    orders = pipeline.source(named, topics=topics, **options)
    windows = tumbling("10s")
    by_topic = orders.with_columns(topic=col("_topic")).key_by("topic")
    by_topic.window(windows, trigger=on_final()).aggregate(n=count()).to("by-topic")
    by_key = orders.key_by("k").window(windows, trigger=on_final())
    by_key.aggregate(n=count(), v=total("v")).to("by-key")
    if others is not None:
        other = pipeline.source(topics=others, **options).key_by("v").window(windows)
        other.aggregate(n=count()).to("others")
    return pipeline


pipeline = build(
    os.environ.get("TEST_PIPELINE", "regions"), **json.loads(os.environ.get("TEST_OPTIONS", "{}"))
)
