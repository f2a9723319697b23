"""Decoded records as polars columns: whole columns at a time, nested values too."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from msgspec.structs import astuple

from tidemark.core.rows.schema import (
    KEY,
    VALUE,
    Field,
    JsonText,
    Kind,
    ListOf,
    MapOf,
    Raw,
    StructOf,
    TimeValue,
    has_times,
)
from tidemark.serde.record_type import Member, Object, RecordType, default_of
from tidemark.serde.spellings.time_values import time_column

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Fault:
    """A value that does not fit its column: the position of its row, the column, and a reason."""

    row: int
    column: str
    reason: str


@dataclass(frozen=True)
class RecordColumns:
    """The columns of records, and what does not fit them.

    ``converted``: the number of lenient values that were converted.
    """

    columns: pl.DataFrame
    faults: Sequence[Fault]
    converted: int


def record_columns(
    type_: RecordType, rows: Iterable[Any], raw: Sequence[bytes] = ()
) -> RecordColumns:
    """Return the columns of records of a type; ``raw``: their bytes, if the schema has them.

    ``rows`` may come from an iterator.  Then each record is freed once its values are taken.
    """
    objects = _Objects(type_.object, rows)
    columns, found = [], _Found()
    for each in type_.schema.fields:
        if isinstance(each.kind, Raw):
            values = _texts(raw) if each.kind.dtype == pl.String else list(raw)
            columns.append(pl.Series(each.name, values, each.kind.dtype))
        else:
            place = _Place(found, each.name)
            columns.append(_column(each, objects, place))
    return RecordColumns(pl.DataFrame(columns), found.faults, found.converted)


@dataclass
class _Found:
    """What columns report: values that do not fit, and the number of those converted."""

    faults: list[Fault] = field(default_factory=list)
    converted: int = 0


@dataclass(frozen=True, slots=True)
class _Place:
    """Where values are: in which column, at which path, and in which row each.

    ``path``: the parts of the text; None is the position in a list.  ``rows``: the row of each
    value; None: one value in each row.  ``positions``: of each value, in the lists of the path.
    """

    found: _Found
    column: str
    path: tuple[str | None, ...] = ()
    rows: Indices | None = None
    positions: tuple[Indices, ...] = ()

    def member(self, name: str) -> "_Place":
        """Return the place of a member of the objects here."""
        return replace(self, path=(*self.path, f".{name}" if self.path else name))

    def items(self, lists: Sequence[Any]) -> "_Place":
        """Return the place of the items of the lists here, or of the values of the maps."""
        counts = np.fromiter(map(len, lists), np.intp, len(lists))
        rows = np.repeat(np.arange(len(lists)) if self.rows is None else self.rows, counts)
        positions = tuple(np.repeat(each, counts) for each in self.positions)
        if any(isinstance(each, dict) for each in lists):
            return _Place(self.found, self.column, (*self.path, "[...]"), rows, positions)
        own = np.arange(len(rows)) - np.repeat(counts.cumsum() - counts, counts)
        return _Place(self.found, self.column, (*self.path, None), rows, (*positions, own))

    def report(self, index: int, reason: str) -> None:
        """Report the value at an index as one that does not fit."""
        row = index if self.rows is None else int(self.rows[index])
        at = (f"[{positions[index]}]" for positions in self.positions)
        path = "".join(next(at) if part is None else part for part in self.path)
        self.found.faults.append(Fault(row, self.column, f"column {path}: {reason}"))


def _texts(values: Sequence[bytes]) -> list[Any]:
    r"""Return bytes as texts; bytes that are not UTF-8, which JSON never has, show as ``\\xff``."""
    return [value.decode(errors="backslashreplace") for value in values]


class _Objects:
    """Objects of one place in the records: a list of the values of each member.

    ``is_null``: whether each object is null, if any is.  Members of null are null.
    """

    def __init__(
        self, type_: Object, rows: Iterable[Any], is_null: Sequence[bool] | None = None
    ) -> None:
        """``rows``: the objects, without null."""
        self.type = type_
        self.is_null = is_null
        values = list(chain.from_iterable(map(astuple, rows)))
        step = len(type_.members)
        self.values = {name: values[n::step] for n, name in enumerate(type_.members)}
        self._inside: dict[str, _Objects] = {}

    @classmethod
    def of(cls, type_: Object, values: list[Any]) -> "_Objects":
        """Return objects of which some may be null."""
        try:
            return cls(type_, values)
        except TypeError:  # of null; to look for null first takes longer
            is_null = [each is None for each in values]
            return cls(type_, _filled(values, type_.empty), is_null)

    def inside(self, name: str) -> "_Objects":
        """Return the objects that a member is; all columns of them share the lists."""
        if name not in self._inside:
            type_ = self.type.members[name].object
            assert type_ is not None
            self._inside[name] = _Objects.of(type_, self.values[name])
        return self._inside[name]


def _column(each: Field, objects: _Objects, place: _Place) -> pl.Series:
    *way, last = each.place
    for name in way:
        step, place = objects.type.members[name], place.member(name)
        if step.entries:
            maps = objects.values[name]
            return _entries(each, maps, step.entries[last], place.member(last))
        objects = objects.inside(name)
    member, values, place = objects.type.members[last], objects.values[last], place.member(last)
    if isinstance(each.kind, StructOf) and each.default is None:
        return _structs(each.name, objects.inside(last), each.kind, place)
    if member.required and isinstance(each.kind, TimeValue) and None in values:
        for index, value in enumerate(values):
            if value is None and not (objects.is_null and objects.is_null[index]):
                place.report(index, f"expected {each.kind.name}, got null")
    return _with_default(each, values, member, place)


def _entries(each: Field, maps: Sequence[Any], entry: Member, place: _Place) -> pl.Series:
    """Return the entry of each map that a field reads."""
    name = each.place[-1]
    values = [None if found is None else found.get(name) for found in maps]
    if entry.required and None in values:
        for index, value in enumerate(values):
            if value is None and maps[index] is not None:
                place.report(
                    index, "missing" if name not in maps[index] else "expected a value, got null"
                )
    return _with_default(each, values, entry, place)


def _with_default(each: Field, values: list[Any], member: Member, place: _Place) -> pl.Series:
    if isinstance(each.kind, TimeValue):
        times = _times(each.name, values, each.kind, place)
        return times if each.default is None else times.fill_null(_time(each.default))
    if each.default is not None and None in values:
        default = default_of(each, member)
        values = [default if value is None else value for value in values]
    return _series(each.name, values, each.kind, member, place)


def _time(text: str) -> datetime | date:
    """Return the default of a column of times."""
    return datetime.fromisoformat(text) if "T" in text else date.fromisoformat(text)


def _times(name: str, values: Sequence[Any], kind: TimeValue, place: _Place) -> pl.Series:
    times = time_column(name, values, kind)
    place.found.converted += times.converted
    for index, reason in times.reasons.items():
        place.report(index, reason)
    return times.series


def _structs(name: str, objects: _Objects, kind: StructOf, place: _Place) -> pl.Series:
    struct = pl.DataFrame([_column(each, objects, place) for each in kind.fields]).to_struct(name)
    if objects.is_null is None:
        return struct
    null = pl.Series(name, [None], struct.dtype)
    return null.zip_with(pl.Series(objects.is_null), struct)


def _series(name: str, values: list[Any], kind: Kind, member: Member, place: _Place) -> pl.Series:
    if isinstance(kind, JsonText):
        return _series(name, values, kind.content, member, place)
    if isinstance(kind, TimeValue):
        return _times(name, values, kind, place)
    if isinstance(kind, StructOf):
        assert member.object is not None
        return _structs(name, _Objects.of(member.object, values), kind, place)
    if isinstance(kind, MapOf):
        maps = _filled(values, {})
        keys = pl.Series(KEY, list(chain.from_iterable(maps)), pl.String)
        items = list(chain.from_iterable(map(dict.values, maps)))
        inside = place.items(maps) if has_times(kind.value) else place
        entries = pl.DataFrame([keys, _series(VALUE, items, kind.value, member, inside)])
        return _lists(name, values, maps, entries.to_struct(name))
    if isinstance(kind, ListOf):
        lists = _filled(values, [])
        items = list(chain.from_iterable(lists))
        inside = place.items(lists) if has_times(kind.item) else place
        return _lists(name, values, lists, _series(name, items, kind.item, member, inside))
    return pl.Series(name, values, kind.dtype)


def _filled(values: list[Any], empty: Any) -> list[Any]:
    """Return values with null replaced by an empty one."""
    return [empty if value is None else value for value in values] if None in values else values


def _lists(name: str, values: Sequence[Any], filled: Sequence[Any], items: pl.Series) -> pl.Series:
    """Return the items as one list for each of the values, null where the value is."""
    ends = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, filled), np.int64, len(values)), out=ends[1:])
    # The series go to Arrow by polars: Arrow's own conversion from NumPy imports pandas.
    null = None
    if filled is not values:
        null = pl.Series([value is None for value in values]).to_arrow()
    lists = pa.LargeListArray.from_arrays(pl.Series(ends).to_arrow(), items.to_arrow(), mask=null)
    return pl.Series(name, lists).cast(pl.List(items.dtype))
