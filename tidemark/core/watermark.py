"""Event time and watermarks: what a record's time is, and how far time has come before it.

1. A source's event time is a column of the record, the Kafka record's timestamp, or the moment
   ingest read it.  Whatever the form, it becomes int64 milliseconds UTC, floored, also before
   1970; text that is no time, and years outside 0001..9999, become null with a reason.
2. The watermark of a row is computed from the records of its raw partition *before* it: the
   largest event time so far, less the delay; NEVER_MS before the first.
3. A record dated too far in the future is quarantined: it neither becomes a row nor moves time.
   It is compared with its Kafka timestamp, which is recorded, so a replay decides alike; without
   one, with the partition's own progress.

See docs/semantics.md, "Event time" and "Watermarks".
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.duration import duration_ms
from tidemark.core.segment import NEVER_MS
from tidemark.errors import PipelineError

Times: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

UNITS = ("s", "ms", "us", "ns", "iso8601")
"""How a column can hold event time: whole numbers since 1970 in a unit, or ISO 8601 text."""


@dataclass(frozen=True, slots=True)
class ColumnTime:
    """Event time from a column; ``zone`` (IANA) is that of texts that name no offset."""

    column: str
    unit: str = "ms"
    zone: str | None = None

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise PipelineError(f"unit of event time {self.column!r}: {self.unit!r} not in {UNITS}")
        if self.zone is None:
            return
        what = f"zone {self.zone!r} of event time {self.column!r}"
        if self.unit != "iso8601":
            raise PipelineError(f"{what}: only with unit 'iso8601', not {self.unit!r}")
        try:
            pl.Series([0]).cast(pl.Datetime("ms")).dt.replace_time_zone(self.zone)
        except pl.exceptions.ComputeError:
            raise PipelineError(f"{what}: no IANA time zone") from None


@dataclass(frozen=True, slots=True)
class RecordTime:
    """Event time is the Kafka record's timestamp."""


@dataclass(frozen=True, slots=True)
class IngestTime:
    """Event time is the moment ingest read the record; it never goes back within a partition."""


EventTime: TypeAlias = ColumnTime | RecordTime | IngestTime

RECORD_TIME = RecordTime()
INGEST_TIME = IngestTime()


@dataclass(frozen=True, slots=True)
class Bounded:
    """Records of a raw partition are at most ``delay_ms`` of event time out of order."""

    delay_ms: int

    def __post_init__(self) -> None:
        if self.delay_ms < 0:
            raise PipelineError(f"watermark bounded({self.delay_ms}ms): the delay is negative")

    def watermark_ms(self, largest_ms: int) -> int:
        """Return the watermark after a largest event time; NEVER_MS stays NEVER_MS."""
        return NEVER_MS if largest_ms == NEVER_MS else largest_ms - self.delay_ms

    def largest_ms(self, watermark_ms: int) -> int:
        """Return the largest event time behind a watermark: the inverse of ``watermark_ms``."""
        return NEVER_MS if watermark_ms == NEVER_MS else watermark_ms + self.delay_ms

    def before(self, times: Times, counts: Mask, largest_ms: int) -> tuple[Times, int]:
        """Return the watermark before each record, and the largest event time after all.

        ``counts`` tells which records move time; ``largest_ms`` is that of the records before.
        """
        largest = running_largest(times, counts, largest_ms)
        earlier = largest[:-1]
        watermarks = np.where(earlier == NEVER_MS, NEVER_MS, earlier - self.delay_ms)
        return watermarks, int(largest[-1])


def bounded(delay: str | int | timedelta) -> Bounded:
    """Trust each raw partition to be at most ``delay`` out of order: ``bounded("2s")``."""
    return Bounded(duration_ms(delay, "watermark bounded()"))


def monotonic() -> Bounded:
    """Trust each raw partition to be in order of event time."""
    return Bounded(0)


def running_largest(times: Times, counts: Mask, largest_ms: int) -> Times:
    """Return the largest counted time before each record, and after the last: one more item."""
    steps = np.empty(len(times) + 1, np.int64)
    steps[0] = largest_ms
    steps[1:] = np.where(counts, times, NEVER_MS)
    return np.maximum.accumulate(steps)


def future(
    times: Times, known: Mask, timestamps: Times, largest_ms: int, max_future_ms: int
) -> Mask:
    """Tell which records are quarantined: dated more than ``max_future_ms`` ahead.

    ``known``: records with an event time.  ``timestamps``: Kafka's, -1 where there is none; such a
    record is compared with the largest event time before it, once there is one.
    """
    stamped = timestamps >= 0
    ahead = known & stamped & (times > timestamps + max_future_ms)
    unstamped = known & ~stamped
    if not unstamped.any():
        return ahead
    largest = running_largest(times, known & ~ahead, largest_ms)[:-1]
    suspects = unstamped & (largest != NEVER_MS) & (times > largest + max_future_ms)
    if not suspects.any():
        return ahead
    return _ahead_one_by_one(times, known, ahead, unstamped, largest_ms, max_future_ms)


def _ahead_one_by_one(
    times: Times, known: Mask, ahead: Mask, unstamped: Mask, largest_ms: int, max_future_ms: int
) -> Mask:
    """Judge in order: a quarantined record must not move the progress later ones are judged by."""
    quarantined = ahead.copy()
    for index in np.flatnonzero(known & ~ahead):
        time_ms = int(times[index])
        if unstamped[index] and largest_ms != NEVER_MS and time_ms > largest_ms + max_future_ms:
            quarantined[index] = True
        else:
            largest_ms = max(largest_ms, time_ms)
    return quarantined
