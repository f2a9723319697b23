"""Times in decoded values: texts and numbers of a column as instants or dates.

The rules are those of event time (docs/time.md).  Whole columns are read at once.  A value that is
not a time of its column gets a reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.rows.schema import TimeValue
from tidemark.core.time.assigners import ColumnTime
from tidemark.core.time.column_times import column_times
from tidemark.core.time.event_time import EARLIEST_MS, LATEST_MS, OUT_OF_RANGE, EventTimes
from tidemark.core.time.time_units import AUTO, DAYS, EPOCH, NUMBER_UNITS
from tidemark.serde.spellings.lenient import NO_VALUE, kind_name

_DAY_MS = 86_400_000
_LONGEST = 2**63
_NO_VALUE = rf"^(?i:\s*(?:{NO_VALUE})\s*)$"
_NUMBER = r"^\s*[+-]?[0-9]{1,18}\s*$"


class FormatTime(int):
    """A time that its format marks as one: a number in ``unit``, whatever the column's units."""

    unit = ""


class FormatDays(FormatTime):
    """A date of its format: days since 1970-01-01."""

    unit = DAYS


class FormatMillis(FormatTime):
    """An instant of its format in ms."""

    unit = "ms"


class FormatMicros(FormatTime):
    """An instant of its format in microseconds."""

    unit = "us"


class FormatNanos(FormatTime):
    """An instant of its format in nanoseconds."""

    unit = "ns"


@dataclass
class _Times:
    """Numbers of a TimeValue, ms or days, by position; ``reasons``: where a value is not a time.

    ``converted``: how many were converted because the column is lenient.
    """

    numbers: npt.NDArray[np.int64]
    known: npt.NDArray[np.bool_]
    reasons: dict[int, str] = field(default_factory=dict)
    converted: int = 0


@dataclass(frozen=True)
class TimeColumn:
    """A column of times.

    ``reasons``: by position, why a value is not a time; it is null in ``series``.  ``converted``:
    how many values were converted because the column is lenient.
    """

    series: pl.Series
    reasons: Mapping[int, str]
    converted: int


def time_column(name: str, values: Sequence[Any], kind: TimeValue) -> TimeColumn:
    """Return decoded values as a column of times; None is null."""
    types = set(map(type, values)) - {NoneType}
    if len(types) == 1:
        times = _times(values, types.pop(), kind)
    else:
        times = _mixed(values, sorted(types, key=lambda each: each.__name__), kind)
    numbers = pl.Series(name, times.numbers).set(pl.Series(~times.known), None)
    if kind.dtype == pl.Date:
        numbers = numbers.cast(pl.Int32)
    return TimeColumn(numbers.cast(kind.dtype), times.reasons, times.converted)


def _all_null(count: int) -> _Times:
    return _Times(np.zeros(count, np.int64), np.zeros(count, np.bool_))


def _mixed(values: Sequence[Any], types: Sequence[type], kind: TimeValue) -> _Times:
    """Return the times of values of several types."""
    whole = _all_null(len(values))
    for type_ in types:
        of_type = np.fromiter((type(value) is type_ for value in values), np.bool_, len(values))
        places = np.flatnonzero(of_type)
        times = _times([values[place] for place in places.tolist()], type_, kind)
        whole.numbers[places], whole.known[places] = times.numbers, times.known
        whole.reasons |= {int(places[at]): reason for at, reason in times.reasons.items()}
        whole.converted += times.converted
    return whole


def _times(values: Sequence[Any], type_: type, kind: TimeValue) -> _Times:
    """Return the times of values of one type, or None."""
    if type_ is str:
        return _of_texts(values, kind)
    if issubclass(type_, FormatTime):
        is_date = type_.unit == DAYS
        if is_date == (kind.dtype == pl.Date):
            return _of_numbers(values, replace(kind, units=(type_.unit,)))
        got = "a date" if is_date else "an instant"
    elif type_ in (int, float):
        if unit := _number_unit(kind, type_):
            return _of_numbers(values, replace(kind, units=(unit,)))
        got = type_.__name__
    else:
        got = ""
    expected = f"expected {kind.name}, got"
    faults = {
        place: f"{expected} {got or kind_name(value)}"
        for place, value in enumerate(values)
        if value is not None
    }
    times = _all_null(len(values))
    times.reasons = faults
    return times


def _number_unit(kind: TimeValue, type_: type) -> str | None:
    """Return the unit in which numbers of a type are read; None if none reads them."""
    known = (*NUMBER_UNITS, DAYS) if type_ is int else ("s",)
    units = [unit for unit in kind.units if unit in known]
    return units[0] if units else EPOCH if {AUTO, EPOCH} & {*kind.units} else None


def _of_numbers(values: Sequence[Any], kind: TimeValue) -> _Times:
    (unit,) = kind.units
    if float in map(type, values):
        column = pl.Series(values, dtype=pl.Float64)
        return _event_times(column, column_times(ColumnTime("", unit), column))
    try:
        column = pl.Series(values, dtype=pl.Int64)
        beyond = {}
    except (OverflowError, TypeError):
        beyond = {
            place: "number out of range"
            for place, value in enumerate(values)
            if value is not None and not -_LONGEST <= value < _LONGEST
        }
        fitting = [None if place in beyond else value for place, value in enumerate(values)]
        column = pl.Series(fitting, dtype=pl.Int64)
    if unit == DAYS:
        times = _of_days(column)
    else:
        times = _event_times(column, column_times(ColumnTime("", unit), column))
    times.reasons |= beyond
    return times


def _of_days(column: pl.Series) -> _Times:
    days = column.fill_null(0).to_numpy()
    inside = (days >= EARLIEST_MS // _DAY_MS) & (days <= LATEST_MS // _DAY_MS)
    reasons = dict.fromkeys(np.flatnonzero(~inside).tolist(), f"{OUT_OF_RANGE} in unit {DAYS}")
    return _Times(days, inside & column.is_not_null().to_numpy(), reasons)


def _of_texts(values: Sequence[Any], kind: TimeValue) -> _Times:
    column = pl.Series(values, dtype=pl.String)
    converted = 0
    if kind.lenient:
        empty = column.str.contains(_NO_VALUE).fill_null(value=False)
        converted = int(empty.sum())
        column = column.set(empty, None)
    if kind.units[0] in (*NUMBER_UNITS, DAYS):
        times = _of_number_texts(column, kind)
    else:
        spec = ColumnTime("", kind.units, _zone(kind))
        times = _event_times(column, column_times(spec, column))
        if kind.dtype == pl.Date:
            times.numbers //= _DAY_MS
    times.converted += converted
    return times


def _zone(kind: TimeValue) -> str | None:
    """Return the zone of texts without an offset; a date is the same in all."""
    return "UTC" if kind.dtype == pl.Date else kind.zone


def _of_number_texts(column: pl.Series, kind: TimeValue) -> _Times:
    """Return the times of texts in a unit of numbers, which only lenient columns read."""
    is_number = column.str.contains(_NUMBER).fill_null(value=False) & kind.lenient
    numbers = column.set(~is_number, None).str.strip_chars().cast(pl.Int64)
    times = _of_numbers(numbers.to_list(), kind)
    times.converted = int(is_number.sum())
    for place in (~is_number & column.is_not_null()).arg_true():
        times.reasons[place] = f"expected {kind.name}, got str"
    return times


def _event_times(column: pl.Series, found: EventTimes) -> _Times:
    faults = np.flatnonzero(~found.known & column.is_not_null().to_numpy())
    reasons = {place: found.why(place, None) for place in faults.tolist()}
    return _Times(found.ms, found.known, reasons)
