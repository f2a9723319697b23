"""Readings of rooms that rules match: each rule is a pattern for the rooms of all partitions."""

import json
import os

from tidemark import Pipeline, bounded, col, count
from tidemark.core.operators.joins.table_join import Wait


def build(name: str, partitions: int = 2, *, arrival: bool = False) -> Pipeline:
    """Return the pipeline; ``arrival``: adds the matches of rules that count on arrival."""
    pipeline = Pipeline(name, partitions=partitions)
    readings, rules = (
        pipeline.source(
            f"{name}-{topic}",
            schema=schema,
            event_time="at",
            watermark=bounded("1s"),
            idle_after="1h",
        )
        for topic, schema in (
            ("readings", {"room": str, "at": int, "value": int}),
            ("rules", {"id": str, "at": int, "rule": str}),
        )
    )
    known = rules.key_by("id").table(keep="1h", deleted=col("rule") == "").broadcast()
    waits: tuple[Wait, ...] = ("event_time", "arrival") if arrival else ("event_time",)
    for wait in waits:
        matches = readings.key_by("room").match(known, rule="rule", max_within="1m", wait=wait)
        found = matches.select(since="first.at", until="last.at", a="a.value", rows=count())
        found.to("found" if wait == "event_time" else "at-once")
        if wait == "event_time":
            found.timeouts.to("nearly")
    return pipeline


pipeline = build(
    os.environ.get("TEST_PIPELINE", "rule-matches"),
    **json.loads(os.environ.get("TEST_OPTIONS", "{}")),
)
