"""The pipeline of the tests: pops of players in windows and sessions; a key may be the record's."""

import os

from tidemark import Pipeline, bounded, col, count, session, tumbling
from tidemark import max as highest
from tidemark import sum as total


def build(name: str) -> Pipeline:
    """Return the pipeline under a name of its own, so that tests share a broker."""
    pipeline = Pipeline(name, partitions=2)
    pops = (
        pipeline.source(
            f"{name}-moves",
            schema={"player": str, "at": int, "score": int, "kind": str},
            event_time="at",
            watermark=bounded("2s"),
            idle_after=os.environ.get("TEST_IDLE_AFTER", "1h"),
        )
        .filter(col("kind").is_null() | (col("kind") != "miss"))
        .with_columns(player=col("player").fill_null(col("_key")))
        .key_by("player")
    )
    more = {"best": highest("score")} if os.environ.get("TEST_AGGREGATE") else {}
    size = os.environ.get("TEST_WINDOW", "10s")
    pops.window(tumbling(size), allowed_lateness="5s").aggregate(
        pops=count(), score=total("score"), **more
    ).to("pops")
    pops.window(session("5s"), allowed_lateness="5s").aggregate(moves=count()).to("sessions")
    return pipeline


pipeline = build(os.environ.get("TEST_PIPELINE", "pops"))
