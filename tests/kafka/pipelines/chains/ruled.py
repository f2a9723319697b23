"""Readings of machines that meet rules: each rule is for the machines of all partitions."""

import json
import os

from tidemark import Pipeline, bounded, col


def build(name: str, partitions: int = 2, *, arrival: bool = False, keep: str = "10m") -> Pipeline:
    """Return the pipeline; ``arrival``: adds the alarms of rules that came before the readings.

    ``keep``: how old a rule may be.
    """
    pipeline = Pipeline(name, partitions=partitions)
    readings = pipeline.source(
        f"{name}-readings",
        schema={"machine": str, "at": int, "kind": str, "value": int},
        event_time="at",
        watermark=bounded("1s"),
        idle_after="1h",
    ).key_by("machine")
    rules = pipeline.source(
        f"{name}-rules",
        schema={"rule": str, "at": int, "kind": str, "above": int, "op": str},
        event_time="at",
        watermark=bounded("1s"),
        idle_after="1h",
    ).key_by("rule")
    table = rules.table(keep=keep, deleted=col("op") == "d").broadcast()
    on = (col("kind") == col("kind_right")) & (col("value") > col("above"))
    readings.join(table, on=on).to("alarms")
    readings.join(table, on=on, how="anti").to("quiet")
    if arrival:
        readings.join(table, on=on, wait="arrival").to("at-once")
    return pipeline


pipeline = build(
    os.environ.get("TEST_PIPELINE", "ruled"), **json.loads(os.environ.get("TEST_OPTIONS", "{}"))
)
