"""From a record's column to event time: int64 milliseconds UTC, or a reason why there is none.

ISO 8601 texts have a date, ``T`` or a space, a time with optional seconds and fraction (to the
nanosecond, floored to ms), and ``Z``, ``+02``, ``+0200`` or ``+02:00``.  A text without an offset
needs the source's zone, and must name exactly one instant there: not one that a change of the
clocks skipped or repeated.  Leap seconds (``:60``) are no instants.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.watermark import ColumnTime, Mask, Times

MISSING = "missing"
OUT_OF_RANGE = "outside the years 0001 to 9999"
NO_TEXT = "no ISO 8601 date and time"
NO_ZONE = "no offset, and the source names no zone"
NO_INSTANT = "skipped or repeated by a clock change of the zone"

REASONS = ("", MISSING, OUT_OF_RANGE, NO_TEXT, NO_ZONE, NO_INSTANT)
"""Why a record has no event time, by code; 0 where it has one."""

EARLIEST_MS = -62_135_596_800_000  # 0001-01-01T00:00:00Z
LATEST_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z

# A unit's length in ms as a fraction: multiply, then floor-divide.
_UNIT_MS = {"s": (1_000, 1), "ms": (1, 1), "us": (1, 1_000), "ns": (1, 1_000_000)}

_TEXT = (
    r"^([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2})"
    r"(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?(?:[Zz]|([+-])([0-9]{2})(?::?([0-9]{2}))?)?$"
)
_NAIVE = r"[Tt ][^Zz+-]+$"
_PARTS = (
    "year",
    "month",
    "day",
    "hour",
    "minute",
    "second",
    "fraction",
    "sign",
    "hours",
    "minutes",
)
_LAST_DAY = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


@dataclass(frozen=True, slots=True)
class EventTimes:
    """Event time of each record, and a code into REASONS; ``ms`` counts only where that is 0."""

    ms: Times
    reason: npt.NDArray[np.uint8]

    @property
    def known(self) -> Mask:
        """Tell which records have an event time."""
        known: Mask = self.reason == 0
        return known


def column_times(spec: ColumnTime, column: pl.Series) -> EventTimes:
    """Return the event times that a source's column holds."""
    if spec.unit == "iso8601":
        return _text_times(column, spec.zone)
    return _number_times(column, spec.unit)


def record_times(timestamps: Times) -> EventTimes:
    """Return Kafka timestamps as event times; a negative one means that there is none."""
    reason = _codes(timestamps > LATEST_MS, OUT_OF_RANGE)
    reason[timestamps < 0] = REASONS.index(MISSING)
    return EventTimes(timestamps, reason)


def _codes(mask: Mask, reason: str) -> npt.NDArray[np.uint8]:
    return np.where(mask, REASONS.index(reason), 0).astype(np.uint8)


def _number_times(column: pl.Series, unit: str) -> EventTimes:
    factor, divisor = _UNIT_MS[unit]
    numbers = column.fill_null(0).to_numpy().astype(np.int64, copy=False)
    lowest = EARLIEST_MS * divisor // factor
    highest = LATEST_MS // factor if factor > 1 else min((LATEST_MS + 1) * divisor - 1, 2**63 - 1)
    reason = _codes((numbers < max(lowest, -(2**63))) | (numbers > highest), OUT_OF_RANGE)
    reason[column.is_null().to_numpy()] = REASONS.index(MISSING)
    return EventTimes(np.where(reason == 0, numbers, 0) * factor // divisor, reason)


def _text_times(column: pl.Series, zone: str | None) -> EventTimes:
    parts = column.str.extract_groups(_TEXT).struct.unnest()
    parts.columns = _PARTS
    number = {name: _number(parts[name]) for name in _PARTS if name not in ("fraction", "sign")}
    bad = parts["year"].is_null().to_numpy() | ~_on_the_calendar(number)
    ms = _civil_ms(number) + _fraction_ms(parts["fraction"]) - _offset_ms(number, parts["sign"])
    reason = _codes(bad, NO_TEXT)
    naive = column.str.contains(_NAIVE).fill_null(False).to_numpy() & ~bad
    if zone is None:
        reason[naive] = REASONS.index(NO_ZONE)
    elif naive.any():
        ms, lost = _in_zone(ms, naive, zone)
        reason[lost] = REASONS.index(NO_INSTANT)
    reason[(reason == 0) & ((ms < EARLIEST_MS) | (ms > LATEST_MS))] = REASONS.index(OUT_OF_RANGE)
    reason[column.is_null().to_numpy()] = REASONS.index(MISSING)
    return EventTimes(ms, reason)


def _number(digits: pl.Series) -> Times:
    return digits.cast(pl.Int64).fill_null(0).to_numpy()


def _fraction_ms(digits: pl.Series) -> Times:
    return _number(digits.fill_null("").str.pad_end(3, "0").str.slice(0, 3))


def _offset_ms(number: dict[str, Times], sign: pl.Series) -> Times:
    ahead = (number["hours"] * 60 + number["minutes"]) * 60_000
    offset: Times = np.where((sign == "-").fill_null(False).to_numpy(), -ahead, ahead)
    return offset


def _on_the_calendar(number: dict[str, Times]) -> Mask:
    year, month = number["year"], number["month"]
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    last_day = _LAST_DAY[np.clip(month, 0, 12)] + (leap & (month == 2))
    in_day = (number["hour"] < 24) & (number["minute"] < 60) & (number["second"] < 60)
    offset_fits = (number["hours"] < 24) & (number["minutes"] < 60)
    dated = (month >= 1) & (month <= 12) & (number["day"] >= 1) & (number["day"] <= last_day)
    fits: Mask = (year > 0) & dated & in_day & offset_fits
    return fits


def _civil_ms(number: dict[str, Times]) -> Times:
    """Return the ms since 1970 of a Gregorian date and time, counting years from March."""
    march_month = (number["month"] + 9) % 12
    year = number["year"] - (number["month"] <= 2)
    before_year = 365 * year + year // 4 - year // 100 + year // 400
    days = before_year + (153 * march_month + 2) // 5 + number["day"] - 1 - 719_468
    hours = days * 24 + number["hour"]
    ms: Times = ((hours * 60 + number["minute"]) * 60 + number["second"]) * 1_000
    return ms


def _in_zone(ms: Times, naive: Mask, zone: str) -> tuple[Times, Mask]:
    """Read the naive times as local ones; tell which are not exactly one instant."""
    local = pl.Series(ms[naive]).cast(pl.Datetime("ms"))
    instants = local.dt.replace_time_zone(zone, ambiguous="null", non_existent="null").cast(
        pl.Int64
    )
    ms, lost = ms.copy(), np.zeros(len(ms), np.bool_)
    ms[naive] = instants.fill_null(0).to_numpy()
    lost[naive] = instants.is_null().to_numpy()
    return ms, lost
