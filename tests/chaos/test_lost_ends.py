"""Which logs prove that a broker has lost the end of a transaction."""

from confluent_kafka import Producer

from tests.chaos.lost_ends import Batch, batches_of, lost_ends, unended
from tidemark.embedded.broker import Broker
from tidemark.runtime import clients, topics
from tidemark.runtime.config import Config


def data(offset, producer, epoch):
    return Batch(offset, producer, epoch, is_marker=False)


def marker(offset, producer, epoch):
    return Batch(offset, producer, epoch, is_marker=True)


def test_transactions_that_end_prove_nothing():
    ended = [data(0, 7, 0), data(5, 7, 0), marker(9, 7, 1), data(10, 7, 1), data(12, 8, 0)]
    assert unended([*ended, marker(13, 8, 1), marker(14, 7, 2)]) == []


def test_a_newer_epoch_behind_an_open_transaction_proves_it():
    assert unended([data(0, 7, 0), data(3, 8, 4), data(6, 7, 1), marker(9, 7, 2)]) == [6]


def test_the_files_of_a_broker_are_understood(tmp_path):
    with Broker(tmp_path) as broker:
        config = Config(bootstrap_servers=broker.address)
        topics.ensure(clients.admin(config), [topics.Topic("t.out", 1, {})], -1)
        producer = Producer({"bootstrap.servers": broker.address, "transactional.id": "x"})
        producer.init_transactions(30)
        for ends in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.produce("t.out", b"value")
            producer.flush(30)
            ends(30)
    (file,) = (tmp_path / "data" / "t.out-0").glob("*.log")
    batches = list(batches_of(file.read_bytes()))
    assert [(b.offset, b.is_marker) for b in batches] == [
        (0, False),
        (1, True),
        (2, False),
        (3, True),
    ]
    assert lost_ends(tmp_path / "data", "t.") == []
