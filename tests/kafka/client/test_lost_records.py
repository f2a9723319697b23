"""Offsets that fit no topic any more stop a service, which says what to do, and reads nothing."""

import re
from collections.abc import Iterator

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from tests.kafka.support.stack import Stack, move, wait_until
from tidemark.partition import Partition
from tidemark.plan.topics import own_topics
from tidemark.runtime.client import topics
from tidemark.runtime.client.consumer import LATEST, offsets

T = 1_700_000_000_000
SERVICES = ("ingest", "windowing")


@pytest.fixture
def filled(broker: str, request: pytest.FixtureRequest) -> Iterator[Stack]:
    """Yield a stack at rest whose services have read three records."""
    name = re.sub(r"\W+", "-", request.node.name.removeprefix("test_"))
    with Stack(broker, name) as stack:
        stack.produce((0, None, move("a", T + at)) for at in range(3))
        stack.start(*SERVICES)
        wait_until(lambda: stack.figures("windowing").get("rows") == "3", "the rows")
        assert set(stack.stop().values()) == {0}
        yield stack


def input_of(stack: Stack, service: str) -> str:
    return stack.raw if service == "ingest" else stack.plan.logs[0].topic


def stopped_with(stack: Stack, service: str) -> str:
    """Start a service that has to stop; return the one line that says why."""
    stack.start(service)
    assert stack.process(service).wait() == 2
    (line,) = [line for line in stack.log(service).splitlines() if "ERROR" in line]
    assert "tidemark reset" in line
    stack.kill(service)
    return line


def partitions(stack: Stack, topic: str) -> list[Partition]:
    return [Partition(topic, n) for n in range(topics.partition_counts(stack.admin)[topic])]


@pytest.mark.long
@pytest.mark.parametrize("service", SERVICES)
def test_below_the_start(filled, service):
    """Retention has deleted what was not read yet."""
    if service == "ingest":
        filled.move("a", T)
    else:
        fill_log(filled)
    ends = offsets(filled.admin, partitions(filled, input_of(filled, service)), LATEST)
    gone = [TopicPartition(*at, end) for at, end in ends.items()]
    for future in filled.admin.delete_records(gone).values():
        future.result()

    line = stopped_with(filled, service)
    found = re.search(r"(\S+): the committed offset (\d+) is outside of the topic's (\d+) to", line)
    assert found, line
    (at,) = [at for at in ends if str(at) == found[1]]
    assert int(found[2]) < int(found[3]) == ends[at]


def fill_log(stack: Stack) -> None:
    """Let ingest write on, with nobody to read it."""
    stack.produce((0, None, move("a", T)) for _ in range(3))
    stack.start("ingest")
    wait_until(lambda: stack.figures("ingest").get("records") == "3", "the records")
    assert stack.stop("ingest") == {"ingest": 0}


@pytest.mark.parametrize("service", SERVICES)
def test_above_the_end(filled, service):
    """A broker has lost the end of a topic: reading on from its start would count all twice."""
    at = Partition(input_of(filled, service), 0)
    asked = ConsumerGroupTopicPartitions(
        f"{filled.name}.{service}", [TopicPartition(*at, 1_000_000)]
    )
    filled.admin.alter_consumer_group_offsets([asked])[asked.group_id].result()
    end = offsets(filled.admin, [at], LATEST)[at]

    line = stopped_with(filled, service)
    assert f"{at}: the committed offset 1000000 is outside of the topic's 0 to {end}" in line


@pytest.mark.parametrize("kept", [False, True], ids=["offsets_gone", "offsets_kept"])
def test_a_log_made_anew(filled, kept):
    """Its offsets go with it, unless the group was read while the broker forgot the topic."""
    (log,) = {each.topic for each in filled.plan.logs}
    group = f"{filled.name}.windowing"
    asked = ConsumerGroupTopicPartitions(group)
    before = filled.admin.list_consumer_group_offsets([asked])[group].result().topic_partitions
    filled.admin.delete_topics([log])[log].result()
    wait_until(lambda: log not in topics.partition_counts(filled.admin), "deletion")
    topics.ensure(filled.admin, own_topics(filled.plan), -1)
    if kept:
        fill_log(filled)
        again = [TopicPartition(log, tp.partition, 0, tp.metadata) for tp in before]
        asked = ConsumerGroupTopicPartitions(group, again)
        filled.admin.alter_consumer_group_offsets([asked])[group].result()

    line = stopped_with(filled, "windowing")
    assert log in line
    assert ("created again" if kept else "nothing is committed, but") in line
    assert filled.results("pops") == []
