"""The pipeline of the soak: windows, sessions and a join of players who come and go."""

import os

from tidemark import Pipeline, bounded, col, count, session, sum, tumbling  # noqa: A004

BOUND_MS = 2_000
SIZE_MS = 10_000
LATENESS_MS = 30_000
BEST = 99
"""The score of the moves that are joined with those of score 0."""


def build(name: str) -> Pipeline:
    """Return the pipeline; its raw topic is ``NAME-moves``."""
    pipeline = Pipeline(name, partitions=4)
    moves = pipeline.source(
        f"{name}-moves",
        schema={"player": str, "at": int, "score": int},
        event_time="at",
        watermark=bounded(f"{BOUND_MS}ms"),
        idle_after="10s",
    )
    players = moves.key_by("player")
    players.window(tumbling(f"{SIZE_MS}ms"), allowed_lateness=f"{LATENESS_MS}ms").aggregate(
        moves=count(), score=sum("score")
    ).to("scores")
    players.window(session("5s"), allowed_lateness=f"{LATENESS_MS}ms").aggregate(moves=count()).to(
        "visits"
    )
    place = col("_partition") * 10**12 + col("_offset")
    best, worst = (moves.filter(col("score") == score) for score in (BEST, 0))
    best.select("player", "at", place=place).key_by("player").join(
        worst.select("player", "at").key_by("player"),
        within="5s",
        how="left",
        allowed_lateness=f"{LATENESS_MS}ms",
    ).to("pairs")
    return pipeline


pipeline = build(os.environ.get("TEST_PIPELINE", "soak"))
