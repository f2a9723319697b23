"""Sums of all rows in two phases, and the largest of them."""

import json
import os

from tidemark import Pipeline, bounded, count, count_distinct, first, stddev, top_k, tumbling
from tidemark import max as greatest
from tidemark import sum as total


def build(name: str, partitions: int = 3, *, exact: bool = False, most: bool = True) -> Pipeline:
    """Return the pipeline.

    ``exact``: one task counts players, for it needs all rows.  ``most``: with the second sums.
    """
    pipeline = Pipeline(name, partitions=partitions)
    moves = pipeline.source(
        f"{name}-moves",
        schema={"player": str, "at": int, "score": float},
        event_time="at",
        watermark=bounded("1m"),
        idle_after="1h",
    )
    sums = (
        moves.key_by()
        .window(tumbling("5s"))
        .aggregate(
            n=count(),
            score=total("score"),
            spread=stddev("score"),
            players=count_distinct("player", approximate=not exact),
            first=first("player"),
            best=top_k("player", 3, by="score"),
        )
    )
    sums.to("sums")
    if most:
        longer = sums.key_by().window(tumbling("30s"))
        longer.aggregate(n=total("n"), most=greatest("n")).to("most")
    return pipeline


pipeline = build(
    os.environ.get("TEST_PIPELINE", "all-rows"), **json.loads(os.environ.get("TEST_OPTIONS", "{}"))
)
