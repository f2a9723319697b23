"""Columns of times in schemas: ``datetime`` and ``date`` with their units and zone."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import polars as pl

from tidemark.core.rows.options import require_zone
from tidemark.core.rows.schema import INSTANT, Kind, TimeValue, has_times
from tidemark.core.time.event_time import epoch_ms, instant_text
from tidemark.core.time.time_pattern import time_pattern
from tidemark.core.time.time_units import AUTO, DAYS, is_text_unit, require_units
from tidemark.errors import PipelineError

TIME_TYPES: Mapping[Any, pl.DataType] = {datetime: INSTANT, date: pl.Date()}
"""Python types of times, and those of their columns."""

_DEFAULT: Mapping[pl.DataType, tuple[str, ...]] = {INSTANT: (AUTO,), pl.Date(): ("%Y-%m-%d",)}
_OF_DATES = {"date", "year", "short_year", "week_year", "month", "month_name", "day"}
_OF_DATES |= {"day_of_year", "week", "weekday"}


def time_kind(
    dtype: pl.DataType,
    unit: str | Sequence[str] | None,
    zone: str | None,
    where: str,
    *,
    lenient: bool,
) -> TimeValue:
    """Return how a column of times is read; ``where`` names the column in errors.

    Raises:
        PipelineError: a unit or the zone does not fit.
    """
    units = _units(dtype, unit, where)
    if zone is not None:
        require_zone(zone, where)
        if not any(map(is_text_unit, units)) or dtype == pl.Date:
            raise PipelineError(f"{where}: a zone needs a datetime with a unit of texts")
    return TimeValue(dtype, units, zone, lenient)


def _units(dtype: pl.DataType, unit: str | Sequence[str] | None, where: str) -> tuple[str, ...]:
    if unit is None:
        return _DEFAULT[dtype]
    units = (unit,) if isinstance(unit, str) else tuple(unit)
    if dtype == INSTANT:
        require_units(units, where)
        return units
    if units != (DAYS,):
        for each in units:
            if not isinstance(each, str) or "%" not in each:
                raise PipelineError(
                    f"{where}: unit {each!r} of a date is not {DAYS!r} or a pattern such as "
                    "'%d.%m.%Y'"
                )
            if not {*time_pattern(each).parts} <= _OF_DATES:
                raise PipelineError(
                    f"{where}: unit {each!r} of a date has a time; declare the column as datetime"
                )
    return units


def default_text(default: object, kind: Kind, where: str) -> Any:
    """Return the default of a column as a schema has it; of times, their text in ISO 8601.

    Raises:
        PipelineError: it is not of the column's type.
    """
    if not isinstance(kind, TimeValue):
        if default and has_times(kind):
            raise PipelineError(f"{where}: a default of {kind.dtype} can only be empty")
        return default
    if default is None:
        return None
    if kind.dtype == pl.Date and type(default) is date:
        return default.isoformat()
    if isinstance(default, datetime) and kind.dtype == INSTANT and default.tzinfo is not None:
        return instant_text(epoch_ms(default))
    needed = "a date" if kind.dtype == pl.Date else "a datetime with a zone"
    raise PipelineError(f"{where}: default {default!r} is not {needed}")
