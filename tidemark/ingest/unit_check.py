"""Whether the first row of a raw topic looks as if its event time had another unit.

Seconds that are read as milliseconds are in January 1970: valid times, so no record is dead.  The
first row's event time is compared with the record's Kafka timestamp, or without one with the time
of reading.  See docs/semantics.md, "Event time".
"""

import numpy as np

from tidemark.core.time.assigners import ColumnTime, EventTime, ExpressionTime
from tidemark.core.time.event_time import instant_text
from tidemark.core.time.segment import EVENT_TIME, OFFSET
from tidemark.ingest.ingest import IngestOutput
from tidemark.plan.physical import Plan
from tidemark.serde.records import RecordBatch

_NEAR_MS = 365 * 86_400_000
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class UnitCheck:
    """Looks at the first row of each topic whose event time is a number."""

    def __init__(self, plan: Plan) -> None:
        """Prepare for all sources of a plan."""
        self._plan = plan
        self._seen: set[str] = set()

    def warning(self, batch: RecordBatch, taken: IngestOutput) -> str | None:
        """Return a warning if this is the first batch with rows, and another unit is likely.

        ``taken``: the output for ``batch``.
        """
        rows = [frame for frame in taken.streams.values() if frame.height]
        if batch.topic in self._seen or not rows:
            return None
        self._seen.add(batch.topic)
        time = self._plan.source_of(batch.topic).event_time
        if _unit(time) is None:
            return None
        first = min(rows, key=lambda frame: int(frame.item(0, OFFSET)))
        index = int(np.searchsorted(batch.log_offsets, first.item(0, OFFSET)))
        stamp_ms = int(batch.timestamps[index])
        record_ms = batch.received_at_ms if stamp_ms < 0 else stamp_ms
        return _warning(batch.topic, time, int(first.item(0, EVENT_TIME)), record_ms)


def _warning(topic: str, time: EventTime, at_ms: int, record_ms: int) -> str | None:
    """Return a warning if an event time is far from its record's, and near it in another unit."""
    unit = _unit(time)
    if unit is None or abs(at_ms - record_ms) <= _NEAR_MS:
        return None
    for other, per_second in _PER_SECOND.items():
        other_ms = at_ms * _PER_SECOND[unit] // per_second
        if other != unit and abs(other_ms - record_ms) <= _NEAR_MS:
            column = isinstance(time, ColumnTime)
            remedy = f'is unit="{other}" missing?' if column else "the expression must give ms"
            return (
                f"raw topic {topic}: the event time of the first row is {instant_text(at_ms)}, its "
                f"record is of {instant_text(record_ms)}; the number is read as {unit}, and as "
                f"{other} it would be {instant_text(other_ms)}: {remedy}"
            )
    return None


def _unit(time: EventTime) -> str | None:
    if isinstance(time, ColumnTime):
        return time.unit if time.unit in _PER_SECOND else None
    return "ms" if isinstance(time, ExpressionTime) else None
