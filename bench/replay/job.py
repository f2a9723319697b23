"""Both jobs of the harness over one log, for ``bench.replay``; BENCH_IN: the raw topic."""

import os

from tidemark import Pipeline, bounded, count, max, min, session, sum, tumbling

pipeline = Pipeline("bench-replay", partitions=4)

users = pipeline.source(
    os.environ["BENCH_IN"],
    schema={"user": str, "ts": int, "score": int, "kind": str},
    event_time="ts",
    watermark=bounded("2s"),
).key_by("user")

users.window(tumbling("10s")).aggregate(
    count=count(), sum=sum("score"), min=min("score"), max=max("score")
).to("tumbling")
users.window(session("5s")).aggregate(count=count(), sum=sum("score")).to("session")
