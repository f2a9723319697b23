"""How far the services of a run have come, as the broker tells."""

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from tests.chaos.recorded import open_ended
from tests.integration.stack import Stack
from tidemark.runtime.group import LATEST, Partition, offsets


class Drain:
    """What services have still to read."""

    def __init__(self, stack: Stack) -> None:
        """Know nothing yet."""
        self._stack = stack
        self.behind: dict[str, tuple[int | None, int]] = {}
        """Committed offset and end of each partition that is not read, as last asked."""

    def is_done(self, service: str, partitions: list[Partition]) -> bool:
        """Whether a service has committed everything up to the ends of its input."""
        wanted = [TopicPartition(*at) for at in partitions]
        group = ConsumerGroupTopicPartitions(f"{self._stack.name}.{service}", wanted)
        try:
            ends = offsets(self._stack.admin, partitions, LATEST)
            (answer,) = self._stack.admin.list_consumer_group_offsets([group]).values()
            committed = {
                Partition(tp.topic, tp.partition): tp.offset
                for tp in answer.result().topic_partitions
            }
        except KafkaException:
            return False  # the broker is just coming up
        self.behind = {
            str(at): (committed.get(at), end)
            for at, end in ends.items()
            if end > 0 and committed.get(at) != end
        }
        return not self.behind

    def open_ended(self) -> list[Partition | str]:
        """Return the partitions with a transaction that has not ended, or why nobody knows."""
        try:
            return [*open_ended(self._stack.admin, self._stack.plan)]
        except KafkaException as error:
            return [str(error)]  # the broker is just coming up
