"""A member of a group, around a client that calls back while it closes."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import TopicPartition

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
