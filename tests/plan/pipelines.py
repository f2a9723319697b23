"""Pipelines whose plans are tested."""

from tidemark import (
    RECORD_TIME,
    Pipeline,
    bounded,
    col,
    count,
    max,  # noqa: A004
    monotonic,
    session,
    sum,  # noqa: A004
    tumbling,
)


def game():
    pipeline = Pipeline("game")
    pops = (
        pipeline.source(
            "moves",
            schema={"player": str, "at": int, "score": int, "kind": str},
            event_time="at",
            watermark=bounded("2s"),
            idle_after="10s",
            max_future="1h",
        )
        .filter(col("kind") == "pop")
        .key_by("player")
    )
    pops.window(tumbling("1m"), allowed_lateness="10m").aggregate(
        pops=count(), score=sum("score")
    ).to("pops-per-minute")
    pops.window(session("30s")).aggregate(moves=count(), best=max("score")).to("play-sessions")
    return pipeline


def raw(pipeline, topic="raw", **schema):
    return pipeline.source(
        topic,
        schema=schema or {"id": int, "name": str, "n": int},
        event_time=RECORD_TIME,
        watermark=monotonic(),
    )


def publish(stream, key, name):
    stream.key_by(*key).window(tumbling("1m")).aggregate(rows=count()).to(name)
