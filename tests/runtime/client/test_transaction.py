"""A commit that a rebalancing group refuses is repeated; other refusals end it.

A transaction outside of the services commits all or nothing, and an abort hides no cause.
"""

import struct
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tidemark.errors import InfrastructureError
from tidemark.runtime.client.membership import MembershipLostError
from tidemark.runtime.client.transaction import Transaction, committed

OFFSETS = [TopicPartition("raw", 0, 1)]


class Group:
    """A consumer whose client hears of the generations one by one, a step at each question."""

    def __init__(self, *generations: int, members: tuple[bytes, ...] = (b"m",)) -> None:
        self._heard = list(zip(generations, members * len(generations), strict=False))

    def consumer_group_metadata(self) -> bytes:
        generation, member = self._heard[0]
        if len(self._heard) > 1:
            del self._heard[0]
        return b"CGMDv2:" + struct.pack("=i", generation) + b"group\0" + member + b"\0\1"


class Broker:
    """A producer whose broker takes offsets of one generation only."""

    def __init__(self, generation: int, refusal: int = KafkaError.ILLEGAL_GENERATION) -> None:
        self._generation, self._refusal = generation, refusal
        self._pending: list[bytes] = []
        self.committed: list[bytes] = []
        self.aborts = 0

    def init_transactions(self, _timeout_s: float) -> None: ...

    def begin_transaction(self) -> None:
        self._pending = []

    def produce(self, _topic: str, value: bytes, _key: bytes, _partition: int) -> None:
        self._pending.append(value)

    def poll(self, _timeout_s: float) -> None: ...

    def send_offsets_to_transaction(self, _: Any, metadata: bytes, _timeout_s: float) -> None:
        if struct.unpack_from("=i", metadata, 7)[0] != self._generation:
            raise KafkaException(KafkaError(self._refusal, txn_requires_abort=True))

    def commit_transaction(self, _timeout_s: float) -> None:
        self.committed += self._pending

    def abort_transaction(self, _timeout_s: float) -> None:
        self.aborts += 1


def written(broker: Broker, *, of_member: bool = True) -> Transaction:
    transaction = Transaction(broker, lambda _reason: None, 30_000, of_member=of_member)  # type: ignore[arg-type]
    for value in (b"a", b"b"):
        transaction.write("out", 0, [None], [value])
    return transaction


@pytest.mark.parametrize(
    "refusal",
    [
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.REBALANCE_IN_PROGRESS,
    ],
)
def test_a_commit_of_an_old_generation_is_repeated_with_the_new_one(refusal):  # B6
    broker = Broker(7, refusal)
    transaction = written(broker)
    transaction.commit(OFFSETS, Group(5, 5, 6, 6, 7))  # type: ignore[arg-type]
    assert broker.committed == [b"a", b"b"]
    assert broker.aborts == 2
    assert not transaction.is_open
    transaction.write("out", 0, [None], [b"c"])
    transaction.commit(OFFSETS, Group(7))  # type: ignore[arg-type]
    assert broker.committed == [b"a", b"b", b"c"]


class Gap(Broker):
    """A producer whose broker misses the records that an abort has dropped, some times."""

    def __init__(self, generation: int, gaps: int) -> None:
        super().__init__(generation)
        self._gaps = gaps

    def commit_transaction(self, timeout_s: float) -> None:
        if self.aborts and self.aborts <= self._gaps:
            gap = KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
            raise KafkaException(KafkaError(gap, txn_requires_abort=True))
        super().commit_transaction(timeout_s)


@pytest.mark.parametrize("gaps", [1, 2])
def test_a_gap_after_an_aborted_transaction_makes_the_commit_be_repeated(gaps):
    broker = Gap(7, gaps)
    written(broker).commit(OFFSETS, Group(5, 7))  # type: ignore[arg-type]
    assert broker.committed == [b"a", b"b"]
    assert broker.aborts == gaps + 1


def test_a_gap_in_another_transaction_ends_the_commit():
    broker = Gap(7, 1)
    broker.aborts = 1
    with pytest.raises(KafkaException, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        written(broker).commit(OFFSETS, Group(7))  # type: ignore[arg-type]
    assert broker.committed == []


@pytest.mark.parametrize("now", [Group(5, 6, members=(b"m", b"other")), Group(5, -1)])
def test_a_member_that_was_removed_commits_nothing(now):
    broker = Broker(6)
    transaction = written(broker)
    with pytest.raises(MembershipLostError):
        transaction.commit(OFFSETS, now)
    assert broker.committed == []
    assert broker.aborts == 1, "before it waits for the group, so that readers go on"


def test_offsets_without_a_membership_are_not_sent():
    """The broker does not check offsets without member and generation in a transaction."""
    with pytest.raises(MembershipLostError):
        written(Broker(-1)).commit(OFFSETS, Group(-1))  # type: ignore[arg-type]


def test_another_refusal_ends_the_commit():
    broker = Broker(7, KafkaError.UNKNOWN_MEMBER_ID)
    with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
        written(broker).commit(OFFSETS, Group(5))  # type: ignore[arg-type]


def test_a_job_outside_of_the_group_commits_without_a_membership():
    broker = Broker(-1)
    written(broker, of_member=False).commit(OFFSETS, Group(-1))  # type: ignore[arg-type]
    assert broker.committed == [b"a", b"b"]


class Fenced:
    """A producer that the broker has fenced: commit and abort fail."""

    def __init__(self, code: int) -> None:
        self._code = code

    def begin_transaction(self) -> None: ...

    def commit_transaction(self, _timeout_s: float) -> None:
        raise KafkaException(KafkaError(self._code))

    def abort_transaction(self, _timeout_s: float) -> None:
        raise KafkaException(KafkaError(KafkaError._STATE, "the abort failed"))


def test_a_fenced_transaction_says_that_another_process_has_ended_it():
    producer: Any = Fenced(KafkaError._FENCED)
    with (
        pytest.raises(InfrastructureError, match=r"^another flush$"),
        committed(producer, "another flush"),
    ):
        pass


def test_a_failed_abort_does_not_hide_the_cause():
    producer: Any = Fenced(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with (
        pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"),
        committed(producer, "-"),
    ):
        pass
    with pytest.raises(ValueError, match="no letter"), committed(producer, "-"):
        raise ValueError("no letter")
