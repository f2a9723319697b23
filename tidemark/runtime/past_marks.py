"""What the log remembers of a source whose committed offset says less than it should.

Plain commits and ``kafka-consumer-groups --reset-offsets`` drop an offset's metadata; deleting a
topic, or a week without members, drops the offset itself.  Every partition of a log holds every
mark of its sources, so the end of one partition tells where ingest stopped.
"""

from collections.abc import Iterator

from confluent_kafka.admin import AdminClient

from tidemark.core.segment import SourceMark
from tidemark.errors import StateError
from tidemark.ingest import Progress
from tidemark.plan import Plan
from tidemark.runtime.config import Config
from tidemark.runtime.group import EARLIEST, LATEST, Partition, Start, offsets
from tidemark.runtime.reading import read
from tidemark.runtime.serde.segments import decode_segment

_STEP = 250
_MOST = 1_000  # segments looked at: a source not heard of for longer counts as new


class PastMarks:
    """The logs of a pipeline, read from their ends."""

    def __init__(self, config: Config, admin: AdminClient, plan: Plan) -> None:
        """Read nothing yet."""
        self._config, self._admin, self._plan = config, admin, plan

    def progress(self, start: Start) -> Progress:
        """Return the progress of the source that stopped at a start offset without metadata."""
        if start.offset == 0:
            return Progress()
        mark = self._last_mark(start.partition)
        if mark is None or mark.next_offset != start.offset:
            raise StateError(
                f"{start.partition}: the committed offset {start.offset} has no watermark, and the "
                "log does not end there; was it reset by hand? Start the pipeline afresh with "
                "'tidemark reset'"
            )
        return Progress(mark.next_offset, mark.watermark_ms)

    def require_new(self, source: Partition) -> None:
        """Stop where a source without a committed offset was read before."""
        mark = self._last_mark(source)
        if mark is not None and mark.next_offset > 0:
            raise StateError(
                f"{source}: nothing is committed, but the log has records up to offset "
                f"{mark.next_offset}; the topic was made anew, or its offsets expired. Start the "
                "pipeline afresh with 'tidemark reset'"
            )

    def _last_mark(self, source: Partition) -> SourceMark | None:
        for log in self._plan.logs:
            if source.topic in log.topics:
                return next(self._marks_backwards(Partition(log.topic, 0), str(source)), None)
        return None

    def _marks_backwards(self, log: Partition, source: str) -> Iterator[SourceMark]:
        low = offsets(self._admin, [log], EARLIEST)[log]
        end = offsets(self._admin, [log], LATEST)[log]
        low = max(low, end - _MOST)
        while end > low:
            begin = max(low, end - _STEP)
            values = [message.value() for message in read(self._config, {log: (begin, end)})]
            for value in reversed(values):
                segment = decode_segment(value or b"", streams=())
                yield from (mark for mark in segment.sources if mark.source == source)
            end = begin
