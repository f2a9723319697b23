"""Measure what a record costs on its way in and out of the Kafka client, in pairs of both ways.

python -m bench.messages [--n 400000] [--rounds 3]

Figures are µs of CPU a record: of the thread that calls, and of all threads of the process.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tidemark.embedded.broker import Broker
from tidemark.partition import Partition
from tidemark.plan.topics import Topic
from tidemark.runtime.client import clients, topics
from tidemark.runtime.client.batches import by_partition, record_batch
from tidemark.runtime.client.consumer import Member, Start
from tidemark.runtime.client.transaction import Transaction
from tidemark.runtime.config import Config
from tidemark.runtime.memory import taken_bytes
from tidemark.runtime.messages.native_reader import reader_of
from tidemark.runtime.messages.native_sender import native_sender
from tidemark.runtime.messages.received import joined
from tidemark.runtime.service.batch_sizer import BatchRoom

_PARTITIONS, _BATCH, _WRITE = 4, 20_000, 5_000
_VALUE_BYTES = 200


class _Idle:
    """An owner that keeps and commits nothing."""

    def starting(self, starts: Sequence[Start]) -> Sequence[Start]:
        """Return the same starts."""
        return starts

    def settle(self) -> None:
        """Do nothing."""

    def assigned(self, starts: Sequence[Start]) -> None:
        """Do nothing."""

    def dropped(self, partitions: Sequence[Partition]) -> None:
        """Do nothing."""

    def waiting(self, reason: str) -> None:
        """Do nothing."""


def main() -> None:
    """Write and read the same number of records both ways, round by round."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with TemporaryDirectory() as folder, Broker(Path(folder)) as broker:
        config = Config(bootstrap_servers=broker.address)
        for number in range(asked.rounds):
            for way in ("auto", "off"):
                own = config.model_copy(update={"native": way})
                topic = f"records.{number}.{way}"
                admin = clients.admin(config)
                topics.ensure(admin, [Topic(topic, _PARTITIONS, {})], -1)
                with _measured(f"{way:>5} write", lambda: asked.n):
                    _write(own, topic, asked.n)
                _read(own, topic, asked.n)


def _write(config: Config, topic: str, count: int) -> None:
    producer = clients.transactional_producer(config, topic)
    transaction = Transaction(
        producer,
        lambda _reason: None,
        config.transaction_timeout_ms,
        of_member=False,
        own_send=native_sender(config, producer),
    )
    for first in range(0, count, _WRITE):
        numbers = range(first, min(first + _WRITE, count))
        keys = [b"key %d" % number for number in numbers]
        values = [(b"value %d " % number).ljust(_VALUE_BYTES, b"x") for number in numbers]
        transaction.write(topic, first // _WRITE % _PARTITIONS, keys, values)
    producer.commit_transaction(60)


def _read(config: Config, topic: str, count: int) -> None:
    consumer = clients.group_consumer(config, topic, topic, partitions=_PARTITIONS)
    member = Member(
        consumer, clients.admin(config), _Idle(), reader=reader_of(config, consumer, topic)
    )
    member.join([topic])
    read = 0
    while not read:
        read = len(member.consume(1, 0.1))
    with _measured(f"{config.native:>5} read", lambda: read):
        while read < count:
            read += _batch(member, config, topic)
    member.leave()


def _batch(member: Member, config: Config, topic: str) -> int:
    """Read a batch as a service does; return its number of records."""
    room = BatchRoom(_BATCH, taken_bytes(config.memory_bytes))
    parts = [member.consume(1, 0.1)]
    room.add(parts[0])
    while count := room.messages:
        parts.append(member.consume(count, 0.0))
        room.add(parts[-1])
        if len(parts[-1]) < count:
            break
    messages = joined(part for part in parts if part)
    for at, some in by_partition(messages, [topic]).items() if messages else ():
        record_batch(at, some, 0)
    return len(messages)


@contextmanager
def _measured(what: str, count: Callable[[], int]) -> Iterator[None]:
    thread_s, process_s = time.thread_time(), time.process_time()
    yield
    own, all_ = time.thread_time() - thread_s, time.process_time() - process_s
    print(f"{what}: {own / count() * 1e6:.2f} µs, all threads {all_ / count() * 1e6:.2f} µs")


if __name__ == "__main__":
    main()
