import struct
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tidemark.runtime.client.commit import FlushFirst
from tidemark.runtime.client.producer import Failures
from tidemark.runtime.client.transaction import Transaction


class SmallProducer:
    """A producer with room for two records between polls."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.calls: list[str] = []
        self.room = 2

    def produce(self, topic: str, value: bytes, key: bytes, partition: int) -> None:
        if not self.room:
            raise BufferError
        self.room -= 1
        self.records.append((topic, partition, key, value))

    def poll(self, timeout_s: float) -> None:
        self.room = 2

    def init_transactions(self, timeout_s: float) -> None:
        self.calls.append("init")
        if self.calls.count("init") == 1:
            raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT, retriable=True))

    def begin_transaction(self) -> None:
        self.calls.append("begin")


def test_a_full_buffer_delays_records_but_neither_drops_nor_doubles_nor_reorders_them():
    producer = SmallProducer()
    transaction = Transaction(producer, lambda _reason: None, 30_000)  # type: ignore[arg-type]
    keys = [b"k%d" % n for n in range(7)]
    values = [b"v%d" % n for n in range(7)]

    transaction.write("out", 1, keys, values)

    assert producer.records == [("out", 1, *pair) for pair in zip(keys, values, strict=True)]


def test_a_transaction_begins_with_the_first_output():
    producer = SmallProducer()
    transaction = Transaction(producer, lambda _reason: None, 30_000)  # type: ignore[arg-type]
    transaction.write("out", 0, [], [])
    assert not transaction.is_open

    transaction.write("out", 0, [None], [b"v"])
    transaction.write("out", 0, [None], [b"v"])
    assert producer.calls == ["init", "init", "begin"]


def test_at_least_once_too_a_commit_is_due_after_much_output():
    producer: Any = SmallProducer()
    outbox = FlushFirst(producer, Failures(), lambda _reason: None, most_bytes=1_000)
    outbox.write("out", 0, [None], [b"v" * 500])
    assert not outbox.is_full
    outbox.write("out", 0, [None], [b"v" * 500])
    assert outbox.is_full


@pytest.mark.parametrize("offsets", [[], "invalid"])
def test_a_commit_without_real_offsets_is_refused(offsets):
    wanted = [TopicPartition("raw", 0, -1001)] if offsets else []
    with pytest.raises(AssertionError):
        Transaction(SmallProducer(), lambda _reason: None, 30_000).commit(wanted, None)  # type: ignore[arg-type]


class Spoilt(SmallProducer):
    """A producer whose transaction failed for a record while the offsets were on their way."""

    failed_for = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, txn_requires_abort=True)

    def send_offsets_to_transaction(self, *_: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._STATE))

    def begin_transaction(self) -> None:
        super().begin_transaction()
        if self.calls.count("begin") > 1:
            raise KafkaException(self.failed_for)


def test_a_commit_that_meets_a_failed_transaction_says_what_it_failed_for():
    class Member:
        def consumer_group_metadata(self) -> bytes:
            return b"CGMDv2:" + struct.pack("=i", 1) + b"group\0member\0\1"

    transaction = Transaction(Spoilt(), lambda _reason: None, 30_000)  # type: ignore[arg-type]
    transaction.write("out", 0, [None], [b"v"])
    with pytest.raises(KafkaException) as failed:
        transaction.commit([TopicPartition("raw", 0, 1)], Member())  # type: ignore[arg-type]
    assert failed.value.args[0].name() == "MSG_SIZE_TOO_LARGE"
