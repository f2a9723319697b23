"""A source's progress, read back from a log where the committed offset has lost its metadata.

Plain commits and ``kafka-consumer-groups --reset-offsets`` drop the metadata.  Every partition of a
log holds every mark of its sources, so the end of one partition tells where ingest stopped.
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

_STEP = 256


def last_progress(config: Config, admin: AdminClient, plan: Plan, start: Start) -> Progress:
    """Return the progress whose range ends at the start offset, or stop."""
    if start.offset == 0:
        return Progress()
    source = str(start.partition)
    for log in plan.logs:
        if start.partition.topic in log.topics:
            for mark in _marks_backwards(config, admin, Partition(log.topic, 0), source):
                if mark.next_offset == start.offset:
                    return Progress(mark.next_offset, mark.watermark_ms)
                break
    raise StateError(
        f"{source}: the committed offset {start.offset} has no watermark, and the log does not end "
        "there; was it reset by hand? Start the pipeline afresh with 'tidemark reset'"
    )


def _marks_backwards(
    config: Config, admin: AdminClient, log: Partition, source: str
) -> Iterator[SourceMark]:
    low = offsets(admin, [log], EARLIEST)[log]
    end = offsets(admin, [log], LATEST)[log]
    while end > low:
        begin = max(low, end - _STEP)
        values = [m.value() for m in read(config, {log: (begin, end)})]
        for value in reversed(values):
            segment = decode_segment(value or b"")
            yield from (mark for mark in segment.sources if mark.source == source)
        end = begin
