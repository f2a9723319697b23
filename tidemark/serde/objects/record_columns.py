"""Decoded records as polars columns: whole columns at a time, nested values too."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

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
from tidemark.serde.objects.member_values import (
    ListValues,
    MapValues,
    ObjectValues,
    Values,
    is_null,
)
from tidemark.serde.objects.members import Member
from tidemark.serde.objects.record_type import RecordType, default_of
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
    objects = type_.object.take(rows)
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

    def items(self, lists: ListValues) -> "_Place":
        """Return the place of the items of the lists here, or of the values of the maps."""
        counts = np.array(lists.counted, np.intp)
        rows = np.repeat(np.arange(len(counts)) if self.rows is None else self.rows, counts)
        positions = tuple(np.repeat(each, counts) for each in self.positions)
        if isinstance(lists, MapValues):
            return _Place(self.found, self.column, (*self.path, "[...]"), rows, positions)
        own = np.arange(len(rows)) - np.repeat(counts.cumsum() - counts, counts)
        return _Place(self.found, self.column, (*self.path, None), rows, (*positions, own))

    def report(self, index: int, reason: str) -> None:
        """Report the value at an index as one that does not fit."""
        at = (f"[{positions[index]}]" for positions in self.positions)
        path = "".join(next(at) if part is None else part for part in self.path)
        self.found.faults.append(Fault(self.row(index), self.column, f"column {path}: {reason}"))

    def row(self, index: int) -> int:
        """Return the row of the value at an index."""
        return index if self.rows is None else int(self.rows[index])


def _texts(values: Sequence[bytes]) -> list[Any]:
    r"""Return bytes as texts; bytes that are not UTF-8, which JSON never has, show as ``\\xff``."""
    return [value.decode(errors="backslashreplace") for value in values]


def _column(each: Field, objects: ObjectValues, place: _Place) -> pl.Series:
    *way, last = each.place
    for name in way:
        step, place = objects.type.members[name], place.member(name)
        if step.entries:
            maps = _whole(objects.members[name])
            return _entries(each, maps, step.entries[last], place.member(last))
        objects = objects.inside(name)
    member, values, place = objects.type.members[last], objects.members[last], place.member(last)
    if isinstance(each.kind, StructOf) and each.default is None:
        return _structs(each.name, objects.inside(last), each.kind, place)
    if member.required and isinstance(each.kind, TimeValue) and None in (whole := _whole(values)):
        nulls = set(objects.nulls)
        for index, value in enumerate(whole):
            if value is None and index not in nulls:
                place.report(index, f"expected {each.kind.name}, got null")
    column = _with_default(each, values, member, place)
    if member.required and column.null_count():
        _require_values(column, objects, place)
    return column


def _require_values(column: pl.Series, objects: ObjectValues, place: _Place) -> None:
    """Report texts that stand for null in a required column; other nulls are reported already."""
    absent, known = set(objects.nulls), {fault.row for fault in place.found.faults}
    for index in column.is_null().arg_true().to_list():
        if index not in absent and place.row(index) not in known:
            place.report(index, "a value is required, and this one stands for null")


def _whole(values: Values) -> list[Any]:
    assert isinstance(values, list)
    return values


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


def _with_default(each: Field, values: Values, member: Member, place: _Place) -> pl.Series:
    if isinstance(each.kind, TimeValue):
        times = _times(each.name, _whole(values), each.kind, place)
        return times if each.default is None else times.fill_null(_time(each.default))
    if member.is_whole:
        values = _of_whole(each, _whole(values), member)
    return _series(each.name, values, each.kind, place)


def _of_whole(each: Field, values: list[Any], member: Member) -> Values:
    """Return the values of a field from those of its member, which other fields read, too."""
    if each.default is not None and None in values:
        default = default_of(each, member)
        values = [default if value is None else value for value in values]
    taken: Values = member.take(values)
    return taken


def _time(text: str) -> datetime | date:
    """Return the default of a column of times."""
    return datetime.fromisoformat(text) if "T" in text else date.fromisoformat(text)


def _times(name: str, values: Sequence[Any], kind: TimeValue, place: _Place) -> pl.Series:
    times = time_column(name, values, kind)
    place.found.converted += times.converted
    for index, reason in times.reasons.items():
        place.report(index, reason)
    return times.series


def _structs(name: str, objects: ObjectValues, kind: StructOf, place: _Place) -> pl.Series:
    struct = pl.DataFrame([_column(each, objects, place) for each in kind.fields]).to_struct(name)
    if (nulls := is_null(objects)) is None:
        return struct
    return pl.Series(name, [None], struct.dtype).zip_with(nulls, struct)


def _series(name: str, values: Values, kind: Kind, place: _Place) -> pl.Series:
    match values, kind:
        case _, JsonText(content):
            return _series(name, values, content, place)
        case list(), TimeValue():
            return _times(name, values, kind, place)
        case ObjectValues(), StructOf():
            return _structs(name, values, kind, place)
        case MapValues(), MapOf(value):
            inside = place.items(values) if _may_report(value) else place
            keys = pl.Series(KEY, values.names, pl.String)
            entries = pl.DataFrame([keys, _series(VALUE, values.items, value, inside)])
            return _lists(values, entries.to_struct(name))
        case ListValues(), ListOf(item):
            inside = place.items(values) if _may_report(item) else place
            return _lists(values, _series(name, values.items, item, inside))
    return pl.Series(name, _whole(values), kind.dtype)


def _may_report(kind: Kind) -> bool:
    """Return whether values of a kind may be found not to fit when their columns are made."""
    if isinstance(kind, StructOf):
        return any(
            _may_report(each.kind) or (each.required and not isinstance(each.kind, StructOf))
            for each in kind.fields
        )
    if isinstance(kind, ListOf):
        return _may_report(kind.item)
    return _may_report(kind.value) if isinstance(kind, MapOf) else has_times(kind)


def _lists(values: ListValues, items: pl.Series) -> pl.Series:
    """Return the items of all lists as lists."""
    ends = np.zeros(len(values.counted) + 1, np.int64)
    np.cumsum(values.counted, out=ends[1:])
    # The series go to Arrow by polars: Arrow's own conversion from NumPy imports pandas.
    nulls = is_null(values)
    mask = None if nulls is None else nulls.to_arrow()
    lists = pa.LargeListArray.from_arrays(pl.Series(ends).to_arrow(), items.to_arrow(), mask=mask)
    return pl.Series(items.name, lists).cast(pl.List(items.dtype))
