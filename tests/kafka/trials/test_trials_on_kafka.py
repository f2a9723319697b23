"""Public bug trials that are about the broker: sizes of messages, partitions that appear."""

import json

import pytest
from confluent_kafka import Producer

from tests.kafka.pipelines import pads
from tests.kafka.support.stack import Stack, wait_until
from tests.kafka.support.ticks import T0, panes, segments, ticks

FLUSH_MS = T0 + 60_000


def record(k, at_ms, v=1, **others):
    return json.dumps({"k": k, "ts": at_ms, "v": v, **others}).encode()


def await_end(stack):
    wait_until(lambda: stack.figures("ingest").get("lag") == "0", "the raw topic's end")


def records_of(letters):
    """A record of 1.04 MB, and ``letters`` of half a megabyte of one key."""
    values = [record("a", T0 + 1_000), record("big", T0 + 1_500, pad="x" * 1_040_000)]
    values += [record("list", T0 + 1_600, pad="y" * 500_000) for _ in range(letters)]
    return [*values, record("a", T0 + 2_000, v=2), record("_flush", FLUSH_MS, v=0)]


def run_pads(broker, letters, panes):
    """Return the panes by key, and the dead letters."""
    with Stack(broker, f"pads{letters}", module=pads) as stack:
        stack.produce((0, None, value) for value in records_of(letters))
        stack.start()
        stack.await_results("out", lambda found: len(found) >= panes)
        await_end(stack)
        found = {pane["k"]: pane for pane in stack.results("out")}
        dead = stack.results("dead-letters")
        assert stack.stop() == {"ingest": 0, "windowing": 0}
    assert (found["a"]["count"], found["a"]["sum"]) == (2, 3)
    assert found["big"]["pads"] == ["x" * 1_040_000]
    return found, dead


def test_b24_records_and_panes_larger_than_messages_by_default_pass(broker):
    found, dead = run_pads(broker, 3, panes=3)
    assert dead == []
    assert found["list"]["pads"] == ["y" * 500_000] * 3


@pytest.mark.long
def test_b24_a_pane_that_fits_no_message_is_one_dead_letter(broker):
    found, (letter,) = run_pads(broker, 40, panes=2)
    assert set(found) == {"a", "big"}
    assert json.loads(letter["key"]) == ["list", T0]
    assert (letter["topic"], letter["stage"]) == ("pads40.out", "publish")
    assert letter["reason"].startswith("pane of 20,000,")
    assert letter["value_length"] > 20_000_000


def test_b28_keys_that_move_with_new_partitions_are_counted_once(broker):
    """2 partitions become 4 between two bursts of the same keys, spread by murmur2.

    What ends the window comes once the log knows of the new partitions, read or not.
    """
    with ticks(broker, "spread", 2, idle_after="5s", when_silent="wait") as stack:
        stack.start()
        spread(stack, T0 + 1_000)
        wait_until(lambda: stack.figures("ingest").get("records") == "60", "the first burst")
        stack.grow(4)
        spread(stack, T0 + 3_000)
        wait_until(
            lambda: segments(stack)[-1].partitions[stack.raw] == 4,
            "segments with the new partitions",
        )
        stack.produce((p, None, record("_flush", T0 + 90_000, v=0)) for p in range(4))
        wait_until(lambda: len(panes(stack)) >= 20, "the window of all keys")
        assert stack.results("dead-letters") == []
        assert stack.results("out.late") == []
        assert stack.stop() == {"ingest": 0, "windowing": 0}, stack.log("ingest")
        assert sorted(panes(stack)) == [(f"r{n:02}", 0, 6, 6) for n in range(20)]


def spread(stack, first_ms):
    """Write 60 records of 20 keys as a Java producer would that just looked up the partitions."""
    servers = stack.config.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
    for n in range(60):
        key = f"r{n % 20:02}"
        producer.produce(stack.raw, record(key, first_ms + 10 * n), key)
    assert producer.flush(10) == 0
