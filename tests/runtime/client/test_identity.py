"""Which member of a group is a living process of one's own id, and which of two gives way."""

import os
import socket
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState as State
from confluent_kafka import KafkaError, KafkaException

from tidemark.errors import ConfigurationError
from tidemark.runtime.client import identity
from tidemark.runtime.config import Config

NOW_MS = 1_800_000_000_000


class Answered:
    """A future with its result."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def result(self) -> Any:
        return self._value


class Moving:
    """A future of a request that came to a broker that is not the coordinator any more."""

    def result(self) -> Any:
        raise KafkaException(KafkaError(KafkaError.NOT_COORDINATOR))


class Cluster:
    """An admin client of a cluster with one group; brokers list it where its state is asked for."""

    def __init__(self, *clients: str, state: State = State.STABLE) -> None:
        members = [SimpleNamespace(client_id=client) for client in clients]
        self._group = SimpleNamespace(group_id="g", members=members, state=state)
        self.moves = 0

    def list_consumer_groups(
        self, states: Collection[State] | None = None, **_: object
    ) -> Answered:
        named = self._group.state in (states or ()) and self._group.state != State.UNKNOWN
        return Answered(SimpleNamespace(valid=[self._group] if states is None or named else []))

    def describe_consumer_groups(
        self, names: list[str], **_: object
    ) -> dict[str, Answered | Moving]:
        if self.moves:
            self.moves -= 1
            return {"g": Moving()}
        return {"g": Answered(self._group)}


def took_over(cluster: Any) -> int:
    waits: list[str] = []
    config = Config(client_properties={"session.timeout.ms": "0"})
    return identity.give_way(config, cluster, "g", "g.0", NOW_MS, waits.append)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(identity, "_MARGIN_S", 0.0)
    monkeypatch.setattr(identity, "_PAUSE_S", 0.01)


@pytest.mark.parametrize(
    "others",
    [
        (),
        ("g.1@0@elsewhere@7",),
        ("rdkafka",),
        (f"g.0@0@{socket.gethostname()}@{os.getpid()}",),  # a container's first, started again
        (f"g.0@{NOW_MS}@{socket.gethostname()}@{2**22 + 1}",),  # no process has that number
    ],
)
def test_the_only_living_one_takes_nothing_over(others):
    assert took_over(Cluster(*others)) == 0


def test_a_coordinator_that_changes_hides_no_process():
    cluster = Cluster("g.0@0@elsewhere@7")
    cluster.moves = 2
    assert took_over(cluster) == NOW_MS


def test_the_first_that_comes_after_another_takes_over():
    assert took_over(Cluster("g.0@0@elsewhere@7")) == NOW_MS
    assert took_over(Cluster(f"g.0@{NOW_MS - 60_001}@elsewhere@7")) == NOW_MS


def test_one_that_finds_another_which_just_took_over_gives_way():
    with pytest.raises(ConfigurationError, match=r"another process uses id g\.0"):
        took_over(Cluster(f"g.0@{NOW_MS - 1_000}@elsewhere@7"))


def test_a_group_that_moves_its_partitions_in_a_state_of_its_brokers_alone_is_looked_at():
    with pytest.raises(ConfigurationError, match=r"another process uses id g\.0"):
        took_over(Cluster(f"g.0@{NOW_MS - 1_000}@elsewhere@7", state=State.UNKNOWN))


def test_a_group_without_members_is_not_described():
    assert took_over(Cluster("g.0@0@elsewhere@7", state=State.EMPTY)) == 0


def test_a_process_tells_where_it_is():
    name = identity.client_id("g.0", 5)
    assert name == f"g.0@5@{socket.gethostname()}@{os.getpid()}"
