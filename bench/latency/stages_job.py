"""The pipeline of the latency of stages: the same windows, one stage after another."""

import os

from tidemark import Pipeline, count, monotonic, tumbling
from tidemark import sum as total

pipeline = Pipeline("stages", partitions=int(os.environ.get("BENCH_PARTITIONS", "4")))
events = pipeline.source(
    "stages-events",
    schema={"user": str, "at": int, "due_us": int},
    event_time="at",
    watermark=monotonic(),
)
first = events.key_by("user").window(tumbling("250ms")).aggregate(n=count())
first.to("first")
second = first.key_by("user").window(tumbling("250ms")).aggregate(n=total("n"))
second.to("second")
third = second.key_by("user").window(tumbling("250ms")).aggregate(n=total("n"))
third.to("third")
