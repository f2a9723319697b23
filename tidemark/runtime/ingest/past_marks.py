"""Finds the last mark of a source in the log if its committed offset or metadata is missing.

Plain commits and ``kafka-consumer-groups --reset-offsets`` drop the metadata of an offset.  A
deleted topic, or a week without members, drops the offset itself.  Every partition of a log holds
all marks of its sources, so the end of one partition shows where ingest stopped.

The search goes from the end of the log to its start, so it is short if there is a mark.  A new
partition of a topic needs no search if another partition has a committed offset: ingest commits
every source at its start, so the first one of the topic was committed after a search.
"""

from collections.abc import Callable, Iterable, Iterator

from confluent_kafka.admin import AdminClient

from tidemark.core.time.segment import Segment, SourceMark
from tidemark.errors import StateError
from tidemark.ingest.ingest import Progress
from tidemark.partition import Partition
from tidemark.plan.physical import LogPlan, Plan
from tidemark.runtime.client.consumer import EARLIEST, LATEST, Start, offsets
from tidemark.runtime.client.offline_group import committed_offsets
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.client.topics import partition_counts
from tidemark.runtime.config import Config
from tidemark.serde.segments import decode_segment

_STEP = 250
_WAIT_S = 30.0


class PastMarks:
    """Searches the logs of a pipeline from their ends."""

    def __init__(self, config: Config, admin: AdminClient, plan: Plan) -> None:
        """Prepare; nothing is read yet."""
        self._config, self._admin, self._plan = config, admin, plan

    def progress(self, start: Start) -> Progress:
        """Return the progress of a source whose committed offset has no metadata.

        Raises:
            StateError: the log does not end at that offset.
        """
        if start.offset == 0:
            return Progress()
        source = str(start.partition)
        mark = self._last_mark(start.partition.topic, lambda mark: mark.source == source)
        if mark is None or mark.next_offset != start.offset:
            raise StateError(
                f"{start.partition}: the committed offset {start.offset} has no watermark, and the "
                "log does not end there; was the offset reset by hand? 'tidemark reset PIPELINE' "
                "starts the pipeline afresh"
            )
        return Progress(mark.next_offset, mark.watermark_ms)

    def require_new(self, source: Partition) -> None:
        """Check that a source without a committed offset was never read.

        Raises:
            StateError: the log has records of its topic.
        """
        if self._is_committed(source.topic):
            return
        # Any partition of the topic counts.  Otherwise the first partition without records would
        # pass as new, and its commit would then vouch for all others.
        mark = self._last_mark(source.topic, lambda mark: mark.next_offset > 0)
        if mark is not None:
            raise StateError(
                f"{source}: nothing is committed, but the log has records of {mark.source} up to "
                f"offset {mark.next_offset}; the topic was created again, or its offsets expired. "
                f"'tidemark reset PIPELINE --source {source.topic}' starts this source afresh"
            )

    def _is_committed(self, topic: str) -> bool:
        """Return whether ingest has committed an offset of any partition of a topic."""
        count = partition_counts(self._admin)[topic]
        wanted = [Partition(topic, n) for n in range(count)]
        found = committed_offsets(self._config, self._plan.group("ingest"), wanted, _WAIT_S)
        return any(each.offset >= 0 for each in found)

    def last_mark(self, log: LogPlan, source: str) -> SourceMark | None:
        """Return the last mark of a source in a log, None if the log has no mark of it."""
        marks = self._marks_backwards(Partition(log.topic, 0))
        return next((mark for mark in marks if mark.source == source), None)

    def _last_mark(self, topic: str, wanted: Callable[[SourceMark], bool]) -> SourceMark | None:
        for log in self._plan.logs:
            if log.reads(topic):
                marks = self._marks_backwards(Partition(log.topic, 0))
                return next((m for m in marks if m.topic == topic and wanted(m)), None)
        return None

    def partitions(self, log: LogPlan, topic: str) -> int:
        """Return the number of partitions of a raw topic when a log last had a mark of it."""
        for segment in self._segments_backwards(Partition(log.topic, 0)):
            if any(mark.topic == topic for mark in segment.sources):
                return segment.partitions[topic]
        return 0

    def announced(self, log: LogPlan, topic: str) -> int:
        """Return the last number of partitions of a raw topic that a log names, else 0."""
        segments = self._segments_backwards(Partition(log.topic, 0))
        return next((each.partitions[topic] for each in segments if topic in each.partitions), 0)

    def topics(self) -> set[str]:
        """Return the raw topics that the logs name at their ends."""
        ends = (
            next(self._segments_backwards(Partition(log.topic, 0)), None) for log in self._plan.logs
        )
        return {topic for segment in ends if segment is not None for topic in segment.partitions}

    def _marks_backwards(self, log: Partition) -> Iterator[SourceMark]:
        for segment in self._segments_backwards(log):
            yield from segment.sources

    def _segments_backwards(self, log: Partition) -> Iterator[Segment]:
        low = offsets(self._admin, [log], EARLIEST)[log]
        end = offsets(self._admin, [log], LATEST)[log]
        while end > low:
            begin = max(low, end - _STEP)
            values = [message.value() for message in read(self._config, {log: (begin, end)})]
            for value in reversed(values):
                yield decode_segment(value or b"", streams=())
            end = begin


def furthest(marks: Iterable[SourceMark | None]) -> Progress:
    """Return how far a source has come by its last marks in logs; the start if it has no mark.

    A log that is being built may end earlier than others.
    """
    ends = [Progress(mark.next_offset, mark.watermark_ms) for mark in marks if mark is not None]
    return max(ends, key=lambda each: each.next_offset, default=Progress())
