"""Chains of windows in the language, of the stages that the oracle in plain Python takes."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from tests.oracles.chain import Stage, Windows
from tidemark import (
    calendar,
    col,
    count,
    every,
    hopping,
    last,
    on_close,
    on_final,
    on_update,
    same,
    session,
    sliding,
    tumbling,
)
from tidemark import sum as total
from tidemark.core.windows.trigger import Trigger
from tidemark.language.aggregated import AggregatedStream
from tidemark.language.keyed import KeyedStream

TRIGGERS: dict[str, Trigger] = {
    "close": on_close(),
    "final": on_final(),
    "update": on_update(),
    "rows": on_close(early=every(rows=2)),
    "late": on_close(late=every(rows=2)),
    "time": every(event_time="2s"),
}
"""Triggers by the name that a stage has of them."""


def results_of(keyed: KeyedStream, stages: Sequence[Stage]) -> AggregatedStream:
    """Return the results of the last stage; ``keyed``: rows with a ``value``, by ``key``."""
    for stage in stages:
        windows = keyed.window(
            window(stage.windows),
            allowed_lateness=f"{stage.lateness_ms}ms",
            trigger=TRIGGERS[stage.trigger],
        )
        found = windows.aggregate(n=count(), total=total("value"), last=last("value"))
        rows = found.updates() if stage.after == "every" else found
        kept = rows.filter(col("n") >= stage.least)
        if stage.key == "all":
            keyed = kept.select(value=col("total")).key_by()
            continue
        by_value = (col("total") % 3).cast(pl.String)
        keeps = stage.key == "same" and "key" in found.columns
        key = col("key") if keeps else by_value if stage.key == "value" else pl.lit("none")
        keyed = kept.select(key=key, value=col("total")).key_by("key")
    return found


def window(spec: Windows) -> Any:
    """Return windows of the language."""
    if spec.kind == "same":
        return same()
    if spec.kind == "day":
        return calendar("day", "UTC")
    if spec.kind == "session":
        return session(f"{spec.size_ms}ms")
    if spec.kind == "sliding":
        return sliding(f"{spec.size_ms}ms")
    if spec.size_ms == spec.slide_ms:
        return tumbling(f"{spec.size_ms}ms")
    return hopping(f"{spec.size_ms}ms", f"{spec.slide_ms}ms")
