"""Dates and times in text to event time: int64 milliseconds UTC, or the fault of a text.

A text without an offset and without a zone is local time of the source's zone.  It must name
exactly one instant there: not one that a change of the clocks skipped or repeated.  An offset
counts more than a zone beside it.  Leap seconds (``:60``) and the hour 24 are no instants.
Fractions are floored.  See docs/time.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.columns import without_nulls
from tidemark.core.time.time_pattern import MONTHS, TimePattern

Times = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NO_FAULT, NOT_IN_PATTERN, NO_OFFSET, SKIPPED_OR_REPEATED, UNKNOWN_ZONE = range(5)
"""Faults of a text, by code."""

_NUMBERS = frozenset(
    {
        "year", "short_year", "week_year", "month", "day", "day_of_year", "week", "weekday",
        "hour", "hour_of_half", "minute", "second", "hours", "minutes",
    }
)  # fmt: skip
_UTC = ("utc", "gmt", "ut", "z")
_DAY_MS = 86_400_000
_DAYS_OF_MONTH = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_PIVOT = 69  # as POSIX: 69 to 99 are of the 20th century, 00 to 68 of the 21st


@dataclass(frozen=True, slots=True)
class TextTimes:
    """The ms of each text, and the code of its fault; ``ms`` is valid where that is NO_FAULT."""

    ms: Times
    fault: npt.NDArray[np.uint8]


def text_times(column: pl.Series, pattern: TimePattern, zone: str | None) -> TextTimes:
    """Return the times of texts in a pattern; ``zone``: of texts without an offset and a zone."""
    parts = _Parts.of(column, pattern)
    if parts.unmatched.all():
        return TextTimes(
            np.zeros(len(column), np.int64), np.full(len(column), NOT_IN_PATTERN, np.uint8)
        )
    day, bad = _days(parts)
    bad |= parts.unmatched | ~_in_a_day(parts)
    fault = np.where(bad, NOT_IN_PATTERN, NO_FAULT).astype(np.uint8)
    ms = day * _DAY_MS + _time_ms(parts) - _offset_ms(parts)
    local = ~bad & ~parts.has("utc") & ~parts.has("sign")
    if local.any():
        for name, in_zone in parts.zones(local):
            if name == "UTC" or "/" in name:
                _move_to(name, in_zone, ms, fault)
            else:
                fault[in_zone] = UNKNOWN_ZONE
            local &= ~in_zone
        if zone is not None:
            _move_to(zone, local, ms, fault)
        else:
            fault[local] = NO_OFFSET
    return TextTimes(ms, fault)


def epoch_numbers(column: pl.Series) -> tuple[Times, Times]:
    """Return the numbers in texts: whole parts, 0 for other texts, and ms of fractions."""
    parts = column.str.extract_groups(r"^([0-9]{9,19})(?:\.([0-9]{1,12}))?$").struct.unnest()
    whole = parts.to_series(0).cast(pl.Int64, strict=False)
    return whole.fill_null(0).to_numpy(), _fraction_ms(parts.to_series(1))


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of texts as columns; ``unmatched``: a mask of the texts not in the pattern."""

    texts: Mapping[str, pl.Series]
    numbers: Mapping[str, Times]
    unmatched: Mask

    @classmethod
    def of(cls, column: pl.Series, pattern: TimePattern) -> "_Parts":
        names = pattern.parts
        groups = column.str.extract_groups(pattern.regex).struct.unnest()
        texts = dict(zip(names, groups.get_columns(), strict=True))
        (year,) = {"date", "year", "short_year", "week_year"}.intersection(names)
        numbers = {
            name: without_nulls(texts[name].cast(pl.Int64)).to_numpy()
            for name in names
            if name in _NUMBERS and texts[name].null_count() < len(column)
        }
        return cls(texts, numbers, texts[year].is_null().to_numpy())

    def number(self, name: str, default: int = 0) -> Times:
        """Return a number of each text, or ``default`` if the pattern does not have it."""
        found = self.numbers.get(name)
        return np.full(len(self.unmatched), default) if found is None else found

    def has(self, name: str) -> Mask:
        """Return a mask of the texts that have a part."""
        if not self.any(name):
            return np.zeros(len(self.unmatched), np.bool_)
        mask: Mask = self.texts[name].is_not_null().to_numpy()
        return mask

    def any(self, name: str) -> bool:
        """Return whether any text has a part."""
        return name in self.texts and self.texts[name].null_count() < len(self.unmatched)

    def zones(self, local: Mask) -> list[tuple[str, Mask]]:
        """Return the zones that local times name, each with its mask; UTC has one name.

        An abbreviation is no zone, although some, such as EST, are names in the IANA database.
        """
        if not self.any("zone"):
            return []
        zones = self.texts["zone"].fill_null("")
        is_utc = zones.str.to_lowercase().is_in(_UTC)
        zones = pl.repeat("UTC", len(zones), eager=True).zip_with(is_utc, zones)
        names = zones.filter(pl.Series(local)).unique().to_list()
        return [(name, local & (zones == name).to_numpy()) for name in names if name]


