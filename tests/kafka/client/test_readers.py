"""Both readers of a consumer give the same messages, through rebalances, errors and odd sizes."""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.patience import PATIENCE_S
from tidemark.partition import Partition
from tidemark.plan.topics import MAX_MESSAGE_BYTES, Topic
from tidemark.runtime.client import clients, topics
from tidemark.runtime.client.batches import by_partition, record_batch
from tidemark.runtime.client.consumer import Member, PartitionsLostError, Start
from tidemark.runtime.config import Config
from tidemark.runtime.messages.native_reader import NativeReader, reader_of
from tidemark.runtime.messages.reader import ObjectReader
from tidemark.runtime.messages.received import ReceivedMessage

SIZES = (0, 1, 7, 200, 4_095, 65_536, 1_000_000)


class Owner:
    """Keeps what a member has read, as work with a commit does."""

    def __init__(self) -> None:
        self.in_hand: dict[Partition, list[int]] = defaultdict(list)
        self.settled: dict[Partition, list[int]] = defaultdict(list)
        self.owned: set[Partition] = set()
        self.member: Member | None = None

    def starting(self, starts: Sequence[Start]) -> Sequence[Start]:
        return starts

    def settle(self) -> None:
        assert self.member is not None
        for at, taken in self.in_hand.items():
            self.settled[at] += taken
        self.in_hand.clear()
        ends = [
            TopicPartition(*at, end)
            for at, end in self.member.positions.items()
            if at in self.owned
        ]
        if ends:
            self.member.consumer.commit(offsets=ends, asynchronous=False)

    def assigned(self, starts: Sequence[Start]) -> None:
        self.owned.update(start.partition for start in starts)

    def dropped(self, partitions: Sequence[Partition]) -> None:
        self.owned.difference_update(partitions)

    def waiting(self, reason: str) -> None: ...

    def take(self, messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            at = Partition(message.topic() or "", message.partition() or 0)
            self.in_hand[at].append(message.offset() or 0)


class Idle(Owner):
    """Commits nothing."""

    def settle(self) -> None: ...


def member_of(
    config: Config, group: str, name: str, way: str, owner: Any, **options: Any
) -> Member:
    consumer = clients.group_consumer(config, group, name, partitions=4)
    wanted = config.model_copy(update={"native": "auto" if way == "native" else "off"})
    found = reader_of(wanted, consumer, name)
    assert isinstance(found, NativeReader if way == "native" else ObjectReader)
    member = Member(consumer, clients.admin(config), owner, reader=found, **options)
    owner.member = member
    return member


def producer(config: Config) -> Producer:
    return Producer(
        {
            "bootstrap.servers": config.bootstrap_servers,
            "message.max.bytes": MAX_MESSAGE_BYTES,
            "enable.idempotence": True,  # otherwise a retry may change the order
        }
    )


def until(found: Callable[[], object]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not found():
        assert time.monotonic() < end_s, "it takes too long"


def read_all(member: Member, count: int) -> list[ReceivedMessage]:
    messages: list[ReceivedMessage] = []

    def step() -> bool:
        messages.extend(member.consume(100, 0.2))
        return len(messages) >= count

    until(step)
    return messages


def test_every_part_of_a_message_arrives(config, topic, way):
    sent: list[tuple[bytes | None, bytes | None, Any]] = [
        (key, None if size is None else bytes([number % 251]) * size, headers)
        for number, (key, size, headers) in enumerate(
            (key, size, headers)
            for size in (*SIZES, None)
            for key in (None, b"", b"k", b"\x00\xff" * 300)
            for headers in (None, [("a", b"1"), ("a", None), ("é", b"")])
        )
    ]
    client = producer(config)
    for key, value, headers in sent:
        client.produce(topic, value, key, 1, headers=headers, timestamp=1_234_567_890_123)
    client.flush(30)
    member = member_of(config, topic, "parts", way, Owner())
    member.join([topic])
    messages = read_all(member, len(sent))
    member.leave()

    assert [(m.key(), m.value(), m.headers()) for m in messages] == sent
    assert [m.offset() for m in messages] == list(range(len(sent)))
    assert {m.timestamp() for m in messages} == {(1, 1_234_567_890_123)}
    assert [len(m) for m in messages] == [len(value or b"") for _, value, _ in sent]
    assert {(m.topic(), m.partition()) for m in messages} == {(topic, 1)}


def test_batches_have_the_columns_of_their_messages(config, topic, way):
    client = producer(config)
    for number in range(2_000):
        value = None if number % 7 == 0 else b"%d" % number
        client.produce(topic, value, b"k%d" % number, number % 4, timestamp=1_000 + number)
    client.flush(30)
    member = member_of(config, topic, "columns", way, Owner())
    member.join([topic])
    found: dict[int, int] = {}

    def step() -> bool:
        messages = member.consume(137, 0.2)
        for at, some in by_partition(messages, [topic]).items() if messages else ():
            batch = record_batch(at, some, 5, shift=3)
            assert len(batch) == len(some) == len(batch.keys)
            stamps = batch.timestamp_column().tolist()
            for index, offset in enumerate(batch.offsets.tolist()):
                number = offset * 4 + at.number
                assert batch.values[index] == (None if number % 7 == 0 else b"%d" % number)
                assert batch.keys[index] == b"k%d" % number
                assert batch.headers[index] is None
                assert stamps[index] == batch.timestamps[index] == 1_000 + number
                found[number] = found.get(number, 0) + 1
            assert batch.next_offset == batch.offsets[-1] + 1
            parts = list(batch.pieces(64))
            assert [v for part in parts for v in part.values] == batch.values
            assert [k for part in parts for k in part.keys] == list(batch.keys)
        return len(found) == 2_000

    until(step)
    member.leave()
    assert set(found.values()) == {1}


def test_a_rebalance_between_reads_loses_and_repeats_nothing(config, topic, way):
    """Members come and go while records are read; each record is settled by one of them."""
    client = producer(config)
    owners = [Owner() for _ in range(3)]
    members = [
        member_of(config, topic, f"m{number}", way, owner) for number, owner in enumerate(owners)
    ]
    total = 12_000
    for number in range(total):
        client.produce(topic, b"x" * (number % 300), None, number % 4)
        client.poll(0)

    def settled() -> int:
        return sum(len(set(taken)) for owner in owners for taken in owner.settled.values())

    def turn(*numbers: int) -> bool:
        for number in numbers:
            owners[number].take(members[number].consume(50, 0.01))
        return True

    members[0].join([topic])
    until(lambda: turn(0) and owners[0].in_hand)
    members[1].join([topic])
    until(lambda: turn(0, 1) and owners[1].owned)
    for _ in range(20):
        turn(0, 1)
    members[2].join([topic])
    until(lambda: turn(0, 1, 2) and owners[2].owned)
    members[0].leave()
    client.flush(30)
    until(lambda: turn(1, 2) and all_read(members[1:], total))
    for member in members[1:]:
        member.leave()
    every: dict[Partition, list[int]] = defaultdict(list)
    for owner in owners:
        for at, taken in owner.settled.items():
            every[at] += taken
    assert settled() == total
    assert {at: sorted(taken) for at, taken in every.items()} == {
        Partition(topic, number): list(range(total // 4)) for number in range(4)
    }


def all_read(members: Sequence[Member], total: int) -> bool:
    ends = {at: end for member in members for at, end in member.positions.items()}
    return len(ends) == 4 and sum(ends.values()) == total


def test_a_member_that_moves_reads_from_there(config, topic, way):
    client = producer(config)
    for number in range(500):
        client.produce(topic, b"%d" % number, None, 0)
    client.flush(30)
    member = member_of(config, topic, "moves", way, Owner())
    member.join([topic])
    read_all(member, 40)
    for first in range(30):  # the client may stop to read the old place after it knows the new one
        member.move([Start(Partition(topic, 0), first, None)])
        assert read_all(member, 1)[0].offset() == first
    member.move([Start(Partition(topic, 0), 7, None)])
    again = read_all(member, 493)
    member.leave()
    assert [m.offset() for m in again] == list(range(7, 500))


def test_paused_partitions_are_silent(config, topic, way):
    client = producer(config)
    for number in range(800):
        client.produce(topic, b"v", None, number % 2)
    client.flush(30)
    member = member_of(config, topic, "pauses", way, Owner())
    member.join([topic])
    first = [*read_all(member, 1)]
    member.pause([Partition(topic, 0)])
    left = 400 - sum(m.partition() == 1 for m in first)
    while left:
        some = member.consume(100, 0.2)
        assert {m.partition() for m in some} <= {1}
        left -= len(some)
    member.resume([Partition(topic, 0)])
    rest = 400 - sum(m.partition() == 0 for m in first)
    assert {m.partition() for m in read_all(member, rest)} == {0}
    member.leave()


def test_positions_pass_what_only_the_broker_sees(config, topic, way):
    """Aborted records and markers of transactions are no messages, but positions pass them."""
    writer = clients.transactional_producer(config, f"{topic}.writer")
    writer.init_transactions(30)
    for number in range(6):
        writer.begin_transaction()
        writer.produce(topic, b"%d" % number, None, 2)
        writer.flush(30)
        writer.abort_transaction(30) if number % 2 else writer.commit_transaction(30)
    member = member_of(config, topic, "passes", way, Owner())
    member.join([topic])
    values = [m.value() for m in read_all(member, 3)]

    def passed() -> bool:
        member.consume(10, 0.1)
        member.refresh_positions()
        return member.positions[Partition(topic, 2)] == 12

    until(passed)
    member.leave()
    assert values == [b"0", b"2", b"4"]


def test_a_topic_that_is_gone_is_an_error_unless_it_may_go(config, topic, way):
    def deleted(may_go: bool) -> Exception | None:
        name = f"{topic}.{may_go}"
        admin = clients.admin(config)
        topics.ensure(admin, [Topic(name, 1, {})], -1)
        member = member_of(config, name, name, way, Idle(), may_go=lambda _: may_go)
        member.join([name])
        until(lambda: member.consume(1, 0.1) or member.positions)
        for done in admin.delete_topics([name]).values():
            done.result()
        end_s = time.monotonic() + 8
        try:
            while time.monotonic() < end_s:
                member.consume(10, 0.1)
        except (KafkaException, PartitionsLostError) as error:
            return error
        finally:
            member.leave()
        return None

    assert deleted(may_go=True) is None
    assert deleted(may_go=False) is not None


def test_a_reader_of_another_client_is_refused(config):
    """The handle counts only if the name of its client is the expected one."""
    consumer: Consumer = clients.group_consumer(config, "named", "named")
    assert isinstance(reader_of(config, consumer, "other"), ObjectReader)
    consumer.close()
