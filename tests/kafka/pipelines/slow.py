"""The pipeline of the test of slow work: an aggregate that takes a tenth of a second for a row."""

import os
import time
from typing import Any

from tidemark import Pipeline, custom, monotonic, tumbling

PAUSE_MS = 100


class Slow:
    """A count that takes its time over rows that say so."""

    def init(self) -> int:
        return 0

    def add(self, state: int, row: dict[str, Any], /) -> int:
        if row["pause_ms"] == PAUSE_MS:  # others are those by which the pipeline is tried out
            time.sleep(PAUSE_MS / 2000)  # each row is tried alone, then added
        return state + 1

    def merge(self, state: int, other: int, /) -> int:
        return state + other

    def result(self, state: int, /) -> int:
        return state


def build(name: str) -> Pipeline:
    """Return the pipeline under a name of its own, so that tests share a broker."""
    pipeline = Pipeline(name, partitions=1)
    source = pipeline.source(
        f"{name}-moves",
        schema={"k": str, "ts": int, "pause_ms": int},
        event_time="ts",
        watermark=monotonic(),
        idle_after="1h",
    )
    source.key_by("k").window(tumbling("10s")).aggregate(n=custom(Slow(), "pause_ms", int)).to(
        "out"
    )
    return pipeline


pipeline = build(os.environ.get("TEST_PIPELINE", "slow"))
