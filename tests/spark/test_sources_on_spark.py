"""Sources that wait for each other, and new ones, where ingest is Spark's."""

from typing import Any

import pytest

import tidemark as td
from tests.kafka.pipelines import regions
from tests.kafka.support.stack import Stack, wait_until
from tests.kafka.support.ticks import T0, panes, segments, tick, ticks
from tests.kafka.support.topics import counted, created, send
from tests.spark.support.live import caught_up
from tests.spark.support.replayed import claimed, work_until
from tidemark.commands.replay_view import diff_lines
from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.runtime.client import topics
from tidemark.spark.read.live_position import committed_offsets
from tidemark.spark.replay.jobs import diff
from tidemark.spark.services.driver import release
from tidemark.spark.services.ingest_driver import IngestDriver


@pytest.mark.long
def test_a_partition_far_ahead_waits_for_the_slowest_on_spark_too(broker, spark, monkeypatch):
    """As tests/kafka/ingest/test_time.py has it with services; a batch is what it may overshoot."""
    count, step_ms, most = 6_000, 1_000, 2_000
    monkeypatch.setattr("tidemark.spark.services.ingest_driver._MOST_ALIGNED", most)
    with ticks(broker, "together", 2, size="10m", idle_after="1h", max_drift="5m") as stack:
        driver = claimed(stack)
        stack.produce((0, None, tick(T0 + step_ms * i)) for i in range(count))
        stack.produce([(1, None, tick(T0, k="b"))])
        work_until(driver, spark, lambda: len(segments(stack)) > 0, "the first segments")
        for _ in range(3):
            driver.batch(spark)
        ahead, slow = (Partition(stack.raw, number) for number in (0, 1))
        read = committed_offsets(stack.config, stack.plan.group("ingest"), [ahead, slow])
        assert read == {ahead: most, slow: 1}

        stack.produce((1, None, tick(T0 + 60_000 * i, k="b")) for i in range(1, 101))
        stack.produce((p, None, tick(T0 + 6_600_000, k="_flush")) for p in (0, 1))
        work_until(driver, spark, lambda: len(panes(stack)) >= 21, "all windows")
        of_ahead = [("a", start, 600, 600) for start in range(0, 6_000, 600)]
        of_slow = [("b", start, 10, 10) for start in range(0, 6_000, 600)]
        assert sorted(panes(stack)) == [*of_ahead, *of_slow, ("b", 6_000, 1, 1)]
        assert stack.results("out.late") == []


@pytest.mark.long
def test_a_raw_topic_may_gain_partitions_on_spark_too(broker, sessions, spark):
    """One with records, an old one among them, and one with none; then it goes to services."""
    with ticks(broker, "grown", idle_after="2s", when_silent="wait") as stack:
        driver = claimed(stack)
        stack.produce((0, None, tick(T0 + at)) for at in (1_000, 32_000))
        work_until(driver, spark, lambda: panes(stack) == [("a", 0, 1, 1)], "the first window")
        stack.grow(3)
        stack.produce((1, None, tick(T0 + at, v=10)) for at in (5_000, 35_000))
        work_until(driver, spark, lambda: len(stack.results("out.late")) == 1, "the late row")
        stack.produce((p, None, tick(T0 + 50_000)) for p in (0, 1))
        work_until(driver, spark, lambda: len(panes(stack)) == 2, "the window of both")
        assert panes(stack)[1] == ("a", 30, 2, 11)
        (late,) = stack.results("out.late")
        assert (late["partition"], late["offset"]) == (1, 0)
        assert segments(stack)[-1].partitions[stack.raw] == 3

        stack.grow(4)
        release(stack.config, stack.plan)
        stack.start()
        stack.produce((p, None, tick(T0 + 52_000 + p, v=100)) for p in (2, 3))
        stack.produce((p, None, tick(T0 + 90_000)) for p in range(4))
        wait_until(lambda: len(panes(stack)) == 3, "the window of all")
        assert panes(stack)[2] == ("a", 50, 4, 202)
        caught_up(stack)
        assert set(stack.stop().values()) == {0}
        first = {m.source: m.first_offset for s in reversed(segments(stack)) for m in s.sources}
        assert first == {f"{stack.raw}/{number}": 0 for number in range(4)}
        result = diff(stack.config, stack.plan, sessions, 1, from_raw=True)
        assert result.equal, "\n".join(diff_lines(result))


@pytest.mark.long
def test_topics_of_a_pattern_join_on_spark_too(broker, sessions, spark):
    options = {"topics": r"joined\.in\..*", "idle_after": "1h"}
    env = {"TIDEMARK_TOPICS_INTERVAL_MS": "200"}
    with Stack(broker, "joined", 1, regions, options, **env) as stack:
        created(stack, "joined.in.eu")
        driver = claimed(stack)
        send(stack, "joined.in.eu", [1, 2, 13])
        first = {("eu", 0): 2}
        work_until(driver, spark, lambda: counted(stack) == first, "the first window")
        created(stack, "joined.in.us")
        send(stack, "joined.in.us", [5, 25])
        work_until(driver, spark, lambda: len(stack.results("by-topic.late")) == 1, "the late row")
        for topic in ("joined.in.eu", "joined.in.us"):
            send(stack, topic, [25, 60])
        then = first | {("eu", 10): 1, ("eu", 20): 1, ("us", 20): 2}
        work_until(driver, spark, lambda: counted(stack) == then, "the windows of both")

        release(stack.config, stack.plan)
        stack.start()
        created(stack, "joined.in.asia")
        send(stack, "joined.in.asia", [61, 90])
        for topic in ("joined.in.eu", "joined.in.us"):
            send(stack, topic, [90])
        last = {("eu", 60): 1, ("us", 60): 1, ("asia", 60): 1}
        wait_until(lambda: counted(stack) == then | last, "the windows of all")
        caught_up(stack)
        assert set(stack.stop().values()) == {0}
        result = diff(stack.config, stack.plan, sessions, 1, from_raw=True)
        assert result.equal, "\n".join(diff_lines(result))


COUNTS = {"in.eu": 2, "in.eu.test": 1, "x.test": 1}


def disputed_plan() -> Any:
    pipeline = td.Pipeline("p")
    schema = {"at": int, "k": str}
    for name, pattern in ("all", r"in\..*"), ("tests", r".*\.test"):
        rows = pipeline.source(
            topics=pattern, schema=schema, event_time="at", watermark=td.monotonic()
        )
        rows.key_by("k").window(td.tumbling("1m")).aggregate(n=td.count()).to(name)
    return pipeline.plan()


def test_a_topic_of_two_sources_ends_the_start_and_is_left_out_later(monkeypatch, caplog):
    counts = dict(COUNTS)
    monkeypatch.setattr(topics, "partition_counts", lambda _admin: counts)
    admin: Any = None
    with pytest.raises(ConfigurationError, match=r"topic in\.eu\.test belongs to sources"):
        topics.require_raw(admin, disputed_plan())
    config: Any = None
    monkeypatch.setattr("tidemark.spark.services.ingest_driver.PastMarks", lambda *_: None)
    driver = IngestDriver(config, admin, disputed_plan(), "p.ingest.0")
    with pytest.raises(ConfigurationError, match="belongs to sources"):
        driver.partitions()
    del counts["in.eu.test"]
    known = driver.partitions()
    counts["in.eu.test"] = 1
    for _ in range(2):
        assert driver.partitions() == known
    assert caplog.text.count("topic in.eu.test belongs to sources") == 1
    assert "The topic is not read, and the others go on" in caplog.text
