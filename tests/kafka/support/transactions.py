"""Transactions that stay open."""

from confluent_kafka import Producer

from tests.kafka.support.stack import Stack


def open_transaction(stack: Stack) -> Producer:
    producer = Producer(
        {"bootstrap.servers": stack.config.bootstrap_servers, "transactional.id": "holds"}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in (0, 1):
        producer.produce(f"{stack.name}.pops.changelog", b"", b"foreign", partition)
    producer.flush(10)
    return producer
