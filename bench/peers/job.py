"""The harness's job as a pipeline; BENCH_JOB chooses windows or sessions, BENCH_* the rest.

All settings are Tidemark's defaults.  The pipeline has the name of the run, so the harness finds
and deletes all topics of a run by their names.
"""

import os

from tidemark import Pipeline, bounded, count, max, min, session, sum, tumbling

RESULTS = "results"
"""Name of the only output; its topic is ``<run>.results``."""

pipeline = Pipeline(os.environ["BENCH_GROUP"], partitions=4)

users = pipeline.source(
    os.environ["BENCH_IN"],
    schema={"user": str, "ts": int, "score": int, "kind": str},
    event_time="ts",
    watermark=bounded("2s"),
).key_by("user")

if os.environ["BENCH_JOB"] == "tumbling":
    users.window(tumbling("10s")).aggregate(
        count=count(), sum=sum("score"), min=min("score"), max=max("score")
    ).to(RESULTS)
else:
    users.window(session("5s")).aggregate(count=count(), sum=sum("score")).to(RESULTS)
