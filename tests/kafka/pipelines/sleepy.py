"""A pipeline whose ingest falls asleep over the first record: a function of it hangs."""

import os
import time
from typing import Any

from tidemark import Pipeline, count, monotonic, tumbling


def _asleep(row: dict[str, Any]) -> dict[str, Any]:
    time.sleep(600)
    return {"score": row["score"]}


def build(name: str) -> Pipeline:
    """Return the pipeline under a name of its own, so that tests share a broker."""
    pipeline = Pipeline(name, partitions=2)
    moves = pipeline.source(
        f"{name}-moves",
        schema={"player": str, "at": int, "score": int},
        event_time="at",
        watermark=monotonic(),
    )
    scores = moves.apply(_asleep, {"score": int}).key_by("player")
    scores.window(tumbling("10s")).aggregate(moves=count()).to("pops")
    return pipeline


pipeline = build(os.environ.get("TEST_PIPELINE", "sleepy"))
