"""A pipeline whose keys are chosen: each has a log and an output of its own."""

from tidemark import Pipeline, bounded, count, tumbling
from tidemark import sum as total
from tidemark.partition import Partition

A, B = Partition("raw", 0), Partition("raw", 1)
CITY = "p.by-city.log"


def built(*keys, event_time="at", shape=lambda s: s):
    pipeline = Pipeline("p", partitions=2)
    source = pipeline.source(
        "raw",
        schema={"at": int, "k": str, "city": str, "v": int},
        event_time=event_time,
        watermark=bounded("10ms"),
        idle_after="1h",
    )
    for key in keys:
        windows = shape(source).key_by(key).window(tumbling("50ms"))
        windows.aggregate(n=count(), total=total("v")).to(f"of-{key}")
    return pipeline.plan()


OLD, NEW, BOTH_NEW = built("k"), built("k", "city"), built("k", "city", "v")
