"""Event times in columns: numbers in a unit, texts in one of several forms, values of expressions.

Floats of seconds are rounded to the microsecond and then floored to the millisecond.  So
1767225601.001, which is slightly less as a double, still means 1 ms.  Texts are tried in the units
of the source in turn; the first one in whose form a text is counts.  See docs/time.md.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.columns import without_nulls
from tidemark.core.time.assigners import ColumnTime
from tidemark.core.time.event_time import (
    EARLIEST_MS,
    FITS,
    LATEST_MS,
    MISSING,
    NO_INSTANT,
    NO_TEXT,
    NO_UNIT,
    NO_ZONE,
    NO_ZONE_NAME,
    OUT_OF_RANGE,
    EventTimes,
    code,
    codes,
)
from tidemark.core.time.text_times import (
    NO_FAULT,
    NO_OFFSET,
    NOT_IN_PATTERN,
    SKIPPED_OR_REPEATED,
    UNKNOWN_ZONE,
    TextTimes,
    Times,
    epoch_numbers,
    text_times,
)
from tidemark.core.time.time_pattern import TimePattern
from tidemark.core.time.time_units import (
    AUTO,
    EPOCH,
    PER_SECOND,
    TEXT_UNITS,
    likely_first,
    text_patterns,
)

# The length of a unit in ms as a fraction: multiply, then floor-divide.
_UNIT_MS = {"s": (1_000, 1), "ms": (1, 1), "us": (1, 1_000), "ns": (1, 1_000_000)}
_FITTING_S = (946_684_800, 4_102_444_800)  # 2000 to 2100, so at most one unit fits a number
_REASON_OF_FAULT = np.zeros(UNKNOWN_ZONE + 1, np.uint8)
_REASON_OF_FAULT[NOT_IN_PATTERN] = code(NO_TEXT)
_REASON_OF_FAULT[NO_OFFSET] = code(NO_ZONE)
_REASON_OF_FAULT[SKIPPED_OR_REPEATED] = code(NO_INSTANT)
_REASON_OF_FAULT[UNKNOWN_ZONE] = code(NO_ZONE_NAME)


def column_times(spec: ColumnTime, column: pl.Series) -> EventTimes:
    """Return the event times in a source's column."""
    if column.dtype == pl.String:
        return _text_times(column, spec)
    if isinstance(column.dtype, pl.Datetime):
        return value_times(column)
    if spec.unit in (EPOCH, AUTO):
        return _epoch_times(column)
    assert isinstance(spec.unit, str)
    return _float_times(column) if column.dtype.is_float() else _number_times(column, spec.unit)


def value_times(column: pl.Series) -> EventTimes:
    """Return the values of an expression as event times: Int64 ms, or a Datetime with a zone."""
    if not isinstance(column.dtype, pl.Datetime):
        return _number_times(column, "ms")
    times = _number_times(column.to_physical(), column.dtype.time_unit)
    return EventTimes(times.ms, times.reason)


def _number_times(column: pl.Series, unit: str) -> EventTimes:
    factor, divisor = _UNIT_MS[unit]
    numbers = without_nulls(column).to_numpy().astype(np.int64, copy=False)
    lowest = EARLIEST_MS * divisor // factor
    highest = LATEST_MS // factor if factor > 1 else min((LATEST_MS + 1) * divisor - 1, 2**63 - 1)
    reason = codes((numbers < max(lowest, -(2**63))) | (numbers > highest), OUT_OF_RANGE)
    if column.null_count():
        reason[column.is_null().to_numpy()] = code(MISSING)
    ms = np.where(reason == 0, numbers, 0) * factor // divisor
    return EventTimes(ms, reason, unit, _fitting_units(numbers))


def _float_times(column: pl.Series) -> EventTimes:
    seconds = column.fill_null(0.0).to_numpy()
    inside = (seconds >= EARLIEST_MS / 1000) & (seconds < (LATEST_MS + 1) / 1000)  # NaN is not
    reason = codes(~inside, OUT_OF_RANGE)
    reason[column.is_null().to_numpy()] = code(MISSING)
    usable = np.where(inside, seconds, 0.0)
    return EventTimes(_ms_of_seconds(usable), reason, "s", _fitting_units(seconds))


def _ms_of_seconds(seconds: npt.NDArray[np.float64]) -> Times:
    whole = np.floor(seconds)
    us = np.rint((seconds - whole) * 1e6).astype(np.int64)
    return whole.astype(np.int64) * 1000 + us // 1000


