"""Copies a topic at a steady rate, as live producers would send it; a process of its own.

python -m bench.replay.pace BROKER FROM TO RATE: records keep their partitions, which take turns.
"""

import sys
import time
from itertools import chain, zip_longest

from confluent_kafka import Consumer, Producer, TopicPartition

from tidemark.runtime.client import clients
from tidemark.runtime.config import Config

_STEP_S = 0.005


def main() -> None:
    """Read all records, then produce them at the rate."""
    broker, source, target, rate = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    consumer = clients.plain_consumer(Config(bootstrap_servers=broker))
    count = len(consumer.list_topics(source, timeout=30).topics[source].partitions)
    read = [_values(consumer, TopicPartition(source, n, 0)) for n in range(count)]
    consumer.close()
    turns = chain.from_iterable(enumerate(turn) for turn in zip_longest(*read))
    records = [(number, value) for number, value in turns if value is not None]
    producer = Producer({"bootstrap.servers": broker, "enable.idempotence": True, "linger.ms": 5})
    begun_s, sent = time.monotonic(), 0
    while sent < len(records):
        due = min(len(records), int((time.monotonic() - begun_s) * rate))
        for number, value in records[sent:due]:
            producer.produce(target, value, partition=number)
        sent = due
        producer.poll(0)
        time.sleep(_STEP_S)
    assert producer.flush(60) == 0, "records could not be sent"


def _values(consumer: Consumer, at: TopicPartition) -> list[bytes]:
    _, end = consumer.get_watermark_offsets(at, timeout=30)
    consumer.assign([at])
    values: list[bytes] = []
    while len(values) < end:
        values += [message.value() or b"" for message in consumer.consume(10_000, 1.0)]
    return values


if __name__ == "__main__":
    main()
