"""The pipeline of tests of user code that fails: null is refused, and a total of 13."""

import json
import os
from typing import Any

from tidemark import Pipeline, count, custom, monotonic, session, tumbling


class Total:
    """A sum of integers that takes no null, and has no result of 13."""

    def init(self) -> int:
        return 0

    def add(self, state: int, row: dict[str, Any], /) -> int:
        total: int = state + row["v"]
        return total

    def merge(self, state: int, other: int, /) -> int:
        return state + other

    def result(self, state: int, /) -> int:
        if state == 13:
            raise ArithmeticError("13 is no result")
        return state


def build(name: str, on_error: Any = "dead_letter", *, plain: bool = False) -> Pipeline:
    """Return the pipeline under a name of its own, so that tests share a broker.

    ``plain``: with an output that no row breaks.
    """
    pipeline = Pipeline(name, partitions=1)
    keyed = pipeline.source(
        f"{name}-in",
        schema={"k": str, "ts": int, "v": int},
        event_time="ts",
        watermark=monotonic(),
        idle_after="1h",
    ).key_by("k")
    total = custom(Total(), "v", int, on_error=on_error)
    keyed.window(tumbling("10s")).aggregate(n=count(), total=total).to("windows")
    keyed.window(session("5s")).aggregate(n=count(), total=total).to("sessions")
    if plain:
        keyed.window(tumbling("10s")).aggregate(n=count()).to("plain")
    return pipeline


pipeline = build(
    os.environ.get("TEST_PIPELINE", "failing"), **json.loads(os.environ.get("TEST_OPTIONS", "{}"))
)
