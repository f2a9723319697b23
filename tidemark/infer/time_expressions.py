"""Event times that no unit reads, as expressions: dates and clocks apart, lists, dates of .NET.

docs/time.md, "Anything else".
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import polars as pl

from tidemark.infer.event_time import TimePlace, values_as
from tidemark.infer.observed import INT, TEXT, Path, value_at
from tidemark.infer.schema import Column, column_path, quoted, type_at
from tidemark.infer.time_texts import reading_of

_SHARE = 0.8
_NET = r"^/Date\(([0-9]{9,14})"
_CLOCKS = (
    (r"^[0-9]{1,2}:[0-9]{2}:[0-9]{2}$", "%H:%M:%S"),
    (r"^[0-9]{1,2}:[0-9]{2}:[0-9]{2}[.][0-9]+$", "%H:%M:%S%.f"),
    (r"^[0-9]{1,2}:[0-9]{2}$", "%H:%M"),
    (r"^[0-9]{1,2}:[0-9]{2}:[0-9]{2} [AP]M$", "%I:%M:%S %p"),
    (r"^[0-9]{1,2}:[0-9]{2} [AP]M$", "%I:%M %p"),
)
_DIGIT_CLOCKS = (
    (r"^([01][0-9]|2[0-3])[0-5][0-9]$", "%H%M", 4),
    (r"^([01][0-9]|2[0-3])[0-5][0-9][0-5][0-9]$", "%H%M%S", 6),
)
"""Patterns of clocks of digits alone, such as 1405, with the number of their digits."""

_CLOCK_NAMES = re.compile(r".*(time|clock|hour|hhmm|uhr).*|.*_?tm", re.IGNORECASE)


def expression_places(
    records: Sequence[object], columns: tuple[Column, ...], paths: Iterable[Path]
) -> Iterator[TimePlace]:
    """Yield places of times that need an expression."""
    groups: dict[Path, list[_Part]] = defaultdict(list)
    for path in paths:
        text = type_at(columns, path).text
        if text not in (TEXT, INT):
            continue
        values = [value_at(each, path) for each in records]
        if text == TEXT:
            column = values_as(values, pl.String(), is_lenient=True)
            groups[path[:-1]].append(_Part(path, _of(columns, path), column))
            yield from _net_dates(columns, path, column)
        else:
            column = values_as(values, pl.Int64(), is_lenient=True).cast(pl.String)
            groups[path[:-1]].append(_Part(path, f"{_of(columns, path)}.cast(pl.String)", column))
    for siblings in groups.values():
        yield from _dates_and_clocks(siblings)
    for each in columns:
        if each.type.before == "list[" and each.type.text == INT and not each.type.json:
            yield from _lists(records, each)


def expression_place(
    path: Path, ms: pl.Series, expression: tuple[str, ...], zone: str | None = None
) -> TimePlace:
    """Return the place of times that an expression reads; ``ms``: null where it reads no time."""
    known = ms.is_not_null().to_numpy()
    values = ms.fill_null(0).cast(pl.Int64).to_numpy()
    score = 6.0 + 4.0 * float(known.mean())
    return TimePlace(path, (), zone, values, np.asarray(known), score, expression=expression)


def _net_dates(columns: tuple[Column, ...], path: Path, column: pl.Series) -> Iterator[TimePlace]:
    found = column.str.extract(_NET)
    if found.null_count() <= (1 - _SHARE) * len(column):
        expression = (_of(columns, path), f'.str.extract(r"{_NET}")', ".cast(pl.Int64)")
        yield expression_place(path, found.cast(pl.Int64), expression)


@dataclass(frozen=True)
class _Part:
    """A place that may be a date or a clock: its expression, and its texts."""

    path: Path
    expression: str
    texts: pl.Series


def _dates_and_clocks(siblings: Sequence[_Part]) -> Iterator[TimePlace]:
    """Yield the first date and the first clock of the same object."""
    clock = next(filter(None, map(_clock, siblings)), None)
    date = None if clock is None else next(filter(None, map(_date, siblings)), None)
    if date is None or clock is None:
        return
    form = f"{date[1]} {clock[1]}"
    expression = (
        f'({date[0].expression} + " " + {clock[0].expression})',
        f'.str.to_datetime("{form}", time_zone="UTC")',
    )
    joined = date[0].texts + pl.Series([" "]) + clock[0].texts
    times = joined.str.to_datetime(form, time_unit="ms", time_zone="UTC", strict=False)
    yield expression_place(date[0].path, times.dt.epoch("ms"), expression, "UTC")


def _date(part: _Part) -> tuple[_Part, str] | None:
    """Return a place and the pattern of its dates; None if it has no dates in one pattern."""
    reading = reading_of(part.texts.drop_nulls())
    if reading is None or not reading.is_date or len(reading.units) > 1:
        return None
    return part, reading.units[0]


def _clock(part: _Part) -> tuple[_Part, str] | None:
    """Return a place and the pattern of its clocks; None without.

    Clocks of digits alone get texts of one width.
    """
    for pattern, form in _CLOCKS:
        if part.texts.str.contains(pattern).sum() >= _SHARE * len(part.texts):
            return part, form
    if not _CLOCK_NAMES.fullmatch(part.path[-1]):
        return None
    width = part.texts.str.len_chars().max()
    for pattern, form, digits in _DIGIT_CLOCKS:
        padded = part.texts.str.zfill(digits)
        if (
            width in (digits - 1, digits)
            and (padded.str.contains(pattern) | padded.is_null()).all()
        ):
            return _Part(part.path, f"{part.expression}.str.zfill({digits})", padded), form
    return None


def _lists(records: Sequence[object], column: Column) -> Iterator[TimePlace]:
    """Yield a place of lists of year, month, day, hour, minute and perhaps second."""
    values = [value_at(each, (column.member,)) for each in records]
    ms = pl.Series([_list_ms(value) for value in values], dtype=pl.Int64())
    if ms.null_count() <= (1 - _SHARE) * len(ms):
        items = f"col({quoted(column.name)}).list.get(n, null_on_oob=True).fill_null(0)"
        expression = ("pl.datetime(", f"*({items} for n in range(6)),", ' time_zone="UTC")')
        yield expression_place((column.member,), ms, expression, "UTC")


def _list_ms(value: object) -> int | None:
    if not isinstance(value, list) or not 5 <= len(value) <= 7:
        return None
    year, month, day, hour, minute, second = [*value, 0][:6]
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except (ValueError, TypeError, OverflowError):
        return None
    return int(moment.timestamp() * 1000) if 1990 <= year <= 2100 else None


def _of(columns: tuple[Column, ...], path: Path) -> str:
    """Return the expression of the column of a place."""
    name = column_path(columns, path)
    assert name is not None
    return f"{'field' if '.' in name else 'col'}({quoted(name)})"
