"""A pipeline that changes from one deployment to the next: the options say how."""

import json
import os
from typing import Any

from tidemark import Pipeline, bounded, col, count, tumbling
from tidemark import sum as total


def build(
    name: str,
    keys: tuple[str, ...] = ("player",),
    score: str = "int",
    least: int | None = None,
    topics: int = 1,
    partitions: int = 2,
    delay: str = "2s",
) -> Pipeline:
    """Return the pipeline; each key has an output ``by-KEY``, each further topic one of its own.

    ``least``: the lowest score that passes the filter.
    """
    pipeline = Pipeline(name, partitions=partitions)
    for number in range(topics):
        source: Any = pipeline.source(
            f"{name}-moves" if number == 0 else f"{name}-others",
            schema={"player": str, "at": int, "score": {"int": int, "float": float}[score]},
            event_time="at",
            watermark=bounded(delay),
            idle_after="1h",
        )
        if least is not None:
            source = source.filter(col("score") >= least)
        source = source.with_columns(team=col("player").str.head(1))
        for key in keys:
            windows = source.key_by(key).window(tumbling("10s"))
            output = f"by-{key}" if number == 0 else f"others-by-{key}"
            windows.aggregate(pops=count(), score=total("score")).to(output)
    return pipeline


pipeline = build(
    os.environ.get("TEST_PIPELINE", "evolving"), **json.loads(os.environ.get("TEST_OPTIONS", "{}"))
)
