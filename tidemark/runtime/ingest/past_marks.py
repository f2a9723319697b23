"""What the log remembers of a source whose committed offset says less than it should.

Plain commits and ``kafka-consumer-groups --reset-offsets`` drop an offset's metadata; deleting a
topic, or a week without members, drops the offset itself.  Every partition of a log holds every
mark of its sources, so the end of one partition tells where ingest stopped.

The log is searched from its end to its start.  That is short where there is something to find; and
a new partition of a topic that is being read needs no search: another one has a committed offset.
Every source has one from its start on, so the first of a topic was committed after a search.
"""

from collections.abc import Callable, Iterator

from confluent_kafka.admin import AdminClient

from tidemark.core.time.segment import SourceMark
from tidemark.errors import StateError
from tidemark.ingest.ingest import Progress
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.client.consumer import EARLIEST, LATEST, Start, offsets
from tidemark.runtime.client.offline_group import committed_offsets
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.client.topics import partition_counts
from tidemark.runtime.config import Config
from tidemark.serde.segments import decode_segment

_STEP = 250
_WAIT_S = 30.0


class PastMarks:
    """The logs of a pipeline, read from their ends."""

    def __init__(self, config: Config, admin: AdminClient, plan: Plan) -> None:
        """Read nothing yet."""
        self._config, self._admin, self._plan = config, admin, plan

    def progress(self, start: Start) -> Progress:
        """Return the progress of the source that stopped at a start offset without metadata."""
        if start.offset == 0:
            return Progress()
        source = str(start.partition)
        mark = self._last_mark(start.partition.topic, lambda mark: mark.source == source)
        if mark is None or mark.next_offset != start.offset:
            raise StateError(
                f"{start.partition}: the committed offset {start.offset} has no watermark, and the "
                "log does not end there; was it reset by hand? 'tidemark reset PIPELINE' starts "
                "the pipeline afresh"
            )
        return Progress(mark.next_offset, mark.watermark_ms)

    def require_new(self, source: Partition) -> None:
        """Stop where a source without a committed offset was read before."""
        if self._is_committed(source.topic):
            return
        # Of any partition of the topic: else the first one without records would be taken as new,
        # and then vouch for all the others.
        mark = self._last_mark(source.topic, lambda mark: mark.next_offset > 0)
        if mark is not None:
            raise StateError(
                f"{source}: nothing is committed, but the log has records of {mark.source} up to "
                f"offset {mark.next_offset}; the topic was made anew, or its offsets expired. "
                "'tidemark reset PIPELINE' starts the pipeline afresh"
            )

    def _is_committed(self, topic: str) -> bool:
        """Whether ingest has a committed offset of some partition of a topic."""
        count = partition_counts(self._admin)[topic]
        wanted = [Partition(topic, n) for n in range(count)]
        found = committed_offsets(self._config, self._plan.group("ingest"), wanted, _WAIT_S)
        return any(each.offset >= 0 for each in found)

    def _last_mark(self, topic: str, wanted: Callable[[SourceMark], bool]) -> SourceMark | None:
        for log in self._plan.logs:
            if topic in log.topics:
                marks = self._marks_backwards(Partition(log.topic, 0))
                return next((m for m in marks if m.topic == topic and wanted(m)), None)
        return None

    def _marks_backwards(self, log: Partition) -> Iterator[SourceMark]:
        low = offsets(self._admin, [log], EARLIEST)[log]
        end = offsets(self._admin, [log], LATEST)[log]
        while end > low:
            begin = max(low, end - _STEP)
            values = [message.value() for message in read(self._config, {log: (begin, end)})]
            for value in reversed(values):
                yield from decode_segment(value or b"", streams=()).sources
            end = begin
