"""Whether the first row of a raw topic looks as if its event time had another unit or zone.

Seconds that are read as milliseconds are in January 1970: valid times, so no record is dead.  The
first row's event time is compared with the record's Kafka timestamp, or without one with the time
of reading.  See docs/semantics.md, "Event time".
"""

from datetime import UTC, datetime

import numpy as np

from tidemark.core.time.assigners import ColumnTime, ExpressionTime
from tidemark.core.time.event_time import instant_text
from tidemark.core.time.segment import EVENT_TIME, OFFSET
from tidemark.core.time.time_units import PER_SECOND
from tidemark.ingest.ingest import IngestOutput
from tidemark.plan.physical import Plan
from tidemark.serde.records import RecordBatch

_DAY_MS = 86_400_000
_NEAR_MS = 365 * _DAY_MS
_SAME_DAY_MS = 2 * _DAY_MS
_AHEAD_MS = (600_000, 26 * 3_600_000)  # from more than clocks differ to the most by zones


class UnitCheck:
    """Looks at the first row of each topic whose event time is of a column or an expression."""

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
        source = self._plan.source_of(batch.topic)
        time = source.event_time
        if source.static is not None or not isinstance(time, ColumnTime | ExpressionTime):
            return None
        first = min(rows, key=lambda frame: int(frame.item(0, OFFSET)))
        index = int(np.searchsorted(batch.log_offsets, first.item(0, OFFSET)))
        stamp_ms = int(batch.timestamps[index])
        record_ms = batch.received_at_ms if stamp_ms < 0 else stamp_ms
        return _warning(batch.topic, time, int(first.item(0, EVENT_TIME)), record_ms)


def _warning(
    topic: str, time: ColumnTime | ExpressionTime, at_ms: int, record_ms: int
) -> str | None:
    """Return a warning if an event time is nearer to its record's when it is read otherwise."""
    remedy = _number_remedy(time, at_ms, record_ms)
    if remedy is None and isinstance(time, ColumnTime):
        remedy = _text_remedy(time, at_ms, record_ms)
    if remedy is None:
        return None
    return (
        f"raw topic {topic}: the event time of the first row is {instant_text(at_ms)}, its record "
        f"is of {instant_text(record_ms)}; {remedy}"
    )


def _number_remedy(time: ColumnTime | ExpressionTime, at_ms: int, record_ms: int) -> str | None:
    unit = "ms" if isinstance(time, ExpressionTime) else time.units[0]
    if unit not in PER_SECOND or abs(at_ms - record_ms) <= _NEAR_MS:
        return None
    for other, per_second in PER_SECOND.items():
        other_ms = at_ms * PER_SECOND[unit] // per_second
        if other != unit and abs(other_ms - record_ms) <= _NEAR_MS:
            column = isinstance(time, ColumnTime)
            remedy = f'is unit="{other}" missing?' if column else "the expression must give ms"
            return (
                f"the number is read as {unit}, and as {other} it would be "
                f"{instant_text(other_ms)}: {remedy}"
            )
    return None


def _text_remedy(time: ColumnTime, at_ms: int, record_ms: int) -> str | None:
    ahead_ms, (least_ms, most_ms) = at_ms - record_ms, _AHEAD_MS
    if time.zone is not None and least_ms < ahead_ms <= most_ms:
        return f"it is later than its record: is zone={time.zone!r} the zone of the texts?"
    patterns = [unit for unit in time.units if "%d" in unit and "%m" in unit]
    if not patterns or abs(ahead_ms) <= _SAME_DAY_MS:
        return None
    swapped_ms = _with_month_and_day_swapped(at_ms)
    if swapped_ms is None or abs(swapped_ms - record_ms) > _SAME_DAY_MS:
        return None
    return (
        f"with day and month swapped it would be {instant_text(swapped_ms)}: is the order of %d "
        f"and %m in {patterns[0]!r} right?"
    )


def _with_month_and_day_swapped(at_ms: int) -> int | None:
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    if at.day > 12:
        return None
    return int(at.replace(month=at.day, day=at.month).timestamp()) * 1000
