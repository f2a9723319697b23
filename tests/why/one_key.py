"""A small pipeline; its events have values that tell them apart."""

from tidemark import Pipeline, bounded, col, count, hopping, tumbling
from tidemark import sum as total
from tidemark.core.windows.window import Hopping, Session
from tidemark.testing import InProcess

WINDOWS: dict[str, Hopping | Session] = {
    "tumbling": tumbling("10s"),
    "hopping": hopping("10s", "5s"),
    "session": Session(3_000),
}


def build(window: Hopping | Session) -> Pipeline:
    pipeline = Pipeline("p", partitions=2)
    (
        pipeline.source(
            "t",
            schema={"k": str, "at": int, "v": int},
            event_time="at",
            watermark=bounded("2s"),
            idle_after="1h",
        )
        .filter(col("v") >= 0)
        .key_by("k")
        .window(window, allowed_lateness="3s")
        .aggregate(n=count(), s=total("v"))
        .to("out")
    )
    return pipeline


def run(window: Hopping | Session, events: list[tuple[int, str, int]]) -> InProcess:
    scenario = InProcess(build(window), raw_partitions=2)
    for number, (partition, key, second) in enumerate(events):
        value = {"k": key, "at": second * 1_000, "v": 2**number}
        scenario.send("t", value, partition=partition)
    for partition in (0, 1):
        scenario.idle("t", "2h", partition)
    return scenario
