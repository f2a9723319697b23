"""Event time of records: int64 milliseconds UTC, or the reason why it is absent.

A number is read in the unit that the source declares, and in no other.  It is not an event time if
it is outside the years 0001 to 9999, before the source's ``min_time``, or so close to the ends of
the range that a window of it would have a bound outside.  The reason names the unit and the range,
and the unit in which the number would be between 2000 and 2100, if there is one.

Floats of seconds are rounded to the microsecond and then floored to the millisecond.  So
1767225601.001, which is slightly less as a double, still means 1 ms.  See docs/semantics.md, "Event
time".
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.columns import without_nulls
from tidemark.core.time.assigners import ColumnTime
from tidemark.core.time.iso8601 import Mask, Times, text_times

MISSING = "missing"
OUT_OF_RANGE = "outside the years 0001 to 9999"
TOO_EARLY = "before min_time"
NO_WINDOW = "its window would have a bound outside the years 0001 to 9999"
NO_TEXT = "no ISO 8601 date and time"
NO_ZONE = "no offset, and the source names no zone"
NO_INSTANT = "skipped or repeated by a clock change of the zone"

REASONS = ("", MISSING, OUT_OF_RANGE, TOO_EARLY, NO_WINDOW, NO_TEXT, NO_ZONE, NO_INSTANT)
"""Reasons why a record has no event time, by code; code 0 means that it has one."""

EARLIEST_MS = -62_135_596_800_000  # 0001-01-01T00:00:00Z
LATEST_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z

# The length of a unit in ms as a fraction: multiply, then floor-divide.
_UNIT_MS = {"s": (1_000, 1), "ms": (1, 1), "us": (1, 1_000), "ns": (1, 1_000_000)}

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FITS = ("", *_PER_SECOND)
_FITTING_S = (946_684_800, 4_102_444_800)  # 2000 to 2100, so at most one unit fits a number


@dataclass(frozen=True, slots=True)
class EventTimes:
    """The event time of each record, in ``ms``, or the code of a reason.

    ``reason``: a code in REASONS; ``ms`` is valid where it is 0.  ``unit``: of numbers.  ``fits``:
    for numbers out of range, the code of the unit that would fit.
    """

    ms: Times
    reason: npt.NDArray[np.uint8]
    unit: str | None = None
    fits: npt.NDArray[np.uint8] | None = None

    @property
    def known(self) -> Mask:
        """A mask of the records that have an event time."""
        known: Mask = self.reason == 0
        return known

    def not_before(self, min_ms: int | None) -> "EventTimes":
        """Return the event times with those before ``min_ms`` marked as too early."""
        if min_ms is None:
            return self
        early = self.known & (self.ms < min_ms)
        return replace(self, reason=np.where(early, _code(TOO_EARLY), self.reason))

    def with_windows(self, longest_ms: int) -> "EventTimes":
        """Return the event times without those whose windows may have bounds out of range.

        ``longest_ms``: the length of the longest window that rows may be in.
        """
        fits = (self.ms >= EARLIEST_MS + longest_ms) & (self.ms <= LATEST_MS - longest_ms)
        beyond = self.known & ~fits
        if not beyond.any():
            return self
        return replace(self, reason=np.where(beyond, _code(NO_WINDOW), self.reason))

    def why(self, index: int, min_ms: int | None) -> str:
        """Return the reason why a record has no event time, with unit and range, or ""."""
        reason = REASONS[self.reason[index]]
        if reason not in (OUT_OF_RANGE, TOO_EARLY):
            return reason
        if reason == TOO_EARLY and min_ms is not None:
            reason = f"{TOO_EARLY} {instant_text(min_ms)}"
        if self.unit is None:
            return reason
        fit = "" if self.fits is None else _FITS[self.fits[index]]
        reason = f"{reason} in unit {self.unit}"
        return f"{reason}; in {fit} it would fit" if fit not in ("", self.unit) else reason

    def at(self, rows: npt.NDArray[np.intp]) -> "EventTimes":
        """Return the event times at positions."""
        fits = None if self.fits is None else self.fits[rows]
        return EventTimes(self.ms[rows], self.reason[rows], self.unit, fits)

    def spread(self, records: npt.NDArray[np.intp], height: int) -> "EventTimes":
        """Return event times of ``height`` records: these for ``records``, the others missing."""
        if len(records) == height:  # all records, in order
            return self
        ms, reason = np.zeros(height, np.int64), np.full(height, _code(MISSING), np.uint8)
        ms[records], reason[records] = self.ms, self.reason
        if self.fits is None:
            return EventTimes(ms, reason, self.unit)
        fits = np.zeros(height, np.uint8)
        fits[records] = self.fits
        return EventTimes(ms, reason, self.unit, fits)


def column_times(spec: ColumnTime, column: pl.Series) -> EventTimes:
    """Return the event times in a source's column."""
    if spec.unit == "iso8601":
        return _text_times(column, spec.zone)
    if column.dtype.is_float():
        return _float_times(column)
    return _number_times(column, spec.unit)


