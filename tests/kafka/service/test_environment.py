"""What is wrong around a service heals, or stops it with one line that says what to do."""

import random

import pytest
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.kafka.pipelines import impatient, pads
from tests.kafka.support.stack import Stack, move, wait_until
from tidemark.embedded.broker import Broker, free_port
from tidemark.runtime.client import topics

T = 1_772_438_400_000


def error_line(stack: Stack, service: str = "ingest", status: int = 2) -> str:
    """Wait for the end of a service; return the one line that explains it."""
    assert stack.process(service).wait() == status
    (line,) = [line for line in stack.log(service).splitlines() if f" ERROR   {service}" in line]
    return line


def delete(stack: Stack, name: str) -> None:
    stack.admin.delete_topics([name])[name].result()
    wait_until(lambda: name not in topics.partition_counts(stack.admin), "deletion")


def test_a_missing_raw_topic_stops_ingest(broker):
    with Stack(broker, "rawless") as stack:
        delete(stack, stack.raw)
        stack.start("ingest")
        assert "topic rawless-moves does not exist" in error_line(stack)


def test_a_raw_topic_that_forgets_by_event_time_is_warned_of(broker):
    with Stack(broker, "forgets") as stack:
        delete(stack, stack.raw)
        settings = {"retention.ms": "86400000"}
        stack.admin.create_topics([NewTopic(stack.raw, 1, 1, config=settings)])[stack.raw].result()
        stack.start("ingest")
        wait_until(lambda: "was given" in stack.log("ingest"), "its partition")
        words = "raw topic forgets-moves: the broker deletes records whose timestamp is 1.0 days"
        assert words in stack.log("ingest")


def test_a_wrong_topic_of_its_own_stops_a_service(broker):
    with Stack(broker, "misfit") as stack:
        delete(stack, "misfit.pops")
        stack.admin.create_topics([NewTopic("misfit.pops", 3, 1)])["misfit.pops"].result()
        stack.start("windowing")
        line = error_line(stack, "windowing")
        assert "topic misfit.pops exists with 3 partitions where the pipeline needs 2" in line


def test_segments_are_split_to_fit_a_log_with_the_brokers_default_size(broker):
    """Three megabytes that hardly compress, in one commit, to a topic that takes one."""
    draw = random.Random(5)
    with Stack(broker, "narrow", TIDEMARK_COMMIT_INTERVAL_MS="500") as stack:
        name = "narrow.by-player.log"
        settings = {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}
        delete(stack, name)
        stack.admin.create_topics([NewTopic(name, 2, 1, config=settings)])[name].result()
        stack.produce(
            (0, None, move("a", T + n, kind=draw.randbytes(20_000).hex())) for n in range(80)
        )
        stack.start("ingest", "windowing")
        stack.move("a", T + 13_000)
        wait_until(lambda: len(stack.results("pops")) == 1, "the pane")
        assert [pane["pops"] for pane in stack.results("pops")] == [80]
        log = [value for _, value in stack.committed(name)]
        assert sum(map(len, filter(None, log))) > 1_500_000


def limit(stack: Stack, topic: str, most_bytes: int) -> None:
    """Set the largest message that a topic takes, in bytes."""
    size = ConfigEntry(
        "max.message.bytes", str(most_bytes), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[size])
    stack.admin.incremental_alter_configs([resource])[resource].result()


def test_topics_that_take_less_than_at_the_start_are_named_or_filled_with_smaller_messages(broker):
    """A log may take less, and after a restart gets less at a time; results may not."""
    draw = random.Random(6)
    log, results = "shrunk.by-k.log", "shrunk.out"
    with Stack(broker, "shrunk", module=pads, TIDEMARK_COMMIT_INTERVAL_MS="500") as stack:
        stack.start()
        stack.await_partitions()
        limit(stack, log, 2**20)
        pad = draw.randbytes(25_000).hex()
        row = b'{"k":"k%d","ts":%d,"v":1,"pad":"%s"}'
        stack.produce((0, None, row % (n, T, pad.encode())) for n in range(80))
        assert "refuses a message for its size" in error_line(stack, "ingest", 1)
        stack.start("ingest")
        wait_until(lambda: stack.figures("windowing").get("rows") == "80", "the rows")
        limit(stack, results, 10_000)
        stack.produce([(0, None, row % (0, T + 10_000, b""))])
        assert "refuses a message for its size" in error_line(stack, "windowing", 1)
        stack.start("windowing")
        line = error_line(stack, "windowing")
        wanted = "max.message.bytes=10000 where it needs at least 16777216"
        assert f"topic {results} exists with {wanted}" in line

        limit(stack, results, 16 * 2**20)
        stack.start("windowing")
        stack.await_results("out", lambda panes: len(panes) >= 80)


def test_more_replicas_than_brokers_stops_a_service(broker):
    with Stack(broker, "alone") as stack:
        delete(stack, "alone.pops")
        stack.start("windowing", TIDEMARK_REPLICATION_FACTOR="3")
        line = error_line(stack, "windowing")
        assert "topic alone.pops cannot be created: " in line
        assert "set TIDEMARK_REPLICATION_FACTOR" in line


def test_a_misspelt_property_is_named(broker):
    with Stack(broker, "misspelt", KAFKA_SASL_PASWORD="secret") as stack:
        stack.start("ingest")
        line = error_line(stack)
        assert 'No such configuration property: "sasl.pasword"' in line
        assert "secret" not in line


@pytest.mark.long
def test_a_transaction_timeout_above_the_brokers_is_named(tmp_path):
    extra = {"transaction.max.timeout.ms": "20000"}
    with Broker(tmp_path, extra=extra) as broker, Stack(broker.address, "slow") as stack:
        stack.start("ingest")
        assert "TIDEMARK_TRANSACTION_TIMEOUT_MS is more than the broker's" in error_line(stack)


@pytest.mark.long
def test_a_broker_that_says_a_wrong_address_is_named(tmp_path):
    nobody = f"127.0.0.1:{free_port()}"
    with Broker(tmp_path) as good:
        stack = Stack(good.address, "lied-to", module=impatient)
    extra = {"advertised.listeners": f"PLAINTEXT://{nobody}"}
    with Broker(tmp_path, extra=extra) as broker, stack:
        stack.start("ingest", KAFKA_BOOTSTRAP_SERVERS=broker.address)
        line = error_line(stack)
        assert f"the broker at {broker.address} answers, but advertises {nobody} (" in line
        assert "set its advertised.listeners" in line


@pytest.mark.long
def test_a_broker_away_at_the_start_and_later_is_waited_for(tmp_path):
    """It comes back at its port with its data, within the session: no process ends."""
    port = free_port()
    with Broker(tmp_path, port) as broker:
        stack = Stack(broker.address, "patient", KAFKA_SESSION_TIMEOUT_MS="45000")
    with stack:
        stack.start("ingest", "windowing")
        wait_until(lambda: "waiting for a broker at" in stack.log("ingest"), "the wait")
        with Broker(tmp_path, port):
            stack.await_partitions()
            stack.move("a", T)
            stack.move("a", T + 13_000)
            stack.await_results("pops", lambda panes: len(panes) == 1)
        with Broker(tmp_path, port):
            stack.move("a", T + 23_000)
            stack.await_results("pops", lambda panes: len(panes) == 2)
            assert [pane["pops"] for pane in stack.results("pops")] == [1, 1]
            assert stack.stop() == {"ingest": 0, "windowing": 0}
