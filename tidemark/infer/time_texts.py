"""The units that read texts of dates and times: one unit, or a list of them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidemark.core.time.assigners import ColumnTime
from tidemark.core.time.column_times import column_times
from tidemark.core.time.event_time import NO_ZONE, EventTimes, code
from tidemark.core.time.text_times import Times
from tidemark.core.time.time_units import AUTO, EPOCH, UNAMBIGUOUS, is_text_unit

_ANY = r"[0-9][^0-9]+[0-9]{2}|[0-9]{8}"  # every time has them, most texts do not
_SHARE = 0.5
_LEAST = 0.01
_HEAD = 500
_MOST_UNITS = 5
_DATES = (
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%Y%m%d",
    "%d-%m-%Y",
    "%d.%m.%y",
    "%d-%b-%Y",
    "%d-%b-%y",
)
_ODD = (
    "%Y-%m-%d %I:%M:%S %p",
    "%Y-%m-%d:%H:%M:%S",
    "%Y.%m.%d %H:%M:%S%.f",
    "%Y/%m/%d %H:%M",
    "%Y%m%d%H%M%S",
    "%Y%m%d%H%M",
    "%Y%m%d-%H:%M:%S%.f",
    "%Y%m%d %H:%M:%S",
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y %H:%M:%S%.f",
    "%d.%m.%Y, %H:%M:%S",
    "%d.%m.%y %H:%M:%S%.f",
    "%d.%m.%y %H:%M",
    "%d-%b-%y %I.%M.%S%.f %p",
    "%d-%b-%y %I.%M.%S%.f %p %z",
    "%d-%b-%Y %I.%M.%S%.f %p",
    "%d-%b-%y %H.%M.%S%.f",
    "%Y-%m-%d-%H.%M.%S%.f",
    "%d-%m-%Y %H:%M:%S",
    "%d-%m-%Y %H:%M",
    "%G-W%V-%uT%H:%M:%S%z",
    "%Y-%jT%H:%M:%S%z",
    "%d %B %Y %H:%M:%S",
    "%B %d, %Y %I:%M %p",
)
_ORDERS = ("%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y")
_CLOCKS = ("%I:%M:%S %p", "%H:%M:%S%.f", "%H:%M", "%I:%M %p")
_HOURS = "%Y%m%d%H"
_UNITS = (
    "iso8601",
    "rfc2822",
    _HOURS,  # before numbers: as seconds, such texts are of 2033 and later
    EPOCH,
    "%d/%b/%Y:%H:%M:%S %z",
    *UNAMBIGUOUS,
    *_ODD,
    *(f"{order} {clock}" for clock in _CLOCKS for order in _ORDERS),
    *(f"{order}, {clock}" for clock in _CLOCKS for order in _ORDERS[:2]),
    *_DATES,
)
"""Units to try on texts; the one that reads most of them is chosen, then one for the others."""


@dataclass(frozen=True)
class Reading:
    """How texts are read: units in turn, and the zone of texts without one.

    ``is_guess``: whether another unit gives other times for all texts.
    """

    units: tuple[str, ...]
    zone: str | None
    is_guess: bool = False

    @property
    def is_date(self) -> bool:
        """Whether the texts are dates without a time."""
        return {*self.units} <= {*_DATES}

    def times(self, column: pl.Series) -> EventTimes:
        """Return the times of a column."""
        unit = self.units if len(self.units) > 1 else self.units[0]
        return column_times(ColumnTime("", unit, self.zone), column)


def reading_of(texts: pl.Series) -> Reading | None:
    """Return the units that read most of the texts, None if most texts stay unread.

    The first texts decide, unless they leave day and month open or other texts differ from them.
    """
    found = _reading_of(texts.head(_HEAD))
    is_open = found is not None and (found.is_guess or _known(found, texts) < len(texts))
    return _reading_of(texts) if is_open and len(texts) > _HEAD else found


def _reading_of(texts: pl.Series) -> Reading | None:
    if not len(texts) or texts.str.contains(_ANY).sum() < _SHARE * len(texts):
        return None
    units: list[str] = []
    is_guess, rest = False, texts
    while len(rest) >= max(1, _LEAST * len(texts)) and len(units) < _MOST_UNITS:
        best = _best(rest, (each for each in _UNITS if each not in units))
        if best is None:
            break
        unit, known, others = best
        units.append(unit)
        is_guess = is_guess or others
        rest = rest.filter(pl.Series(~known))
    found = _reading(texts, (AUTO,)) if len(rest) else None
    if units:
        by_list = _reading(texts, tuple(units))
        if found is None or _known(by_list, texts) >= _known(found, texts):
            found = Reading(by_list.units, by_list.zone, is_guess)
    if found is None or _known(found, texts) < _SHARE * len(texts):
        return None
    return found


def _best(texts: pl.Series, units: Iterable[str]) -> tuple[str, np.ndarray, bool] | None:
    """Return the unit that reads most texts, which ones, and whether another reads them otherwise.

    If several units read the same number of texts, the one whose times are most in order is chosen.
    Of two that read the same texts equally in order, the one that spans the shorter time is chosen.
    """
    best: tuple[tuple[int, float], str, EventTimes] | None = None
    is_guess = False
    for unit in units:
        times = column_times(ColumnTime("", unit, "UTC" if is_text_unit(unit) else None), texts)
        count = int(times.known.sum())
        if not count:
            continue
        key = (count, share_in_order(times.ms[times.known]))
        if best is not None and count == best[0][0]:
            both = times.known & best[2].known
            differs = bool((times.ms != best[2].ms)[both].any())
            is_guess = is_guess or differs
        elif best is None or count > best[0][0]:
            is_guess = False
        is_shorter = best is not None and key == best[0] and _is_shorter(times, best[2])
        if best is None or key > best[0] or is_shorter:
            best = key, unit, times
        if count == len(texts) and unit in ("iso8601", _HOURS, EPOCH, "rfc2822"):
            break
    return None if best is None else (best[1], best[2].known, is_guess)


def _reading(texts: pl.Series, units: tuple[str, ...]) -> Reading:
    """Return a reading with a zone if most texts need one."""
    without = Reading(units, None).times(texts)
    needs = ((without.reason == code(NO_ZONE)) & ~without.known).any()
    return Reading(units, "UTC" if needs else None)


def _known(reading: Reading, texts: pl.Series) -> int:
    return int(reading.times(texts).known.sum())


def share_in_order(ms: Times) -> float:
    """Return the share of times that are not before the one before them."""
    steps = np.diff(ms)
    return float((steps >= 0).mean()) if len(steps) else 0.0


def _is_shorter(times: EventTimes, others: EventTimes) -> bool:
    """Return whether times of the same texts span a shorter time than the others."""
    is_same = bool((times.known == others.known).all())
    return is_same and bool(np.ptp(times.ms[times.known]) < np.ptp(others.ms[others.known]))
