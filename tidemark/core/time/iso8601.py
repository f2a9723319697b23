"""ISO 8601 texts as event time: int64 milliseconds UTC, or the reason why it is absent.

A text is a date, ``T`` or a space, a time with optional seconds and fraction (to the nanosecond,
floored to ms), and ``Z``, ``+02``, ``+0200`` or ``+02:00``.  A text without an offset needs the
source's zone, and must name exactly one instant there: a local time that a clock change skipped or
repeated is refused.  Leap seconds (``:60``) are refused.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

Times = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

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


def text_times(column: pl.Series, zone: str | None) -> tuple[Times, Mask, Mask, Mask]:
    """Return the ms of each text, and three masks of texts without an event time.

    The masks: not an ISO 8601 text; no offset and no zone; not exactly one instant in the zone.
    """
    parts = column.str.extract_groups(_TEXT).struct.unnest()
    parts.columns = _PARTS
    number = {name: _number(parts[name]) for name in _PARTS if name not in ("fraction", "sign")}
    bad = parts["year"].is_null().to_numpy() | ~_on_the_calendar(number)
    ms = _civil_ms(number) + _fraction_ms(parts["fraction"]) - _offset_ms(number, parts["sign"])
    naive = column.str.contains(_NAIVE).fill_null(False).to_numpy() & ~bad
    nowhere = np.zeros(len(ms), np.bool_)
    if zone is None or not naive.any():
        return ms, bad, naive if zone is None else nowhere, nowhere
    ms, lost = _in_zone(ms, naive, zone)
    return ms, bad, nowhere, lost


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
    """Return the ms since 1970 of Gregorian dates and times; years are counted from March."""
    march_month = (number["month"] + 9) % 12
    year = number["year"] - (number["month"] <= 2)
    before_year = 365 * year + year // 4 - year // 100 + year // 400
    days = before_year + (153 * march_month + 2) // 5 + number["day"] - 1 - 719_468
    hours = days * 24 + number["hour"]
    ms: Times = ((hours * 60 + number["minute"]) * 60 + number["second"]) * 1_000
    return ms


def _in_zone(ms: Times, naive: Mask, zone: str) -> tuple[Times, Mask]:
    """Return ms with the naive times read in the zone, and a mask of those without one instant."""
    local = pl.Series(ms[naive]).cast(pl.Datetime("ms"))
    instants = local.dt.replace_time_zone(zone, ambiguous="null", non_existent="null").cast(
        pl.Int64
    )
    ms, lost = ms.copy(), np.zeros(len(ms), np.bool_)
    ms[naive] = instants.fill_null(0).to_numpy()
    lost[naive] = instants.is_null().to_numpy()
    return ms, lost
