"""What a member makes of a client that calls back in the midst of reading."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Message, TopicPartition

from tidemark.runtime.group import EARLIEST, Member, Partition, PartitionsLostError, Start


class Reader:
    """A consumer that reads as told, and has then revoked partitions in the midst of a batch."""

    def __init__(self, messages: Sequence[Message], during: Callable[["Reader"], None]) -> None:
        self.on_revoke: Callable[[Reader, list[TopicPartition]], None] | None = None
        self.messages, self.during = list(messages), during

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        self.on_revoke, self._on_assign = callbacks["on_revoke"], callbacks["on_assign"]

    def assign(self, number: int) -> None:
        self._on_assign(self, [TopicPartition("t", number)])

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [TopicPartition(p.topic, p.partition, 7) for p in partitions]

    def incremental_assign(self, partitions: list[TopicPartition]) -> None: ...

    def consume(self, count: int, timeout_s: float) -> list[Message]:
        self.during(self)
        return self.messages

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        ends = {(m.topic(), m.partition()): m.offset() + 1 for m in self.messages}
        return [
            TopicPartition(p.topic, p.partition, ends[p.topic, p.partition]) for p in partitions
        ]

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None: ...


class Owner:
    """An owner that notes what it must forget."""

    def __init__(self) -> None:
        self.gone: list[Partition] = []

    def settle(self) -> None: ...

    def starting(self, starts: Sequence[Start]) -> Sequence[Start]:
        return starts

    def assigned(self, starts: Sequence[Start]) -> None: ...

    def dropped(self, partitions: Sequence[Partition]) -> None:
        self.gone += partitions

    def waiting(self, reason: str) -> None: ...


def messages(*places: tuple[int, int]) -> list[Message]:
    return [Message(topic="t", partition=n, offset=offset, value=b"x") for n, offset in places]


def places(taken: Sequence[Message]) -> list[tuple[int | None, int | None]]:
    return [(message.partition(), message.offset()) for message in taken]


MESSAGES = messages((0, 7), (1, 3), (0, 8))


def revoke_first(reader: Reader) -> None:
    assert reader.on_revoke is not None
    reader.on_revoke(reader, [TopicPartition("t", 0)])


class Admin:
    """An admin client that knows the ends of all partitions."""

    def list_offsets(self, asked: dict[TopicPartition, Any], **_: Any) -> dict[Any, Any]:
        return {partition: Answer(spec) for partition, spec in asked.items()}


class Answer:
    """The beginning of a partition, or its end."""

    def __init__(self, spec: Any) -> None:
        self.offset = 0 if spec is EARLIEST else 100

    def result(self) -> "Answer":
        return self


def joined(during: Callable[[Reader], None]) -> tuple[Member, Owner]:
    owner = Owner()
    member = Member(Reader(MESSAGES, during), Admin(), owner)
    member.join(["t"])
    member.positions.update({Partition("t", 0): 7, Partition("t", 1): 3})
    return member, owner


def test_messages_of_a_partition_that_was_revoked_meanwhile_are_left_to_its_next_owner():
    member, owner = joined(revoke_first)

    assert places(member.consume(10, 0.1)) == [(1, 3)]
    assert owner.gone == [Partition("t", 0)]
    assert member.positions == {Partition("t", 1): 4}


def test_what_the_client_had_not_dropped_by_the_next_call_is_left_out_too():
    member, _ = joined(lambda reader: None)
    revoke_first(member.consumer)

    assert places(member.consume(10, 0.1)) == [(1, 3)]
    member.consumer.messages = messages((0, 9), (1, 4))
    assert places(member.consume(10, 0.1)) == [(1, 4)]


def test_a_partition_that_comes_back_is_read_on():
    member, _ = joined(lambda reader: None)
    revoke_first(member.consumer)
    member.positions[Partition("t", 0)] = 7

    assert member.consume(10, 0.1) == MESSAGES


def test_one_that_comes_back_while_a_batch_is_read_ends_the_process():
    def revoke_and_assign(reader: Reader) -> None:
        revoke_first(reader)
        reader.assign(0)

    member, _ = joined(revoke_and_assign)

    with pytest.raises(PartitionsLostError, match=r"t/0 was revoked and given again"):
        member.consume(10, 0.1)


def test_without_a_rebalance_all_messages_are_taken():
    member, _ = joined(lambda reader: None)

    assert member.consume(10, 0.1) == MESSAGES
    assert member.positions == {Partition("t", 0): 9, Partition("t", 1): 4}


def test_what_a_kept_partition_gives_again_after_a_rebalance_is_left_out():
    """The client had taken (1, 3) when the group changed, and fetches from there again."""
    member, _ = joined(revoke_first)
    member.consumer.messages = messages((1, 3))
    assert places(member.consume(10, 0.1)) == [(1, 3)]
    member.consumer.during = lambda reader: None
    member.consumer.messages = messages((1, 3), (1, 4), (1, 6))
    assert places(member.consume(10, 0.1)) == [(1, 4), (1, 6)]


def test_it_is_left_out_within_one_batch_too():
    member, _ = joined(revoke_first)
    member.consumer.messages = messages((1, 3), (1, 4), (1, 3), (1, 4), (1, 5))
    assert places(member.consume(10, 0.1)) == [(1, 3), (1, 4), (1, 5)]
