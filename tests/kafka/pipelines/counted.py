"""The pipeline of the public bug trials: count and sum of v per key k, in windows."""

import json
import os
from collections.abc import Callable
from typing import Any

from tidemark import Pipeline, bounded, count, on_final, on_update, tumbling
from tidemark import max as highest
from tidemark import sum as total

_AGGREGATES = {"count": count(), "sum(v)": total("v"), "max(v)": highest("v")}
_EMIT: dict[str, Callable[[], Any]] = {"final": on_final, "every_update": on_update}


def build(
    name,
    size_ms=10_000,
    ooo_ms=0,
    lateness_ms=0,
    agg=("count", "sum(v)"),
    partitions=1,
    emit="final",
):
    """Return the pipeline of a trial's spec; its raw topic is ``NAME-in``."""
    pipeline = Pipeline(name, partitions=partitions)
    rows = pipeline.source(
        f"{name}-in",
        schema={"k": str, "ts": int, "v": int},
        event_time="ts",
        watermark=bounded(f"{ooo_ms}ms"),
        idle_after="1h",
    )
    windowed = rows.key_by("k").window(
        tumbling(f"{size_ms}ms"), allowed_lateness=f"{lateness_ms}ms", trigger=_EMIT[emit]()
    )
    values = {text.partition("(")[0]: _AGGREGATES[text] for text in agg}
    windowed.aggregate(**values).to("out")
    return pipeline


pipeline = build(
    os.environ.get("TEST_PIPELINE", "counted"), **json.loads(os.environ.get("TEST_OPTIONS", "{}"))
)
