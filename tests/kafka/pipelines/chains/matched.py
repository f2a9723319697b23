"""Rooms that burn, that cool down again, or fall silent; and how many burn in ten seconds."""

import json
import os
from typing import Any

from tidemark import (
    Pipeline,
    absence,
    bounded,
    col,
    count,
    lit,
    max,  # noqa: A004 - the word of the language
    sequence,
    step,
    tumbling,
)


def build(
    name: str, partitions: int = 3, *, seconds: int = 6, more: bool = False, avro: bool = False
) -> Pipeline:
    """Return the pipeline; ``seconds``: the time of the pattern.

    ``more``: adds a value to the published matches, and rooms that fall silent.  ``avro``: the
    format of the matches.
    """
    pipeline = Pipeline(name, partitions=partitions)
    readings = pipeline.source(
        f"{name}-readings",
        schema={"room": str, "at": int, "kind": str, "celsius": float},
        event_time="at",
        watermark=bounded("2s"),
        idle_after="1h",
    ).key_by("room")
    fire = sequence(
        hot=step(col("celsius") > 80).one_or_more(),
        smoke=step(col("kind") == "smoke", on=col("at") > col("hot.at")),
    ).within(f"{seconds}s")
    matches = readings.match(fire, skip="to_next")
    shown: dict[str, Any] = {"n": count("hot"), "smoke_at": "smoke.at"}
    added: dict[str, Any] = {"top": max("hot.celsius")} if more else {}
    matches.select(**shown, **added).to("fires", format="avro" if avro else "json")
    found = matches.select(**shown)
    found.timeouts.to("cooled")
    burning = found.key_by("room").window(tumbling("10s"))
    burning.aggregate(fires=count(), most=max("n")).to("burning")
    if more:
        silent = absence(of=lit(value=True), for_="3s")
        readings.match(silent).select(last_at="of.at").to("silent")
    return pipeline


pipeline = build(
    os.environ.get("TEST_PIPELINE", "matched"), **json.loads(os.environ.get("TEST_OPTIONS", "{}"))
)
