"""The flush of a pipeline: its time, and the wait for ingest."""

from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer, TopicPartition

from tidemark import Pipeline, bounded, col, count, punctuated, tumbling
from tidemark.core.time.segment import NEVER_MS
from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.client.progress import VERSION, SourceProgress, encode
from tidemark.runtime.config import Config
from tidemark.runtime.ingest import flush


@pytest.fixture
def broker() -> Iterator[Config]:
    """Yield the settings of a client; librdkafka plays the broker, which has a topic ``in``."""
    producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1})
    (played,) = producer.list_topics("in", timeout=10).brokers.values()
    yield Config(bootstrap_servers=f"{played.host}:{played.port}")
    del producer  # it ends the broker


def tens() -> Plan:
    pipeline = Pipeline("p")
    rows = pipeline.source(
        "in", schema={"k": str, "at": int}, event_time="at", watermark=bounded("1s")
    )
    rows.key_by("k").window(tumbling("10s")).aggregate(n=count()).to("out")
    return pipeline.plan()


@pytest.mark.parametrize(
    ("committed", "until_ms"),
    [
        ([(20_000, None), (7_000, None)], 31_000),
        ([(31_000, 20_000), (31_000, 7_000)], 31_000),
        ([(31_000, 20_000), (31_000, NEVER_MS), (24_000, None)], 35_000),
    ],
)
def test_a_second_flush_does_not_move_time_on_again(monkeypatch, committed, until_ms):
    monkeypatch.setattr(flush, "require_raw", lambda *_: {"in": len(committed)})
    monkeypatch.setattr(flush, "committed_ends", lambda _admin, wanted: dict.fromkeys(wanted, 1))
    offsets = [
        TopicPartition(
            "in",
            number,
            1,
            metadata=encode(
                SourceProgress(VERSION, "id", 1, watermark_ms, unflushed_ms=unflushed_ms)
            ),
        )
        for number, (watermark_ms, unflushed_ms) in enumerate(committed)
    ]
    monkeypatch.setattr(flush, "committed_offsets", lambda *_: offsets)
    found = flush.PipelineFlush(Config(), object(), tens(), None, 1)  # type: ignore[arg-type]
    assert found.until_ms == until_ms


def test_a_flush_waits_until_ingest_has_read_it(monkeypatch, broker):
    committed = [0, 0, 1]
    asked = list[Partition]()

    def committed_offsets(_config, _group, wanted, _timeout_s):
        asked.extend(wanted)
        offset = committed.pop(0) if len(committed) > 1 else committed[0]
        return [TopicPartition(at.topic, at.number, offset) for at in wanted]

    monkeypatch.setattr(flush, "require_raw", lambda *_: {"in": 2})
    monkeypatch.setattr(flush, "compacted", lambda *_: set())
    monkeypatch.setattr(flush, "committed_offsets", committed_offsets)
    monkeypatch.setattr(flush, "_PAUSE_S", 0.01)
    admin = object()
    first = flush.PipelineFlush(broker, admin, tens(), 5_000, 5)  # type: ignore[arg-type]
    assert first.run()
    assert Counter(asked) == {Partition("in", 0): 3, Partition("in", 1): 3}
    again = flush.PipelineFlush(broker, admin, tens(), 5_000, 0)  # type: ignore[arg-type]
    assert not again.run()


def test_a_watermark_without_a_bound_needs_a_time(monkeypatch):
    pipeline = Pipeline("p")
    rows = pipeline.source(
        "in",
        schema={"k": str, "at": int, "end": bool},
        event_time="at",
        watermark=punctuated(col("end")),
    )
    rows.key_by("k").window(tumbling("10s")).aggregate(n=count()).to("out")
    monkeypatch.setattr(flush, "require_raw", lambda *_: {"in": 2})
    admin = object()
    with pytest.raises(ConfigurationError, match=r"source in has the watermark punct.* --until"):
        flush.PipelineFlush(Config(), admin, pipeline.plan(), None, 1)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="outside the years 0001 to 9999"):
        flush.PipelineFlush(Config(), admin, pipeline.plan(), 2**60, 1)  # type: ignore[arg-type]
    found = flush.PipelineFlush(Config(), admin, pipeline.plan(), 5_000, 1)  # type: ignore[arg-type]
    assert [*found.lines()] == [
        "close what ends by 1970-01-01T00:00:05Z; what comes later and is older is late",
        "write a flush record to 2 partitions of in",
    ]
