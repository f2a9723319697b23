"""A topic that the patterns of two sources match: docs/operations.md, "Topics and settings"."""

from typing import Any

import pytest

import tidemark as td
from tidemark.errors import ConfigurationError
from tidemark.runtime.client import topics
from tidemark.spark.services.ingest_driver import IngestDriver

COUNTS = {"in.eu": 2, "in.eu.test": 1, "x.test": 1}


def plan() -> Any:
    pipeline = td.Pipeline("p")
    schema = {"at": int, "k": str}
    for name, pattern in ("all", r"in\..*"), ("tests", r".*\.test"):
        rows = pipeline.source(
            topics=pattern, schema=schema, event_time="at", watermark=td.monotonic()
        )
        rows.key_by("k").window(td.tumbling("1m")).aggregate(n=td.count()).to(name)
    return pipeline.plan()


def test_it_ends_the_start_and_is_left_out_later(monkeypatch, caplog):
    counts = dict(COUNTS)
    monkeypatch.setattr(topics, "partition_counts", lambda _admin: counts)
    admin: Any = None
    with pytest.raises(ConfigurationError, match=r"topic in\.eu\.test belongs to sources"):
        topics.require_raw(admin, plan())
    config: Any = None
    monkeypatch.setattr("tidemark.spark.services.ingest_driver.PastMarks", lambda *_: None)
    driver = IngestDriver(config, admin, plan(), "p.ingest.0")
    with pytest.raises(ConfigurationError, match="belongs to sources"):
        driver.partitions()
    del counts["in.eu.test"]
    known = driver.partitions()
    counts["in.eu.test"] = 1
    for _ in range(2):
        assert driver.partitions() == known
    assert caplog.text.count("topic in.eu.test belongs to sources") == 1
    assert "The topic is not read, and the others go on" in caplog.text
