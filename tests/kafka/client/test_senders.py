"""Both ways of a transaction to send records write the same, through full queues and failures."""

import random
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import KafkaException, Producer

from tidemark.partition import Partition
from tidemark.plan.topics import MAX_MESSAGE_BYTES
from tidemark.runtime.client import clients
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.client.transaction import Transaction
from tidemark.runtime.config import Config
from tidemark.runtime.messages.native_sender import native_sender
from tidemark.serde.binary_column import BinaryColumn

SIZES = (0, 1, 7, 200, 4_095, 65_536, 1_000_000)
Bytes = bytes | None


def transaction_of(config: Config, id_: str, way: str) -> tuple[Transaction, Producer]:
    producer = clients.transactional_producer(config, id_)
    found = None
    if way == "native":
        found = native_sender(config, producer)
        assert found is not None
    transaction = Transaction(
        producer, lambda _reason: None, 30_000, of_member=False, own_send=found
    )
    return transaction, producer


def written(config: Config, topic: str, number: int = 0) -> list[tuple[Bytes, Bytes]]:
    admin, at = clients.admin(config), Partition(topic, number)
    begin, end = offsets(admin, [at], EARLIEST)[at], offsets(admin, [at], LATEST)[at]
    return [(m.key(), m.value()) for m in read(config, {at: (begin, end)})]


def drawn(seed: int, count: int) -> list[tuple[Bytes, Bytes]]:
    draw = random.Random(seed)
    small = [None, b"", b"k", b"\x00\xff" * 40]
    return [
        (draw.choice(small), draw.choice([*small, draw.randbytes(draw.randrange(300))]))
        for _ in range(count)
    ]


def columns(records: Sequence[tuple[Bytes, Bytes]]) -> Iterator[BinaryColumn[Bytes]]:
    """Yield keys and values as slices of longer columns."""
    for each in zip(*records, strict=True):
        yield BinaryColumn.of([b"before", *each, b"after"])[1:-1]


def test_every_record_is_written_as_it_is_and_in_order(config, topic, way):
    sizes: list[tuple[Bytes, Bytes]] = [(b"%d" % size, bytes([7]) * size) for size in SIZES]
    counts = (1, 511, 512, 513, 2_000)
    parts = [sizes, *(drawn(seed, count) for seed, count in enumerate(counts))]
    transaction, producer = transaction_of(config, topic, way)
    for part in parts:
        transaction.write(topic, 0, *columns(part))
        keys, values = zip(*part, strict=True)
        transaction.write(topic, 1, keys, values)
    producer.commit_transaction(30)
    wanted = [record for part in parts for record in part]
    assert written(config, topic, 0) == wanted
    assert written(config, topic, 1) == wanted


def test_a_full_queue_delays_records_but_neither_drops_nor_reorders_them(config, topic, way):
    small = config.model_copy(
        update={"client_properties": {"queue.buffering.max.messages": "100", "linger.ms": "1"}}
    )
    records: list[tuple[Bytes, Bytes]] = [(None, b"%d" % number) for number in range(5_000)]
    transaction, producer = transaction_of(small, topic, way)
    transaction.write(topic, 0, *columns(records))
    producer.commit_transaction(30)
    assert written(config, topic) == records


def test_an_abort_leaves_nothing_and_the_next_transaction_goes_on(config, topic, way):
    transaction, producer = transaction_of(config, topic, way)
    transaction.write(topic, 0, *columns(drawn(1, 3_000)))
    transaction.abort()
    transaction.write(topic, 0, *columns(drawn(2, 700)))
    producer.commit_transaction(30)
    assert written(config, topic) == drawn(2, 700)


def test_a_record_that_fits_no_message_is_an_error(config, topic, way):
    transaction, _ = transaction_of(config, topic, way)
    large = b"x" * (MAX_MESSAGE_BYTES + 1)
    with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
        transaction.write(topic, 0, *columns([(None, b"fits"), (None, large)]))
    transaction.abort()
    assert written(config, topic) == []


def test_a_fenced_process_writes_nothing(config, topic, way):
    fenced, producer = transaction_of(config, topic, way)
    fenced.write(topic, 0, *columns(drawn(1, 10)))
    successor, other = transaction_of(config, topic, way)

    def go_on() -> None:
        for seed in range(100):
            fenced.write(topic, 0, *columns(drawn(seed, 100)))
            producer.flush(0.2)

    with pytest.raises(KafkaException, match="FENCED"):
        go_on()
    successor.write(topic, 0, *columns(drawn(3, 5)))
    other.commit_transaction(30)
    assert written(config, topic) == drawn(3, 5)
