"""A pipeline whose results are Avro."""

import os

from tidemark import Pipeline, bounded, count, tumbling


def build(name: str) -> Pipeline:
    """Return the pipeline under a name of its own."""
    pipeline = Pipeline(name, partitions=1)
    moves = pipeline.source(
        f"{name}-moves",
        schema={"player": str, "at": int},
        event_time="at",
        watermark=bounded("2s"),
        idle_after="1h",
    )
    moves.key_by("player").window(tumbling("10s")).aggregate(pops=count()).to("pops", format="avro")
    return pipeline


pipeline = build(os.environ.get("TEST_PIPELINE", "avros"))