def _epoch_times(column: pl.Series) -> EventTimes:
    """Return numbers in the unit in which they are from 2000 to 2100; floats not as ns."""
    numbers = without_nulls(column).to_numpy()
    units = _fitting_units(numbers)
    if not column.dtype.is_float():
        ms = _ms_of_units(numbers.astype(np.int64, copy=False), units)
    else:
        units[units == FITS.index("ns")] = 0
        whole = np.floor(np.where(units > 0, numbers, 0.0)).astype(np.int64)
        seconds = units == FITS.index("s")
        ms = _ms_of_units(whole, units)
        ms[seconds] = _ms_of_seconds(numbers[seconds])
    reason = codes(units == 0, NO_UNIT)
    reason[column.is_null().to_numpy()] = code(MISSING)
    return EventTimes(ms, reason, numbers=numbers)


def _ms_of_units(numbers: Times, units: npt.NDArray[np.uint8]) -> Times:
    """Return the ms of numbers, each in its own unit; a number without a unit gives 0."""
    ms = np.zeros(len(numbers), np.int64)
    for unit, (factor, divisor) in _UNIT_MS.items():
        in_unit = units == FITS.index(unit)
        if in_unit.any():
            ms[in_unit] = numbers[in_unit] * factor // divisor
    return ms


def _fitting_units(
    numbers: npt.NDArray[np.int64] | npt.NDArray[np.float64],
) -> npt.NDArray[np.uint8]:
    fits = np.zeros(len(numbers), np.uint8)
    first_s, end_s = _FITTING_S
    for unit, per_second in PER_SECOND.items():
        fitting = (numbers >= first_s * per_second) & (numbers < end_s * per_second)
        fits[fitting] = FITS.index(unit)
    return fits


def _text_times(column: pl.Series, spec: ColumnTime) -> EventTimes:
    ms = np.zeros(len(column), np.int64)
    fault = np.full(len(column), NOT_IN_PATTERN, np.uint8)
    unread = column.is_not_null().arg_true().to_numpy().astype(np.intp)
    for unit in spec.units:
        unread = _read(column, unread, unit, spec.zone, ms, fault)
    reason = _REASON_OF_FAULT[fault]
    reason[(reason == 0) & ((ms < EARLIEST_MS) | (ms > LATEST_MS))] = code(OUT_OF_RANGE)
    if column.null_count():
        reason[column.is_null().to_numpy()] = code(MISSING)
    fits = _fitting_forms(column, unread) if len(unread) else None
    return EventTimes(ms, reason, fits=fits, forms=" or ".join(spec.units))


def _read(
    column: pl.Series,
    unread: npt.NDArray[np.intp],
    unit: str,
    zone: str | None,
    ms: Times,
    fault: npt.NDArray[np.uint8],
) -> npt.NDArray[np.intp]:
    """Read texts in a unit into ``ms`` and ``fault``; return the indices still unread."""
    if not len(unread):
        return unread
    for read in _readers(unit, zone, column[int(unread[0])]):
        if not len(unread):
            break
        whole = len(unread) == len(column)
        times = read(column if whole else column.gather(unread))
        ms[unread], fault[unread] = times.ms, times.fault
        unread = unread[times.fault == NOT_IN_PATTERN]
    return unread


def _readers(unit: str, zone: str | None, first: str) -> Iterator[Callable[[pl.Series], TextTimes]]:
    """Yield what reads a unit; ``first``: the first text."""
    if unit in (EPOCH, AUTO):
        yield _epoch_texts
    patterns: Sequence[TimePattern] = text_patterns(unit)
    if unit == AUTO:
        patterns = likely_first(patterns, first)
    for pattern in patterns:
        yield partial(text_times, pattern=pattern, zone=zone)


def _epoch_texts(column: pl.Series) -> TextTimes:
    whole, fraction_ms = epoch_numbers(column)
    units = _fitting_units(whole)
    in_seconds = units == FITS.index("s")
    ms = _ms_of_units(whole, units) + np.where(in_seconds, fraction_ms, 0)
    return TextTimes(ms, np.where(units > 0, NO_FAULT, NOT_IN_PATTERN).astype(np.uint8))


def _fitting_forms(column: pl.Series, unread: npt.NDArray[np.intp]) -> npt.NDArray[np.uint8]:
    """Return the code of the named unit that would read each text at ``unread``, or 0."""
    fits = np.zeros(len(column), np.uint8)
    for unit in TEXT_UNITS:
        ms, fault = np.zeros(len(column), np.int64), np.zeros(len(column), np.uint8)
        still = _read(column, unread, unit, None, ms, fault)
        fits[np.setdiff1d(unread, still)] = FITS.index(unit)
        unread = still
    return fits
