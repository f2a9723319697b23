"""The pipeline of the latency benchmark: a row per record, with the time when it was due."""

from tidemark import Pipeline, bounded, count, max

pipeline = Pipeline("latency", partitions=4)
events = pipeline.source(
    "latency-events",
    schema={"user": str, "at": int, "due_us": int},
    event_time="at",
    watermark=bounded("2s"),
)
events.key_by("user").aggregate(n=count(), due_us=max("due_us")).to("rows")
