"""Event time of records: int64 milliseconds UTC, or the reason why it is absent.

A number is read in the unit that the source declares, and in no other.  It is not an event time if
it is outside the years 0001 to 9999, or before the source's ``min_time``.  Nor is it one if a
window of it would have a bound outside those years.  The reason names the unit and the range,
and the unit that would fit, if there is one.  See docs/semantics.md, "Event time".
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tidemark.core.time.text_times import Mask, Times
from tidemark.core.time.time_units import UNITS

_Array = TypeVar("_Array", bound=npt.NDArray[Any])

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MISSING = "missing"
OUT_OF_RANGE = "outside the years 0001 to 9999"
TOO_EARLY = "before min_time"
NO_WINDOW = "its window would have a bound outside the years 0001 to 9999"
NO_TEXT = "no date and time"
NO_ZONE = "no offset, and the source names no zone"
NO_INSTANT = "skipped or repeated by a clock change of the zone"
NO_ZONE_NAME = "its zone is not UTC, GMT, an offset or an IANA name such as Europe/Berlin"
NO_UNIT = "is from 2000 to 2100 in no unit of s, ms, us and ns"

REASONS = (
    "",
    MISSING,
    OUT_OF_RANGE,
    TOO_EARLY,
    NO_WINDOW,
    NO_TEXT,
    NO_ZONE,
    NO_INSTANT,
    NO_ZONE_NAME,
    NO_UNIT,
)
"""Reasons why a record has no event time, by code; code 0 means that it has one."""

EARLIEST_MS = -62_135_596_800_000  # 0001-01-01T00:00:00Z
LATEST_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z

FITS = ("", *UNITS)
"""Units that would fit, by code; code 0 means that no unit would."""


@dataclass(frozen=True, slots=True)
class EventTimes:
    """The event time of each record, in ``ms``, or the code of a reason.

    ``reason``: a code in REASONS; ``ms`` is valid where it is 0.  ``unit``: of numbers; ``forms``:
    the units of texts.  ``fits``: where those do not fit, the code of the unit that would.
    ``numbers``: as they came, where they are of unit "epoch".
    """

    ms: Times
    reason: npt.NDArray[np.uint8]
    unit: str | None = None
    fits: npt.NDArray[np.uint8] | None = None
    forms: str = ""
    numbers: npt.NDArray[np.int64] | npt.NDArray[np.float64] | None = None

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
        return replace(self, reason=np.where(early, code(TOO_EARLY), self.reason))

    def with_windows(self, longest_ms: int) -> "EventTimes":
        """Return the event times without those whose windows may have bounds out of range.

        ``longest_ms``: the length of the longest window that rows may be in.
        """
        fits = (self.ms >= EARLIEST_MS + longest_ms) & (self.ms <= LATEST_MS - longest_ms)
        beyond = self.known & ~fits
        if not beyond.any():
            return self
        return replace(self, reason=np.where(beyond, code(NO_WINDOW), self.reason))

    def why(self, index: int, min_ms: int | None) -> str:
        """Return the reason why a record has no event time, with unit and range, or ""."""
        reason = REASONS[self.reason[index]]
        fit = "" if self.fits is None else FITS[self.fits[index]]
        if reason == NO_TEXT:
            return f"{reason} in unit {self.forms}{f'; unit {fit} would read it' if fit else ''}"
        if reason == NO_UNIT:
            assert self.numbers is not None
            return f"{self.numbers[index].item()} {reason}"
        if reason not in (OUT_OF_RANGE, TOO_EARLY):
            return reason
        if reason == TOO_EARLY and min_ms is not None:
            reason = f"{TOO_EARLY} {instant_text(min_ms)}"
        if self.unit is None:
            return reason
        reason = f"{reason} in unit {self.unit}"
        return f"{reason}; in {fit} it would fit" if fit not in ("", self.unit) else reason

    def at(self, rows: npt.NDArray[np.intp]) -> "EventTimes":
        """Return the event times at positions."""
        fits = None if self.fits is None else self.fits[rows]
        numbers = None if self.numbers is None else self.numbers[rows]
        return replace(self, ms=self.ms[rows], reason=self.reason[rows], fits=fits, numbers=numbers)

    def spread(self, records: npt.NDArray[np.intp], height: int) -> "EventTimes":
        """Return event times of ``height`` records: these for ``records``, the others missing."""
        if len(records) == height:  # all records, in order
            return self
        reason = np.full(height, code(MISSING), np.uint8)
        reason[records] = self.reason
        return replace(
            self,
            ms=_spread(self.ms, records, height),
            reason=reason,
            fits=None if self.fits is None else _spread(self.fits, records, height),
            numbers=None if self.numbers is None else _spread(self.numbers, records, height),
        )


def _spread(values: _Array, records: npt.NDArray[np.intp], height: int) -> _Array:
    """Return values of ``height`` records: these for ``records``, and 0 for the others."""
    spread = np.zeros(height, values.dtype)
    spread[records] = values
    return spread  # type: ignore[return-value]  # the dtype is that of the values


def record_times(timestamps: Times) -> EventTimes:
    """Return Kafka timestamps as event times; a negative timestamp is missing."""
    reason = codes(timestamps > LATEST_MS, OUT_OF_RANGE)
    reason[timestamps < 0] = code(MISSING)
    return EventTimes(timestamps, reason)


def code(reason: str) -> np.uint8:
    """Return the code of a reason in REASONS."""
    return np.uint8(REASONS.index(reason))


def codes(mask: Mask, reason: str) -> npt.NDArray[np.uint8]:
    """Return the code of a reason where ``mask`` is true, and 0 elsewhere."""
    return np.where(mask, code(reason), np.uint8(0))


def instant_text(ms: int) -> str:
    """Return an instant as ISO 8601 text in UTC."""
    instant = _EPOCH + timedelta(milliseconds=ms)
    return instant.isoformat().replace("+00:00", "Z")


def epoch_ms(instant: datetime) -> int:
    """Return the ms UTC of a datetime with an offset; microseconds are floored."""
    return (instant - _EPOCH) // timedelta(milliseconds=1)
