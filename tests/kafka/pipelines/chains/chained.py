"""Chains: counts of windows feed sums and sessions, and these feed totals over all keys.

The sums read the log that their own service writes.  The sessions are another service's, and the
totals come back to the first one.
"""

import json
import os

from tidemark import Pipeline, bounded, col, count, session, tumbling
from tidemark import sum as total


def build(
    name: str,
    partitions: int = 3,
    stages: int = 3,
    idle_after: str = "1h",
    delay: str = "2s",
    least: int = 2,
    size: str = "10s",
    mixed: bool = False,
    updates: bool = False,
) -> Pipeline:
    """Return the pipeline; ``stages``: 2 leaves out the totals.

    ``least``: the moves in a window that counts for runs.  ``size``: of the windows of counts.
    ``mixed``: adds an output on raw rows together with results of a stage.  ``updates``: each stage
    accepts late rows and hands on every pane.
    """
    pipeline = Pipeline(name, partitions=partitions)
    moves = pipeline.source(
        f"{name}-moves",
        schema={"player": str, "at": int, "score": int},
        event_time="at",
        watermark=bounded(delay),
        idle_after=idle_after,
    )
    lateness = "30s" if updates else 0
    windows = moves.key_by("player").window(tumbling(size), allowed_lateness=lateness)
    counts = windows.aggregate(n=count(), s=total("score"))
    counts.to("counts")
    rows = counts.updates() if updates else counts
    by_player = rows.key_by("player")
    by_player.window(tumbling("30s")).aggregate(n=total("n"), windows=count()).to("sums")
    runs = (
        rows.filter(col("n") >= least)
        .key_by("player")
        .window(session("15s"))
        .aggregate(n=total("n"), windows=count())
    )
    runs.to("runs")
    if stages > 2:
        every = runs.updates() if updates else runs
        totals = every.key_by().window(tumbling("1m"))
        totals.aggregate(n=total("n"), runs=count()).to("totals")
    if mixed:
        rows = moves.select("player", n=col("score")).union(runs.select("player", "n"))
        both = rows.key_by("player").window(tumbling("30s"))
        both.aggregate(n=total("n"), windows=count()).to("mixed")
    return pipeline


pipeline = build(
    os.environ.get("TEST_PIPELINE", "chained"), **json.loads(os.environ.get("TEST_OPTIONS", "{}"))
)
