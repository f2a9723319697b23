"""A pipeline whose program changes in what ingest does: which field is the event time."""

import json
import os

from tidemark import Pipeline, bounded, count, tumbling


def build(name: str, time: str = "at") -> Pipeline:
    """Return the pipeline under a name of its own; ``time``: the field of the event time."""
    pipeline = Pipeline(name, partitions=2)
    moves = pipeline.source(
        f"{name}-moves",
        schema={"player": str, "at": int, "sent": int},
        event_time=time,
        watermark=bounded("2s" if time == "at" else "5s"),
        idle_after="1h",
    ).key_by("player")
    moves.window(tumbling("10s"), allowed_lateness="5s").aggregate(moves=count()).to("moves")
    return pipeline


pipeline = build(
    os.environ.get("TEST_PIPELINE", "reparsed"), **json.loads(os.environ.get("TEST_OPTIONS", "{}"))
)
