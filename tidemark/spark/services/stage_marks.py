"""The marks of stages on Spark: the driver owns the progress topics of a keyed service.

Tasks write rows and reports (batch.py).  Between micro-batches the driver reads the new reports,
and writes the marks that are due with the offsets of the progress topics, in one transaction.  This
is what the process does that owns a progress topic (runtime/keyed/announcements.py).
"""

from collections.abc import Iterator

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from msgspec.structs import replace

from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.client import clients
from tidemark.runtime.client.batches import by_partition
from tidemark.runtime.client.consumer import EARLIEST, Start, committed_ends, offsets
from tidemark.runtime.client.generations import newest_generations
from tidemark.runtime.client.progress import encode
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.client.topics import topic_ids
from tidemark.runtime.client.transaction import Transaction, transaction
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.announcements import Announcements, mark_progress, progress_topics
from tidemark.spark.read.live_position import committed_positions


class StageMarks:
    """Writes the marks of the stages of one keyed service."""

    def __init__(self, config: Config, admin: AdminClient, plan: Plan, service: str) -> None:
        """Send no request yet."""
        self._config, self._admin, self._plan = config, admin, plan
        self._group = plan.group(service)
        self._operators = plan.of_service(service)
        self._topics = sorted(progress_topics(plan, self._operators))
        may_lack_marks = config.guarantee == "at-most-once"  # of a service before
        self._announcements = Announcements(plan, self._operators, may_lack_marks=may_lack_marks)
        self._positions: dict[Partition, int] = {}
        self._writer: tuple[Transaction, Consumer] | None = None

    @property
    def transactional_id(self) -> str:
        """The transactional id of the marks."""
        return f"{self._group}.spark.marks"

    def marked(self, *, on_spark: bool) -> list[TopicPartition]:
        """Return the offsets of the progress topics with a mark of their owner.

        Raises:
            StateError: a progress topic was deleted and created again.
        """
        ids = topic_ids(self._admin, self._topics)
        found = []
        for start in self._committed():
            past = mark_progress(start, ids[start.partition.topic], by_spark=True)
            metadata = encode(replace(past, on_spark=on_spark))
            found.append(TopicPartition(*start.partition, start.offset, metadata=metadata))
        return found

    def _committed(self) -> Iterator[Start]:
        partitions = [Partition(topic, 0) for topic in self._topics]
        firsts = offsets(self._admin, partitions, EARLIEST)
        for each in committed_positions(self._config, self._group, partitions):
            at = Partition(each.topic, each.partition)
            offset = each.offset if each.offset >= 0 else firsts[at]
            yield Start(at, offset, each.metadata or "", firsts[at])

    def begin(self) -> None:
        """Own the progress topics, whose offsets are marked as Spark's; fence another driver."""
        self._writer = (
            transaction(self._config, self.transactional_id),
            clients.plain_consumer(self._config, self._group),
        )
        starts = self._announcements.starting(self._admin, [*self._committed()])
        generations = newest_generations(self._config, self._admin, self._plan.generations)
        ids = topic_ids(self._admin, self._topics)
        self._announcements.assigned(starts, ids, generations, by_spark=True)
        self._positions = {start.partition: start.offset for start in starts}

    def write(self) -> int:
        """Read new reports, and commit the marks that are due; return the number of commits."""
        assert self._writer is not None, "begin() comes first"
        output, consumer = self._writer
        has_new = self._read()
        found = self._announcements.write(output, self._positions, commits=has_new)
        if not found:
            return 0
        output.commit(found, consumer)
        return 1

    def _read(self) -> bool:
        """Read new reports; return whether there were any."""
        before, ends = self._positions, committed_ends(self._admin, self._positions)
        new = {at: (before[at], end) for at, end in ends.items() if end > before[at]}
        if new:
            messages = list(read(self._config, new))
            for at, each in by_partition(messages, self._topics).items():
                self._announcements.read(at, each)
            self._positions = {**before, **{at: end for at, (_, end) in new.items()}}
        return bool(new)


def services_of_stages(plan: Plan) -> list[str]:
    """Return the keyed services that run stages."""
    return [name for name in plan.keyed_services() if progress_topics(plan, plan.of_service(name))]
