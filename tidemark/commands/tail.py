"""``tidemark tail``: prints the committed records of a topic as they arrive."""

from typing import BinaryIO

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

from tidemark.runtime.client import clients
from tidemark.runtime.client.broker_probe import require_broker
from tidemark.runtime.client.topics import require
from tidemark.runtime.config import Config

_BATCH = 1_000
_REFRESH_S = 0.2


def follow(topic: str, config: Config, out: BinaryIO, *, from_beginning: bool) -> None:
    """Print key, tab, value of each committed record of all partitions, until interrupted.

    Raises:
        ConfigurationError: the topic does not exist.
    """
    count = require(require_broker(config), [topic])[topic]
    start = OFFSET_BEGINNING if from_beginning else OFFSET_END
    consumer = clients.plain_consumer(config)
    try:
        consumer.assign([TopicPartition(topic, number, start) for number in range(count)])
        while True:
            for message in clients.records(consumer.consume(_BATCH, _REFRESH_S)):
                out.write((message.key() or b"") + b"\t" + (message.value() or b"") + b"\n")
            out.flush()
    finally:
        consumer.close()
