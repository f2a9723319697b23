"""A stage of each kind: late rows, results that replace each other, and pairs of a join."""

import json
import os

from tidemark import Pipeline, bounded, col, count, tumbling
from tidemark import sum as total


def build(name: str, least: int = 1) -> Pipeline:
    """Return the pipeline; ``least``: the score of the moves that count."""
    pipeline = Pipeline(name, partitions=2)
    every = pipeline.source(
        f"{name}-moves",
        schema={"player": str, "at": int, "score": int},
        event_time="at",
        watermark=bounded("2s"),
        idle_after="1h",
    )
    moves = every.key_by("player")
    tens = moves.window(tumbling("10s")).aggregate(n=count())
    late = tens.late.filter(col("score") >= least).key_by("player")
    again = late.window(tumbling("10s"), allowed_lateness="1m")
    again.aggregate(n=count()).to("again")
    fives = moves.window(tumbling("5s"), allowed_lateness="30s")
    sums = fives.aggregate(n=count(), s=total("score")).updates().filter(col("s") >= least)
    sums.key_by("player").window(tumbling("30s")).aggregate(n=total("n"), windows=count()).to(
        "sums"
    )
    high = every.filter(col("score") > 5).select("player", high=col("score")).key_by("player")
    low = every.filter(col("score") <= 5).select("player", low=col("score")).key_by("player")
    pairs = high.join(low, within="2s").filter(col("low") >= least).key_by("player")
    pairs.window(tumbling("30s")).aggregate(n=count()).to("pairs")
    return pipeline


pipeline = build(
    os.environ.get("TEST_PIPELINE", "stages"), **json.loads(os.environ.get("TEST_OPTIONS", "{}"))
)
