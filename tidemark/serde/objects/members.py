"""The objects of records, as a schema declares them: their members, and the types of those."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tidemark.core.rows.schema import Kind

Take = Callable[[Iterable[Any]], Any]


@dataclass
class Member:
    """A member of an object in the record.

    ``slot``: its attribute.  ``column``: the first that reads it.  ``object``: the members of the
    value, or of the structs in the value.  ``entries``: of a map, those that are columns.
    ``is_whole``: whether a column needs the value as it is, for a default or for entries.
    ``take``: returns the member_values.Values of such values.
    """

    slot: str
    column: str
    kind: Kind | None = None
    object: "Object | None" = None
    required: bool = False
    type: Any = None
    entries: "dict[str, Member]" = field(default_factory=dict)
    is_whole: bool = False
    take: Take = list


@dataclass
class Object:
    """An object in the record: its declared members, by name.

    ``type``: its msgspec type.  ``empty``: an object of it with nulls.  ``take``: returns the
    member_values.ObjectValues of objects.
    """

    members: dict[str, Member] = field(default_factory=dict)
    type: Any = None
    empty: Any = None
    take: Take = list