def value_times(column: pl.Series) -> EventTimes:
    """Return the values of an expression as event times: Int64 ms, or a Datetime with a zone."""
    if not isinstance(column.dtype, pl.Datetime):
        return _number_times(column, "ms")
    times = _number_times(column.to_physical(), column.dtype.time_unit)
    return EventTimes(times.ms, times.reason)


def record_times(timestamps: Times) -> EventTimes:
    """Return Kafka timestamps as event times; a negative timestamp is missing."""
    reason = _codes(timestamps > LATEST_MS, OUT_OF_RANGE)
    reason[timestamps < 0] = _code(MISSING)
    return EventTimes(timestamps, reason)


def _code(reason: str) -> np.uint8:
    return np.uint8(REASONS.index(reason))


def _codes(mask: Mask, reason: str) -> npt.NDArray[np.uint8]:
    return np.where(mask, _code(reason), np.uint8(0))


def instant_text(ms: int) -> str:
    """Return an instant as ISO 8601 text in UTC."""
    instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    return instant.isoformat().replace("+00:00", "Z")


def _number_times(column: pl.Series, unit: str) -> EventTimes:
    factor, divisor = _UNIT_MS[unit]
    numbers = without_nulls(column).to_numpy().astype(np.int64, copy=False)
    lowest = EARLIEST_MS * divisor // factor
    highest = LATEST_MS // factor if factor > 1 else min((LATEST_MS + 1) * divisor - 1, 2**63 - 1)
    reason = _codes((numbers < max(lowest, -(2**63))) | (numbers > highest), OUT_OF_RANGE)
    if column.null_count():
        reason[column.is_null().to_numpy()] = _code(MISSING)
    ms = np.where(reason == 0, numbers, 0) * factor // divisor
    return EventTimes(ms, reason, unit, _fitting_units(numbers))


def _float_times(column: pl.Series) -> EventTimes:
    seconds = column.fill_null(0.0).to_numpy()
    inside = (seconds >= EARLIEST_MS / 1000) & (seconds < (LATEST_MS + 1) / 1000)  # NaN is not
    reason = _codes(~inside, OUT_OF_RANGE)
    reason[column.is_null().to_numpy()] = _code(MISSING)
    usable = np.where(inside, seconds, 0.0)
    whole = np.floor(usable)
    us = np.rint((usable - whole) * 1e6).astype(np.int64)
    ms = whole.astype(np.int64) * 1000 + us // 1000
    return EventTimes(ms, reason, "s", _fitting_units(seconds))


def _fitting_units(
    numbers: npt.NDArray[np.int64] | npt.NDArray[np.float64],
) -> npt.NDArray[np.uint8]:
    fits = np.zeros(len(numbers), np.uint8)
    first_s, end_s = _FITTING_S
    for unit, per_second in _PER_SECOND.items():
        fitting = (numbers >= first_s * per_second) & (numbers < end_s * per_second)
        fits[fitting] = _FITS.index(unit)
    return fits


def _text_times(column: pl.Series, zone: str | None) -> EventTimes:
    ms, no_text, no_zone, no_instant = text_times(column, zone)
    reason = _codes(no_text, NO_TEXT)
    reason[no_zone] = _code(NO_ZONE)
    reason[no_instant] = _code(NO_INSTANT)
    reason[(reason == 0) & ((ms < EARLIEST_MS) | (ms > LATEST_MS))] = _code(OUT_OF_RANGE)
    reason[column.is_null().to_numpy()] = _code(MISSING)
    return EventTimes(ms, reason)
