"""A member of a group, around a client that calls back while it closes."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tidemark.partition import Partition
from tidemark.runtime.client.consumer import Member, Start

Callback = Callable[[Any, list[TopicPartition]], None]
OWNED = [TopicPartition("t", 0)]


class Closing:
    """A client that takes back its partitions in ``close``; it then has no membership."""

    def __init__(self, call: str) -> None:
        self._call = call
        self._callbacks: dict[str, Callback] = {}
        self.is_closing = False

    def subscribe(self, _topics: Sequence[str], **callbacks: Callback) -> None:
        self._callbacks = callbacks

    def consumer_group_metadata(self) -> bytes:
        if self.is_closing:
            raise RuntimeError("Consumer group metadata not available")
        return b""

    def close(self) -> None:
        self.is_closing = True
        self._callbacks[self._call](self, OWNED)

    def incremental_unassign(self, partitions: Sequence[TopicPartition]) -> None:
        assert partitions == OWNED


class Working:
    """Work with something to commit each time, as a service without transactions has it."""

    def __init__(self, consumer: Closing) -> None:
        self._consumer = consumer
        self.calls: list[str] = []

    def starting(self, starts: Sequence[Start]) -> Sequence[Start]:
        return starts

    def settle(self) -> None:
        self._consumer.consumer_group_metadata()
        self.calls.append("settled")

    def assigned(self, starts: Sequence[Start]) -> None:
        raise AssertionError(starts)

    def dropped(self, partitions: Sequence[Partition]) -> None:
        self.calls += map(str, partitions)

    def waiting(self, reason: str) -> None:
        raise AssertionError(reason)


@pytest.mark.parametrize("call", ["on_revoke", "on_lost"])
def test_the_last_commit_comes_before_the_client_closes(call):
    consumer = Closing(call)
    work = Working(consumer)
    member = Member(consumer, None, work)  # type: ignore[arg-type]
    member.join(["t"])
    member.leave()
    assert work.calls == ["settled", "t/0"]


class Asking:
    """A client that asks for committed offsets while the coordinator of its group changes."""

    def __init__(self, *errors: int) -> None:
        self._errors = list(errors)

    def committed(self, partitions: list[TopicPartition], **_: object) -> list[TopicPartition]:
        if self._errors:
            raise KafkaException(KafkaError(self._errors.pop(0)))
        return [TopicPartition(each.topic, each.partition, 7) for each in partitions]


class Waiting(Working):
    """Work that keeps why its member waits."""

    def waiting(self, reason: str) -> None:
        self.calls.append(reason)


def test_a_member_asks_again_for_offsets_while_transactions_end_and_coordinators_change():
    consumer = Asking(KafkaError.NOT_COORDINATOR, KafkaError._TIMED_OUT)
    work = Waiting(Closing("on_revoke"))
    member = Member(consumer, None, work)  # type: ignore[arg-type]
    (found,) = member._committed(consumer, OWNED)  # type: ignore[arg-type]
    assert found.offset == 7
    assert work.calls == [
        "waiting for the coordinator of the group",
        "waiting for a transaction of the previous owner to end",
    ]


def test_other_errors_of_committed_offsets_end_the_process():
    consumer = Asking(KafkaError.GROUP_AUTHORIZATION_FAILED)
    member = Member(consumer, None, Waiting(Closing("on_revoke")))  # type: ignore[arg-type]
    with pytest.raises(KafkaException):
        member._committed(consumer, OWNED)  # type: ignore[arg-type]
