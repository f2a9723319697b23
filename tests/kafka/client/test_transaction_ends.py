"""The files of a real broker, as the chaos runs read them to prove that it has lost an end."""

from confluent_kafka import Producer

from tests.chaos.lost_ends import batches_of, lost_ends
from tidemark.embedded.broker import Broker
from tidemark.plan.topics import Topic
from tidemark.runtime.client import clients, topics
from tidemark.runtime.config import Config


def test_the_files_of_a_broker_are_understood(tmp_path):
    with Broker(tmp_path) as broker:
        config = Config(bootstrap_servers=broker.address)
        topics.ensure(clients.admin(config), [Topic("t.out", 1, {})], -1)
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
