"""The pipeline of the soak: windows and sessions of players who come and go."""

import os

from tidemark import Pipeline, bounded, count, session, sum, tumbling  # noqa: A004

BOUND_MS = 2_000
SIZE_MS = 10_000
LATENESS_MS = 30_000


def build(name: str) -> Pipeline:
    """Return the pipeline; its raw topic is ``NAME-moves``."""
    pipeline = Pipeline(name, partitions=4)
    moves = pipeline.source(
        f"{name}-moves",
        schema={"player": str, "at": int, "score": int},
        event_time="at",
        watermark=bounded(f"{BOUND_MS}ms"),
        idle_after="10s",
    ).key_by("player")
    moves.window(tumbling(f"{SIZE_MS}ms"), allowed_lateness=f"{LATENESS_MS}ms").aggregate(
        moves=count(), score=sum("score")
    ).to("scores")
    moves.window(session("5s"), allowed_lateness=f"{LATENESS_MS}ms").aggregate(moves=count()).to(
        "visits"
    )
    return pipeline


pipeline = build(os.environ.get("TEST_PIPELINE", "soak"))
