"""Decoded records as polars columns: whole columns at a time, nested values too."""

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
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
    Scalar,
    StructOf,
)
from tidemark.serde.record_type import Member, Object, RecordType, default_of


def record_columns(
    type_: RecordType, rows: Sequence[Any], raw: Sequence[bytes] = ()
) -> pl.DataFrame:
    """Return the columns of records of a type; ``raw``: their bytes, if the schema has them."""
    columns = []
    for each in type_.schema.fields:
        if isinstance(each.kind, Raw):
            values = _texts(raw) if each.kind.dtype == pl.String else list(raw)
            columns.append(pl.Series(each.name, values, each.kind.dtype))
        else:
            columns.append(_column(each, rows, type_.object))
    return pl.DataFrame(columns)


def _texts(values: Sequence[bytes]) -> list[Any]:
    r"""Return bytes as texts; bytes that are not UTF-8, which JSON never has, show as ``\\xff``."""
    return [value.decode(errors="backslashreplace") for value in values]


def _column(each: Field, rows: Sequence[Any], inside: Object) -> pl.Series:
    *way, last = each.place
    for name in way:
        step = inside.members[name]
        assert step.object is not None
        inside, rows = step.object, _present(_attribute(step, rows), step.object)
    member = inside.members[last]
    values = _attribute(member, rows)
    if each.default is not None and None in values:
        default = default_of(each, member)
        values = [default if value is None else value for value in values]
    return _series(each.name, values, each.kind, member)


def _attribute(member: Member, rows: Sequence[Any]) -> list[Any]:
    return list(map(attrgetter(member.slot), rows))


def _present(values: list[Any], inside: Object) -> list[Any]:
    """Return objects with null replaced by an object of nulls."""
    return _filled(values, inside.empty)


def _series(name: str, values: list[Any], kind: Kind, member: Member) -> pl.Series:
    if isinstance(kind, JsonText):
        return _series(name, values, kind.content, member)
    if isinstance(kind, StructOf):
        assert member.object is not None
        rows = _present(values, member.object)
        fields = [_column(each, rows, member.object) for each in kind.fields]
        struct = pl.DataFrame(fields).to_struct(name)
        if rows is values:
            return struct
        known = pl.Series([value is not None for value in values])
        return struct.zip_with(known, pl.Series(name, [None], struct.dtype))
    if isinstance(kind, MapOf):
        maps = _filled(values, {})
        keys = pl.Series(KEY, list(chain.from_iterable(maps)), pl.String)
        items = list(chain.from_iterable(map(dict.values, maps)))
        entries = pl.DataFrame([keys, _series(VALUE, items, kind.value, member)])
        return _lists(name, values, maps, entries.to_struct(name))
    if isinstance(kind, ListOf) and not isinstance(kind.item, Scalar):
        lists = _filled(values, [])
        items = list(chain.from_iterable(lists))
        return _lists(name, values, lists, _series(name, items, kind.item, member))
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
