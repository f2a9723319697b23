"""What a consumer knows of its membership in a group: member id and generation.

The client offers both only as the bytes that it sends with a transaction's offsets (librdkafka's
``rd_kafka_consumer_group_metadata_write``): a version, the generation, group id and member id.
"""

import logging
import struct
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException

from tidemark.errors import InfrastructureError
from tidemark.runtime.retry import poll

_log = logging.getLogger("tidemark")

OUTDATED = {
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.REBALANCE_IN_PROGRESS,
}
"""Errors of a commit by a member that has not heard of its group's new generation yet."""

MOVED = {
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
}
"""Errors of a request about a group while its coordinator changes; they pass by themselves."""


def has_moved(error: Exception) -> bool:
    """Return whether a request about a group failed because its coordinator changes."""
    return isinstance(error, KafkaException) and error.args[0].code() in MOVED


_VERSION = b"CGMDv2:"
_GENERATION = struct.Struct("=i")
_BEHIND = len(_VERSION) + _GENERATION.size
_LONGEST_S, _PAUSE_S = 1.0, 0.01
_LOST = "the group has removed this process: it was too slow, or no broker answered"


class MembershipLostError(InfrastructureError):
    """The group has removed this member, which must not commit what it has read."""


@dataclass(frozen=True)
class Membership:
    """A membership at one moment; ``metadata``: the client's bytes, for a transaction's offsets."""

    metadata: bytes

    @classmethod
    def of(cls, consumer: Consumer) -> "Membership":
        """Return the membership of a consumer now."""
        return cls(consumer.consumer_group_metadata())

    @property
    def generation(self) -> int:
        """The group's generation or member epoch; 0 or less without a membership."""
        assert self.metadata.startswith(_VERSION), f"unknown group metadata {self.metadata!r}"
        generation: int = _GENERATION.unpack_from(self.metadata, len(_VERSION))[0]
        return generation

    @property
    def is_held(self) -> bool:
        """Whether the group has this consumer as a member, as far as the client knows."""
        return self.generation > 0

    def continues(self, before: "Membership") -> bool:
        """Whether this is the same member in the same or a later generation.

        Such a member still owns its partitions: a cooperative group gives them to others only
        after the member has given them up.
        """
        return self.is_held and self.metadata[_BEHIND:] == before.metadata[_BEHIND:]

    def require_held(self) -> None:
        """Check that the consumer is a member of its group.

        Raises:
            MembershipLostError: it is not; the broker would take its offsets without a check.
        """
        if not self.is_held:
            raise MembershipLostError(_LOST)


def later_membership(
    consumer: Consumer, refused: Membership, on_wait: Callable[[str], None]
) -> Membership:
    """Return the membership after a commit was refused for its generation.

    The client learns of a new generation in the background, within milliseconds.  Without news for
    a second, the membership is returned as it was.

    Raises:
        MembershipLostError: the group has removed the member.
    """
    if not poll(lambda: Membership.of(consumer) != refused, for_s=_LONGEST_S, pause_s=_PAUSE_S):
        on_wait("the group rebalances")
    now = Membership.of(consumer)
    if not now.continues(refused):
        raise MembershipLostError(_LOST)
    _log.info("the group rebalances: repeating a commit with generation %d", now.generation)
    return now
