"""The commits of a Spark task on one partition, each like the commit of a service.

A task that Spark repeats fences the first attempt, and continues after its last commit.
"""

from time import monotonic

from confluent_kafka import TopicPartition

from tidemark.partition import Partition
from tidemark.runtime.client import clients
from tidemark.runtime.client.consumer import Start
from tidemark.runtime.client.transaction import transaction
from tidemark.runtime.config import Config

_ANSWER_S = 10.0
_PARTS_OF_TIMEOUT = 5  # a transaction lasts a fifth of its timeout, and a batch more


class TaskTransaction:
    """Output and the offset of one partition, committed together at intervals."""

    def __init__(self, config: Config, group: str, transactional_id: str, at: Partition) -> None:
        """Fence an earlier attempt; ``group``: the consumer group that has the offset."""
        self.output = transaction(config, transactional_id)
        self._at = at
        self._consumer = clients.plain_consumer(config, group)
        self._interval_s = config.transaction_timeout_ms / 1000 / _PARTS_OF_TIMEOUT
        self.begin_interval()

    def committed(self) -> Start:
        """Return the last commit of the partition; offset -1001 without one."""
        asked = [TopicPartition(*self._at)]
        (found,) = clients.when_known(lambda: self._consumer.committed(asked, timeout=_ANSWER_S))
        return Start(self._at, found.offset, found.metadata or "")

    def begin_interval(self) -> None:
        """Begin the commit interval anew."""
        self._due_s = monotonic() + self._interval_s

    @property
    def is_due(self) -> bool:
        """Whether the commit interval is over."""
        return monotonic() > self._due_s

    def commit(self, position: int, metadata: str) -> None:
        """Commit the output since the last commit, and an offset with its metadata."""
        offset = TopicPartition(*self._at, position, metadata=metadata)
        self.output.commit([offset], self._consumer)
        self.begin_interval()

    def close(self) -> None:
        """Close the consumer; what was not committed never becomes visible."""
        self._consumer.close()
