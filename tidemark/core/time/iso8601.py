"""ISO 8601 texts to event time: int64 milliseconds UTC, or the reason why a text has no time.

Texts have a date, ``T`` or a space, a time with optional seconds and fraction (to the nanosecond,
floored to ms), and ``Z``, ``+02``, ``+0200`` or ``+02:00``.  A text without an offset needs the
source's zone, and must name exactly one instant there: not one that a change of the clocks skipped
or repeated.  Leap seconds (``:60``) are no instants.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

Times = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_TEXT = (
    r"^([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}):([0-9]{2})"
    r"(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?(?:[Zz]|([+-])([0-9]{2})(?::?([0-9]{2}))?)?$"
)
_NAIVE = r"[Tt ][^Zz+-]+$"
_PARTS = (
    "date",
    "hour",
    "minute",
    "second",
    "fraction",
    "sign",
    "hours",
    "minutes",
)
_NUMBERS = ("hour", "minute", "second", "hours", "minutes")
_DAY_MS = 86_400_000


def text_times(column: pl.Series, zone: str | None) -> tuple[Times, Mask, Mask, Mask]:
    """Return the ms of each text, and three masks of those that are none.

    The masks: no ISO 8601 text; no offset and no zone; no single instant in the zone.
    """
    parts = column.str.extract_groups(_TEXT).struct.unnest()
    parts.columns = _PARTS
    number = {name: _number(parts[name]) for name in _NUMBERS}
    date = parts["date"].str.to_date("%Y-%m-%d", strict=False)
    bad = (date.is_null() | (date.dt.year() < 1)).fill_null(True).to_numpy() | ~_in_a_day(number)
    day_ms = date.cast(pl.Int64).fill_null(0).to_numpy() * _DAY_MS
    time_ms = _time_ms(number) + _fraction_ms(parts["fraction"])
    ms = day_ms + time_ms - _offset_ms(number, parts["sign"])
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


def _in_a_day(number: dict[str, Times]) -> Mask:
    in_day = (number["hour"] < 24) & (number["minute"] < 60) & (number["second"] < 60)
    offset_fits = (number["hours"] < 24) & (number["minutes"] < 60)
    fits: Mask = in_day & offset_fits
    return fits


def _time_ms(number: dict[str, Times]) -> Times:
    minutes = number["hour"] * 60 + number["minute"]
    ms: Times = (minutes * 60 + number["second"]) * 1_000
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
