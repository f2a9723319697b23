"""Records that wrap a list of the real ones: the lists on the way to them, and their time.

Such are CloudTrail's ``Records``, GeoJSON's ``features``, OpenTelemetry's ``resourceSpans`` and the
answers of many APIs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from tidemark.core.time.time_units import PER_SECOND
from tidemark.infer.event_time import DTYPES, TimePlace, time_places, values_as
from tidemark.infer.observed import FLOAT, TEXT, Observed, Path, value_at
from tidemark.infer.schema import Column, Type, column_path, quoted, type_at

_SHARE = 0.8
_ITEMS = 5_000
_DEEPEST = 4
_FACTORS = {"s": " * 1_000", "ms": "", "us": " // 1_000", "ns": " // 1_000_000"}
_FORMATS = (
    "%+",
    "%Y-%m-%dT%H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
)


@dataclass(frozen=True)
class Wrapped:
    """Lists inside records whose items have a time.

    ``steps``: the place of each list, from the items of the one before.  ``columns``: of the items;
    ``items``: what was observed in them, with their number.  ``time``: of the first item of each
    record.
    """

    steps: tuple[Path, ...]
    columns: tuple[Column, ...]
    items: Observed
    number: int
    time: TimePlace


def wrapped(
    records: Sequence[Any], columns: tuple[Column, ...], observed: Observed
) -> Wrapped | None:
    """Return the lists with the most items that have a time; None if no list has one."""
    found = _wrapped(records, records, columns, observed, ())
    return max(found, key=lambda each: each.number, default=None)


def _wrapped(
    records: Sequence[Any],
    level: Sequence[Any],
    columns: tuple[Column, ...],
    observed: Observed,
    steps: tuple[Path, ...],
) -> Iterator[Wrapped]:
    for path, column, inside in _lists(columns, observed, ()):
        lists = [found for each in level if isinstance(found := value_at(each, path), list)]
        items = [item for each in lists for item in each if isinstance(item, dict)][:_ITEMS]
        members = column.type.members
        paths = [at for at, _ in inside.scalars() if column_path(members, at) is not None]
        here = (*steps, path)
        times = [each for each in time_places(items, members, paths) if each.share >= _SHARE]
        time = next(filter(None, (_first(records, here, members, each) for each in times)), None)
        if time is not None:
            yield Wrapped(here, members, inside, len(items), time)
        elif items and len(here) < _DEEPEST:
            yield from _wrapped(records, items, members, inside, here)


def _lists(
    columns: tuple[Column, ...], observed: Observed, at: Path
) -> Iterator[tuple[Path, Column, Observed]]:
    """Yield the places of lists of objects that are in no other list."""
    for each in columns:
        seen = observed.members[each.member]
        if each.type.json or not each.type.members or each.name != each.member:
            continue
        if each.type.before == "list[" and seen.items is not None and each.name.isidentifier():
            yield (*at, each.member), each, seen.items
        elif not each.type.before:
            yield from _lists(each.type.members, seen, (*at, each.member))


def _first(
    records: Sequence[Any], steps: tuple[Path, ...], columns: tuple[Column, ...], place: TimePlace
) -> TimePlace | None:
    """Return the time of the first item of each record, as an expression."""
    type_ = type_at(columns, place.path)
    values = [_value(record, (*steps, place.path)) for record in records]
    series = values_as(values, DTYPES[type_.text], is_lenient=True)
    made = _converted(series, type_, place.units[0])
    if made is None:
        return None
    ms, before, after = made
    first, *others = steps
    begin = f"{before}{'col' if len(first) == 1 else 'field'}({quoted('.'.join(first))})"
    parts = [begin, ".list.first()"]
    for step in others:
        parts += [*(f".struct.field({quoted(name)})" for name in step), ".list.first()"]
    parts += (f".struct.field({quoted(name)})" for name in place.path)
    known = ms.is_not_null().to_numpy()
    return replace(
        place,
        path=steps[0],
        ms=ms.fill_null(0).to_numpy(),
        known=known,
        expression=(*parts, after),
    )


def _value(record: Any, steps: tuple[Path, ...]) -> Any:
    *lists, last = steps
    for path in lists:
        items = value_at(record, path)
        record = items[0] if isinstance(items, list) and items else None
    return value_at(record, last)


def _converted(series: pl.Series, type_: Type, unit: str) -> tuple[pl.Series, str, str] | None:
    """Return ms, and the source text before and after a value that make them of it."""
    if type_.text == TEXT:
        for form in (unit, *_FORMATS) if "%" in unit else _FORMATS:
            times = series.str.to_datetime(form, time_unit="ms", time_zone="UTC", strict=False)
            if times.null_count() <= (1 - _SHARE) * len(times):
                ms = times.dt.epoch("ms")
                return ms, "", f'.str.to_datetime("{form}", time_zone="UTC")'
        return None
    if unit not in _FACTORS:
        return None
    if type_.text == FLOAT:
        return (series * 1000).cast(pl.Int64), "(", " * 1_000).cast(pl.Int64)"
    ms = series * 1_000 if unit == "s" else series // (PER_SECOND[unit] // 1_000)
    return ms, "", _FACTORS[unit]
