"""A pipeline of two operators in one service, alike but for their names."""

import os

from tidemark import Pipeline, bounded, count, tumbling


def build(name: str) -> Pipeline:
    pipeline = Pipeline(name, partitions=2)
    moves = pipeline.source(
        f"{name}-moves",
        schema={"player": str, "at": int, "score": int},
        event_time="at",
        watermark=bounded("2s"),
        idle_after="1h",
    ).key_by("player")
    for output in ("pops", "twins"):
        moves.window(tumbling("10s")).aggregate(pops=count()).to(output)
    return pipeline


pipeline = build(os.environ.get("TEST_PIPELINE", "twins"))
