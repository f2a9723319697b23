"""How a consumer hands over what it reads: the interface, and the way without the native library.

Groups, rebalances and positions are the consumer's own in both ways (runtime/client/consumer.py).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from tidemark.partition import Partition
from tidemark.runtime.messages.received import ReceivedMessage

MayGo = Callable[[str], bool]
"""Whether it is no error that a topic is gone."""

_GONE = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)


class Reader(Protocol):
    """Reads the messages of the partitions that a consumer is assigned."""

    def read(self, count: int, timeout_s: float, may_go: MayGo) -> Sequence[ReceivedMessage]:
        """Return up to ``count`` messages; runs the callbacks of the consumer, before it reads.

        It waits for that number, or for ``timeout_s``; it may return earlier with fewer messages.

        Raises:
            KafkaException: an error that does not pass by itself.
        """

    def route(self, partitions: Iterable[Partition]) -> None:
        """Read partitions that the consumer will be assigned."""

    def leave(self, partitions: Iterable[Partition]) -> None:
        """Read partitions no longer; the consumer has them still."""

    def close(self) -> None:
        """Read nothing more; the consumer is closed after that."""


class ObjectReader:
    """Reads each message as an object of the Python client."""

    def __init__(self, consumer: Consumer) -> None:
        """Read what the consumer is assigned."""
        self._consumer = consumer

    def read(self, count: int, timeout_s: float, may_go: MayGo) -> Sequence[ReceivedMessage]:
        """See ``Reader``."""
        messages: list[Message] = self._consumer.consume(count, timeout_s)
        if any(map(Message.error, messages)):
            return [each for each in messages if not _is_event(each, may_go)]
        return messages

    def route(self, partitions: Iterable[Partition]) -> None:
        """Do nothing: the consumer reads all that it is assigned."""

    def leave(self, partitions: Iterable[Partition]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def _is_event(message: Message, may_go: MayGo) -> bool:
    error = message.error()
    if error is None:
        return False
    require_passing(error, message.topic() or "", may_go)
    return True


def require_passing(error: KafkaError, topic: str, may_go: MayGo) -> None:
    """Raise an error that does not pass by itself."""
    if error.code() == KafkaError._PARTITION_EOF or (error.retriable() and not error.fatal()):
        return
    if error.code() in _GONE and may_go(topic):
        return
    raise KafkaException(error)
