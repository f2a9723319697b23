"""The values of objects, each member's in a list of its own: half of the way to columns."""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from tidemark.core.rows.schema import JsonText, Kind, ListOf, MapOf, StructOf
from tidemark.serde.objects.members import Member, Object

Values: TypeAlias = "list[Any] | ObjectValues | ListValues"


@dataclass
class ObjectValues:
    """Objects of one place in the records: the values of each member, by name.

    ``nulls``: the positions of null among the objects.  All members of null are null.
    """

    type: Object
    members: dict[str, Values]
    nulls: list[int] = field(default_factory=list)

    @property
    def counted(self) -> list[Any]:
        """A list that has an element for each object."""
        first = next(iter(self.members.values()))
        return first if isinstance(first, list) else first.counted

    def inside(self, name: str) -> "ObjectValues":
        """Return the objects that a member is."""
        values = self.members[name]
        if isinstance(values, list):
            inner = self.type.members[name].object
            assert inner is not None
            values = inner.take(values)
        assert isinstance(values, ObjectValues)
        return values


@dataclass
class ListValues:
    """Lists: the number of items of each, and the items of all.

    ``nulls``: the positions of null among the lists.  Null has no items.
    """

    items: Values
    counted: list[int] = field(default_factory=list)
    nulls: list[int] = field(default_factory=list)


@dataclass
class MapValues(ListValues):
    """Maps: as lists, of the entries' values, and the names of all entries."""

    names: list[str] = field(default_factory=list)


def values_of(kind: Kind | None, member: Member) -> Values:
    """Return empty values of a kind, to be filled; None: of objects whose members only are read.

    ``member``: of the values, or of the lists that they are in.
    """
    match kind:
        case JsonText(content):
            return values_of(content, member)
        case ListOf(item):
            return ListValues(values_of(item, member))
        case MapOf(value):
            return MapValues(values_of(value, member))
        case None | StructOf():
            assert member.object is not None
            return object_values(member.object)
    return []


def object_values(type_: Object) -> ObjectValues:
    """Return empty values of objects, to be filled."""
    members = type_.members.items()
    return ObjectValues(
        type_, {name: [] if each.is_whole else values_of(each.kind, each) for name, each in members}
    )


def is_null(values: ObjectValues | ListValues) -> pl.Series | None:
    """Return whether each value is null, Boolean; None if no value is."""
    if not values.nulls:
        return None
    mask = np.zeros(len(values.counted), np.bool_)
    mask[values.nulls] = True
    return pl.Series(mask)
