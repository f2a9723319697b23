"""How far the services of a run have come, as the broker tells."""

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.chaos.recorded import open_ended
from tests.kafka.support.stack import Stack
from tidemark.partition import Partition
from tidemark.runtime.client import clients
from tidemark.runtime.client.consumer import LATEST, offsets

_ANSWER_S = 5.0
_STILL_S = 1.0
"""A chain that writes no record for this long is done: pauses between its marks are shorter."""


class Drain:
    """What services have still to read."""

    def __init__(self, stack: Stack) -> None:
        """Know nothing yet."""
        self._stack = stack
        self._readers: dict[str, Consumer] = {}
        self.behind: dict[str, tuple[int | None, int]] = {}
        """Committed offset and end of each partition that is not read, as last asked."""
        self._ends: dict[str, dict[Partition, int]] = {}
        self._still: dict[str, dict[Partition, int]] = {}
        self._still_since_s = 0.0

    def are_done(self, inputs: Mapping[str, Sequence[Partition]]) -> bool:
        """Whether services that may feed each other have committed everything, for some time."""
        if not all(self.is_done(*each) for each in inputs.items()):
            self._still = {}
            return False
        now_s = time.monotonic()
        if self._ends != self._still:
            self._still, self._still_since_s = dict(self._ends), now_s
        return now_s - self._still_since_s > _STILL_S

    def is_done(self, service: str, partitions: Sequence[Partition]) -> bool:
        """Whether a service has committed everything up to the ends of its input."""
        if service not in self._readers:
            group = self._stack.plan.group(service)
            self._readers[service] = clients.plain_consumer(self._stack.config, group)
        asked = [TopicPartition(*at) for at in partitions]
        try:
            ends = offsets(self._stack.admin, partitions, LATEST)
            found = self._readers[service].committed(asked, timeout=_ANSWER_S)
        except KafkaException:
            return False  # the broker is just coming up
        self._ends[service] = ends
        committed = {Partition(tp.topic, tp.partition): tp.offset for tp in found}
        self.behind = {
            str(at): (committed.get(at), end)
            for at, end in ends.items()
            if max(committed.get(at, 0), 0) != end  # a broker that is busy may not know an end: -1
        }
        return not self.behind

    def open_ended(self) -> list[Partition | str]:
        """Return the partitions with a transaction that has not ended, or why nobody knows."""
        try:
            return [*open_ended(self._stack.admin, self._stack.plan)]
        except KafkaException as error:
            return [str(error)]  # the broker is just coming up