def _days(parts: _Parts) -> tuple[Times, Mask]:
    """Return the day of each text, from 1970-01-01, and a mask of the texts with no such day."""
    if "date" in parts.texts:
        dates = parts.texts["date"].str.to_date("%Y-%m-%d", strict=False)
        absent = (dates.is_null() | (dates.dt.year() < 1)).fill_null(value=True)
        return dates.cast(pl.Int64).fill_null(0).to_numpy(), absent.to_numpy()
    year = parts.number("year")
    if "short_year" in parts.numbers:
        short = parts.number("short_year")
        year = short + np.where(short >= _PIVOT, 1900, 2000)
    if "week_year" in parts.numbers:
        return _days_of_weeks(parts)
    if "day_of_year" in parts.numbers:
        day_of_year = parts.number("day_of_year")
        bad = (year < 1) | (day_of_year < 1) | (day_of_year > 365 + _is_leap(year))
        return _first_days(year) + day_of_year - 1, bad
    month, day = parts.number("month"), parts.number("day")
    if "month_name" in parts.texts:
        names = parts.texts["month_name"].str.slice(0, 3).str.to_lowercase()
        month = names.replace_strict(MONTHS, range(1, 13), default=0).fill_null(0).to_numpy()
    bad = (year < 1) | (month < 1) | (month > 12)
    month = np.where(bad, 1, month)
    bad |= (day < 1) | (day > _DAYS_OF_MONTH[month - 1] + ((month == 2) & _is_leap(year)))
    before = (367 * month - 362) // 12 - np.where(month <= 2, 0, 2 - _is_leap(year))
    return _first_days(year) + before + day - 1, bad


def _days_of_weeks(parts: _Parts) -> tuple[Times, Mask]:
    """Return the days of ISO years, weeks and weekdays; week 1 has 4 January."""
    year, week, weekday = (parts.number(name) for name in ("week_year", "week", "weekday"))
    first = _first_monday(year)
    weeks = (_first_monday(year + 1) - first) // 7
    bad = (year < 1) | (week < 1) | (week > weeks)
    return first + (week - 1) * 7 + weekday - 1, bad


def _first_monday(year: Times) -> Times:
    fourth = _first_days(year) + 3
    return fourth - (fourth + 3) % 7  # day 0 is a Thursday


def _first_days(year: Times) -> Times:
    """Return the day of each 1 January, from 1970-01-01."""
    before = year - 1
    return before * 365 + before // 4 - before // 100 + before // 400 - 719_162


def _is_leap(year: Times) -> Mask:
    leap: Mask = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    return leap


def _in_a_day(parts: _Parts) -> Mask:
    half = parts.number("hour_of_half", 12)
    in_day = (parts.number("hour") < 24) & (parts.number("minute") < 60)
    in_day &= (parts.number("second") < 60) & (half >= 1) & (half <= 12)
    fits: Mask = in_day & (parts.number("hours") < 24) & (parts.number("minutes") < 60)
    return fits


def _time_ms(parts: _Parts) -> Times:
    hour = parts.number("hour")
    if "half" in parts.texts:
        is_pm = parts.texts["half"].str.slice(0, 1).str.to_lowercase() == "p"
        hour = parts.number("hour_of_half") % 12 + 12 * is_pm.fill_null(value=False).to_numpy()
    minutes = hour * 60 + parts.number("minute")
    ms: Times = (minutes * 60 + parts.number("second")) * 1_000
    return ms + _fraction_ms(parts.texts["fraction"]) if parts.any("fraction") else ms


def _fraction_ms(digits: pl.Series) -> Times:
    filled = digits.fill_null("") if digits.null_count() else digits
    ms = filled.str.pad_end(3, "0").str.slice(0, 3)
    return ms.cast(pl.Int64).to_numpy()


def _offset_ms(parts: _Parts) -> Times:
    ahead = (parts.number("hours") * 60 + parts.number("minutes")) * 60_000
    if not parts.any("sign"):
        return ahead
    behind = (parts.texts["sign"] == "-").fill_null(value=False).to_numpy()
    offset: Times = np.where(behind, -ahead, ahead)
    return offset


def _move_to(zone: str, local: Mask, ms: Times, fault: npt.NDArray[np.uint8]) -> None:
    """Change local times to instants of a zone, in place; mark those that are not exactly one."""
    times = pl.Series(ms[local]).cast(pl.Datetime("ms"))
    try:
        instants = times.dt.replace_time_zone(zone, ambiguous="null", non_existent="null")
    except pl.exceptions.ComputeError:
        fault[local] = UNKNOWN_ZONE
        return
    ms[local] = instants.cast(pl.Int64).fill_null(0).to_numpy()
    fault[local] = np.where(instants.is_null().to_numpy(), SKIPPED_OR_REPEATED, NO_FAULT)
