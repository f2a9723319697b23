"""Idleness, silence, alignment and new partitions on a real broker, through the services."""

import time

import pytest
from confluent_kafka import KafkaError, Producer

from tests.kafka.pipelines import ticks as pipeline
from tests.kafka.support.stack import Stack, wait_until
from tests.kafka.support.ticks import T0, panes, segments, tick, ticks


def test_b03_b05_silence_closes_windows_unless_the_source_is_to_wait(broker):
    """Both pipelines fall silent: one also has two empty partitions, the other has one event."""
    waiting = ticks(broker, "waiting", 3, idle_after="2s", when_silent="wait")
    advancing = ticks(broker, "advancing", idle_after="2s")
    with waiting, advancing:
        waiting.produce((0, None, tick(T0 + at)) for at in (1_000, 2_000, 17_000))
        advancing.produce([(0, None, tick(T0 + 6_000, v=7))])
        waiting.start()
        advancing.start()
        wait_until(lambda: panes(waiting) == [("a", 0, 2, 2)], "the window, past idle partitions")
        wait_until(lambda: panes(advancing) == [("a", 0, 1, 7)], "the window closed by silence")
        time.sleep(1)  # a silence of 3 s would have closed the next window
        assert panes(waiting) == [("a", 0, 2, 2)]

        advancing.produce([(0, None, tick(T0 + 7_000, v=100))])
        advancing.await_results("out.late", lambda rows: len(rows) == 1)
        assert panes(advancing) == [("a", 0, 1, 7)]
        assert waiting.results("out.late") == []


def test_records_stamped_years_ahead_stop_no_partition(broker):
    """By default brokers refuse what is stamped more than an hour ahead, and its whole batch.

    One event time is two hours later than its stamp.
    """
    ahead_ms = round(time.time() * 1_000) + 10 * 365 * 86_400_000
    with ticks(broker, "ahead", max_future="1h") as stack:
        producer = Producer({"bootstrap.servers": broker})
        refused: list[KafkaError | None] = []
        for ts in (T0 + 1_000, ahead_ms + 7_200_000, T0 + 2_000, T0 + 12_000):
            producer.produce(
                *(stack.raw, tick(ts), None, 0, lambda error, _: refused.append(error)),
                timestamp=ahead_ms,
            )
        assert producer.flush(10) == 0
        assert refused == [None] * 4
        stack.start()
        wait_until(lambda: panes(stack) == [("a", 0, 2, 2)], "the window")
        (letter,) = stack.results("dead-letters")
        assert (letter["partition"], letter["offset"]) == (0, 1)


def test_b41_partitions_read_one_after_the_other_lose_nothing(broker):
    with ticks(broker, "apart", 2, size="1m", idle_after="1h") as stack:
        for partition in (0, 1):
            stack.produce((partition, None, tick(T0 + 1_000 * i)) for i in range(6_000))
        stack.start()
        stack.produce((p, None, tick(T0 + 6_060_000, k="_flush")) for p in (0, 1))
        wait_until(lambda: len(panes(stack)) >= 100, "all windows")
        assert sorted(panes(stack)) == [("a", minute * 60, 120, 120) for minute in range(100)]
        assert stack.results("out.late") == []


def test_a_partition_far_ahead_waits_for_the_slowest(broker):
    """It has 200,000 records of 6,000 s, the other one a single record, and then the rest."""
    count, step_ms = 200_000, 30
    with ticks(broker, "aligned", 2, size="10m", idle_after="1h", max_drift="5m") as stack:
        stack.produce((0, None, tick(T0 + step_ms * i)) for i in range(count))
        stack.produce([(1, None, tick(T0, k="b"))])
        stack.start()
        wait_until(lambda: stack.figures("ingest").get("paused") == "1", "the pause")
        time.sleep(1.5)
        figures = stack.figures("ingest")
        assert int(figures["records"]) <= 300_000 // step_ms + 2_000 + 2
        assert int(figures["held"]) <= 60_000
        assert int(figures["lag"]) > count - 20_000

        stack.produce((1, None, tick(T0 + 60_000 * i, k="b")) for i in range(1, 101))
        stack.produce((p, None, tick(T0 + 6_600_000, k="_flush")) for p in (0, 1))
        wait_until(lambda: len(panes(stack)) >= 21, "all windows")
        ahead = [("a", start, 20_000, 20_000) for start in range(0, 6_000, 600)]
        slow = [("b", start, 10, 10) for start in range(0, 6_000, 600)]
        assert sorted(panes(stack)) == [*ahead, *slow, ("b", 6_000, 1, 1)]
        assert stack.results("out.late") == []
        assert stack.stop() == {"ingest": 0, "windowing": 0}


def test_a_raw_topic_may_gain_partitions(broker):
    """One with records, an old one among them, and one with none: it falls idle."""
    with ticks(broker, "growing", idle_after="2s", when_silent="wait") as stack:
        stack.start()
        stack.produce((0, None, tick(T0 + at)) for at in (1_000, 32_000))
        wait_until(lambda: panes(stack) == [("a", 0, 1, 1)], "the first window")
        stack.grow(3)
        stack.produce((1, None, tick(T0 + at, v=10)) for at in (5_000, 35_000))
        stack.await_results("out.late", lambda rows: len(rows) == 1)
        stack.produce((p, None, tick(T0 + 50_000)) for p in (0, 1))
        wait_until(lambda: len(panes(stack)) == 2, "the window of both partitions")
        assert panes(stack)[1] == ("a", 30, 2, 11)
        (late,) = stack.results("out.late")
        assert (late["partition"], late["offset"]) == (1, 0)
        assert [s.partitions[stack.raw] for s in segments(stack)][-1] == 3
        first = {m.source: m.first_offset for s in reversed(segments(stack)) for m in s.sources}
        assert first == {f"{stack.raw}/{number}": 0 for number in range(3)}


@pytest.mark.long
def test_silence_closes_no_window_that_an_unread_partition_has_rows_for(broker):
    """The group hears of a new partition long after silence would have closed the window."""
    options = {"size": "6s", "idle_after": "2s"}
    seldom = {"KAFKA_TOPIC_METADATA_REFRESH_INTERVAL_MS": "12000"}
    with Stack(broker, "unheard", 1, pipeline, options, **seldom) as stack:
        stack.start()
        stack.await_partitions()
        stack.produce([(0, None, tick(T0 + 1_000))])
        stack.grow(2)
        stack.produce([(1, None, tick(T0 + 2_000, v=10))])
        wait_until(lambda: len(panes(stack)) > 0, "the window")
        assert panes(stack) == [("a", 0, 2, 11)]
        assert stack.results("out.late") == []
