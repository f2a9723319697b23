"""The event time of observed records: which place, and in which units."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from tidemark.core.time.assigners import ColumnTime
from tidemark.core.time.column_times import column_times
from tidemark.core.time.event_time import EventTimes
from tidemark.core.time.text_times import Times
from tidemark.core.time.time_units import EPOCH, NUMBER_UNITS
from tidemark.infer.names import CREATED, IDS, LATER, REFERENCED, TIMES, UPDATED
from tidemark.infer.observed import FLOAT, INT, TEXT, Path, value_at
from tidemark.infer.schema import Column, Type, type_at
from tidemark.infer.time_texts import Reading, reading_of, share_in_order
from tidemark.serde.spellings.lenient import lenient

_SHARE = 0.5
_GROWS = 0.9
_MOST = 0.75
_FAR = 10.0
_OLD, _OLDER = 2.0, 4.0
_SECOND_MS = 1_000
_FAR_MS = 10 * 365 * 86_400_000
_DTYPES: dict[str, pl.DataType] = {TEXT: pl.String(), INT: pl.Int64(), FLOAT: pl.Float64()}
_OF_NUMBERS = {EPOCH, *NUMBER_UNITS}
_HOURS = r"^(19|20)[0-9]{2}[01][0-9][0-3][0-9][0-2][0-9]$"
_DIGITS = ("%Y%m%d%H%M%S", "%Y%m%d%H%M", "%Y%m%d", "%Y%m%d%H")
"""Patterns of dates and times that are written as integers."""


@dataclass(frozen=True)
class TimePlace:
    """A place of the records that may be their event time.

    ``units``, ``zone``: how it is read; ``is_guess``: whether day and month may be swapped.
    ``as_text``: whether its column must be text.  ``expression``: source text in place of the path
    and the units, in parts that may be on lines of their own.  ``ms``: the times of the records,
    in order; ``known``: a mask of the records that have one.
    """

    path: Path
    units: tuple[str, ...]
    zone: str | None
    ms: Times
    known: np.ndarray
    score: float
    is_guess: bool = False
    as_text: bool = False
    expression: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """The share of the records that have a time there."""
        return float(self.known.mean())


def time_places(
    records: Sequence[object], columns: tuple[Column, ...], paths: Iterable[Path]
) -> list[TimePlace]:
    """Return the places that read as times in most records, the most likely one first."""
    found = (_place(records, path, type_at(columns, path)) for path in paths)
    places = list(filter(None, found))
    texts = [place for place in places if _is_clock(place)]
    updates = [place for place in places if _is_update(place)]
    varies = any(map(_varies, places))

    def score(place: TimePlace) -> float:
        is_counter = any(_is_far_after(place, text) for text in texts)
        is_older = any(_is_made_before(place, update) for update in updates)
        is_still = varies and not _varies(place)
        less = _FAR * is_counter + _OLDER * is_older + _OLD * (is_still + _is_second(place, places))
        return place.score - less

    scored = [replace(place, score=score(place)) for place in places]
    scored.sort(key=lambda place: -place.score)
    firsts = [place for place in scored if not _is_second(place, places)]
    for place in scored:
        finer = next(filter(partial(_is_finer, place), firsts), None)
        if finer is not None:  # the same time with more digits goes first
            scored.remove(finer)
            scored.insert(scored.index(place), replace(finer, score=place.score))
            break
    return scored


def _is_second(place: TimePlace, places: Sequence[TimePlace]) -> bool:
    """Return whether a time goes with another one of its object that says more of the event.

    Canal writes ``ts`` after the change at ``es``.  Of candles, ``t`` and ``T`` are begin and end.
    """
    name = place.path[-1]
    others = {each.path[-1] for each in places if each.path[:-1] == place.path[:-1]} - {name}
    return (name == "ts" and "es" in others) or (name in ("t", "T") and name.swapcase() in others)


def _is_finer(other: TimePlace, place: TimePlace) -> bool:
    """Return whether a place has the times of another one of its object, and digits after them."""
    if place.path[:-1] != other.path[:-1] or not (place.known == other.known).all():
        return False
    rest = (place.ms - other.ms)[place.known]
    is_whole = (other.ms[other.known] % _SECOND_MS == 0).all()
    return bool(is_whole and (rest >= 0).all() and (rest < _SECOND_MS).all() and rest.any())


def _varies(place: TimePlace) -> bool:
    return bool(np.ptp(place.ms[place.known]) > 0)


def _is_update(place: TimePlace) -> bool:
    """Return whether a place has the times of the last changes of objects, and they grow."""
    is_update = UPDATED.fullmatch(place.path[-1]) is not None
    return is_update and share_in_order(place.ms[place.known]) >= _GROWS


def _is_made_before(place: TimePlace, update: TimePlace) -> bool:
    """Return whether a place says when objects were made, in an order that is not of the records.

    The records are updates of the objects then.
    """
    is_made = CREATED.fullmatch(place.path[-1]) is not None
    is_same = place.path[:-1] == update.path[:-1]
    return is_same and is_made and share_in_order(place.ms[place.known]) < _GROWS


def _is_clock(place: TimePlace) -> bool:
    """Return whether a place has texts of dates with times that grow."""
    ms = place.ms[place.known]
    is_text = not {*place.units} & _OF_NUMBERS
    is_instant = is_text and not Reading(place.units, place.zone).is_date
    return is_instant and share_in_order(ms) >= _GROWS and bool(ms[-1] > ms[0])


def _is_far_after(place: TimePlace, text: TimePlace) -> bool:
    """Return whether many numbers of a place are years after texts: likely a counter."""
    if not {*place.units} <= _OF_NUMBERS:
        return False
    return bool(np.quantile(place.ms[place.known], _MOST) > text.ms[text.known].max() + _FAR_MS)


def _place(records: Sequence[object], path: Path, type_: Type) -> TimePlace | None:
    if type_.text not in _DTYPES:
        return None
    dtype = _DTYPES[type_.text]
    values = [value_at(record, path) for record in records]
    column = values_as(values, dtype, is_lenient=type_.lenient)
    if column.null_count() > (1 - _SHARE) * len(column):
        return None
    if type_.text == TEXT:
        return _text_place(path, column)
    if type_.text == INT and column.drop_nulls().cast(pl.String).str.contains(_HOURS).all():
        texts = values_as(values, pl.String(), is_lenient=True)
        reading = Reading(_DIGITS[-1:], "UTC")
        if bool((times := reading.times(texts)).known[texts.is_not_null().to_numpy()].all()):
            return _made(path, reading, times, as_text=True)
    place = _number_place(path, column)
    if place is None and type_.text == INT and any(name.fullmatch(path[-1]) for name in TIMES):
        texts = values_as(values, pl.String(), is_lenient=True)
        for unit in _DIGITS:
            reading = Reading((unit,), "UTC")
            times = reading.times(texts)
            if times.known.mean() > _SHARE:
                return _made(path, reading, times, as_text=True)
    return place


def values_as(values: Sequence[Any], dtype: pl.DataType, *, is_lenient: bool) -> pl.Series:
    """Return values as a column; null where they are not of its type."""
    read = lenient(dtype)

    def one(value: Any) -> Any:
        if value is None or (dtype == pl.String and not is_lenient and type(value) is not str):
            return None
        try:
            return read(value)
        except ValueError:
            return None

    return pl.Series(list(map(one, values)), dtype=dtype)


def _text_place(path: Path, column: pl.Series) -> TimePlace | None:
    """Return a place of texts, if a few units read most of them."""
    reading = reading_of(column.drop_nulls())
    return None if reading is None else _made(path, reading, reading.times(column))


def _number_place(path: Path, column: pl.Series) -> TimePlace | None:
    """Return a place of numbers, if they are from 2000 to 2100 in one unit."""
    times = column_times(ColumnTime("", EPOCH), column)
    if times.known.mean() < _SHARE:
        return None
    for unit in ("s",) if column.dtype.is_float() else NUMBER_UNITS:
        in_unit = column_times(ColumnTime("", unit), column)
        if (in_unit.known & (in_unit.ms == times.ms))[times.known].all():
            return _made(path, Reading((unit,), None), in_unit)
    return _made(path, Reading((EPOCH,), None), times)


def _made(
    path: Path, reading: Reading, times: EventTimes, *, as_text: bool = False
) -> TimePlace | None:
    """Return a place with the times that units read; None if it is not likely a time."""
    share = float(times.known.mean())
    if share < _SHARE:
        return None
    named = [bool(name.fullmatch(path[-1])) for name in TIMES]
    score = 4.0 - named.index(True) if any(named) else 0.0
    ordered = share_in_order(times.ms[times.known])
    if not score and {*reading.units} <= _OF_NUMBERS:
        # A number with another name may be anything.  One that grows is likely a time, and so is
        # one with the digits of ms or less.
        grows = ordered >= _GROWS or not {*reading.units} & {"s", EPOCH}
        if IDS.fullmatch(path[-1]) or not grows:
            return None
        score = -2.0
    score -= 2.0 * bool(LATER.fullmatch(path[-1])) + 0.5 * (len(path) - 1)
    score -= 2.0 * reading.is_date + _OLD * any(map(REFERENCED.fullmatch, path[:-1]))
    score += 2.0 * ordered + 4.0 * share
    return TimePlace(
        path,
        reading.units,
        reading.zone,
        times.ms,
        times.known,
        score,
        is_guess=reading.is_guess,
        as_text=as_text,
    )
