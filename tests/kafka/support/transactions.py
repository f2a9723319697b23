"""Transactions that stay open."""

from confluent_kafka import Producer

from tests.kafka.support.stack import Stack


def open_transaction(stack: Stack, topic: str | None = None, partitions: int = 2) -> Producer:
    """Write to partitions of a topic, by default a changelog, and leave the transaction open."""
    producer = Producer(
        {"bootstrap.servers": stack.config.bootstrap_servers, "transactional.id": "holds"}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in range(partitions):
        producer.produce(topic or f"{stack.name}.pops.changelog", b"", b"foreign", partition)
    producer.flush(10)
    return producer
