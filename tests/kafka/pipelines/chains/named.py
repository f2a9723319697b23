"""Clicks with the names of their users, from a file."""

import json
import os

from tidemark import Pipeline, bounded


def build(
    name: str,
    address: str,
    reload: str | None = None,
    partitions: int = 2,
    query: str | None = None,
) -> Pipeline:
    """Return the pipeline; ``address``, ``query``: of the users."""
    pipeline = Pipeline(name, partitions=partitions)
    clicks = pipeline.source(
        f"{name}-clicks",
        schema={"user": int, "at": int},
        event_time="at",
        watermark=bounded("0s"),
        idle_after="1h",
    )
    users = pipeline.static(
        "users",
        address,
        key="user",
        schema={"user": int, "name": str},
        query=query,
        reload=reload,
    )
    clicks.key_by("user").join(users, how="left").to("named")
    return pipeline


if "TEST_PIPELINE" in os.environ:
    pipeline = build(os.environ["TEST_PIPELINE"], **json.loads(os.environ["TEST_OPTIONS"]))
