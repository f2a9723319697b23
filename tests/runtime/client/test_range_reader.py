"""Reading to an uncommitted end: patient with open transactions, but not for ever."""

import time

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.runtime.client import range_reader as reading
from tidemark.runtime.client.clients import records
from tidemark.runtime.client.range_reader import RangeReader
from tidemark.runtime.config import Config

AT = Partition("game.pops.changelog", 3)


class Record:
    def __init__(self, offset):
        self._offset = offset

    def error(self):
        return None

    def topic(self):
        return AT.topic

    def partition(self):
        return AT.number

    def offset(self):
        return self._offset


class Queue:
    """A consumer where some records have come; it must not be asked to wait for more than one."""

    def __init__(self, count):
        self.left, self.position_of = [Record(n) for n in range(count)], 0

    def assign(self, partitions):
        self.partitions = partitions

    def consume(self, count, timeout):
        assert count == 1 or timeout == 0
        taken, self.left = self.left[:count], self.left[count:]
        self.position_of += len(taken)
        return taken

    def position(self, partitions):
        return [TopicPartition(*AT, self.position_of)]


class Stuck:
    """A consumer that gets nothing more; ``answers``: whether its broker is there."""

    def __init__(self):
        self.asked = 0

    def assign(self, partitions):
        self.partitions = partitions

    def consume(self, count, timeout):
        return []

    def position(self, partitions):
        return [TopicPartition(*AT, 5)]

    def get_watermark_offsets(self, partition, timeout):
        self.asked += 1
        return 0, 9


@pytest.fixture
def stuck(monkeypatch):
    consumer = Stuck()
    monkeypatch.setattr(reading, "plain_consumer", lambda config, partitions: consumer)
    return consumer


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_records_that_have_come_are_returned_without_a_wait_for_more(monkeypatch):
    monkeypatch.setattr(reading, "plain_consumer", lambda config, partitions: Queue(7))
    reader = RangeReader(Config(), {AT: (0, 6)})
    assert [each.offset() for each in reader.read(60.0, 1)] == [0]
    assert [each.offset() for each in reader.read(60.0, 2)] == [1, 2]
    assert [each.offset() for each in reader.read(60.0)] == [3, 4, 5]
    assert reader.left == 0
    assert reader.read(60.0) == []


def test_an_open_transaction_is_waited_for_as_long_as_it_may_live(stuck, clock, caplog):
    reader = RangeReader(Config(transaction_timeout_ms=30_000), {AT: (0, 9)})
    for clock[0] in range(0, 150, 10):
        assert reader.read(0) == []
    assert reader.left == 4
    assert "waiting for an open transaction" in caplog.text
    assert stuck.asked == 0


def test_a_transaction_older_than_any_may_be_stops_the_restore(stuck, clock):
    reader = RangeReader(Config(transaction_timeout_ms=30_000), {AT: (0, 9)})
    reader.read(0)
    clock[0] = 151.0
    with pytest.raises(StateError, match=r"game\.pops\.changelog.*find-hanging"):
        reader.read(0)
    assert stuck.asked == 1


def test_a_missing_right_to_the_group_is_no_record_and_hinders_no_reading():
    no_group, no_topic = (
        Message(error=KafkaError(code), value=b"denied")
        for code in (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    )
    record = Message(topic=AT.topic, value=b"{}")
    assert list(records([no_group, record])) == [record]
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        list(records([record, no_topic]))
