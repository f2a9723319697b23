"""The schema of a source's records: a tree of the columns, with their places in the record.

See docs/semantics.md, "Raw records".  A column is read from one place, its path of member names.  A
kind says which values fit, and which polars type they become.  Kinds nest as the record does.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import polars as pl
from polars.datatypes import DataTypeClass

KEY, VALUE = "key", "value"
"""The members of the structs that a map becomes."""

INSTANT = pl.Datetime("ms", "UTC")
"""The type of instants: that of event time, of windows and of the tables of sinks."""


@dataclass(frozen=True)
class Scalar:
    """One value; ``lenient``: other spellings of it are converted, if they are not ambiguous."""

    dtype: pl.DataType
    lenient: bool = False

    def __str__(self) -> str:
        return f"{self.dtype} lenient" if self.lenient else str(self.dtype)


@dataclass(frozen=True)
class TimeValue:
    """An instant or a date (docs/time.md).

    ``dtype``: INSTANT or Date.  ``units``: how it is read, tried in turn.  ``zone`` (IANA): of
    texts without an offset.  ``lenient``: numbers may be texts, and "-" and "" are null.
    """

    dtype: pl.DataType
    units: tuple[str, ...]
    zone: str | None = None
    lenient: bool = False

    @property
    def name(self) -> str:
        """The type and its units, for errors."""
        what = "date" if isinstance(self.dtype, pl.Date) else "datetime"
        return f"{what} in unit {' or '.join(self.units)}"

    def __str__(self) -> str:
        zone = "" if self.zone is None else f" in {self.zone}"
        return f"{self.dtype} of {' or '.join(self.units)}{zone}{' lenient' * self.lenient}"


@dataclass(frozen=True)
class ListOf:
    """A JSON array."""

    item: "Kind"

    @property
    def dtype(self) -> pl.DataType:
        """The polars type."""
        return pl.List(self.item.dtype)

    def __str__(self) -> str:
        return f"List({self.item})"


@dataclass(frozen=True)
class MapOf:
    """A JSON object with any member names, as a list of structs with KEY and VALUE."""

    value: "Kind"

    @property
    def dtype(self) -> pl.DataType:
        """The polars type."""
        return pl.List(pl.Struct({KEY: pl.String(), VALUE: self.value.dtype}))

    def __str__(self) -> str:
        return f"Map({self.value})"


@dataclass(frozen=True)
class StructOf:
    """A JSON object with declared members."""

    fields: tuple["Field", ...]

    @property
    def dtype(self) -> pl.DataType:
        """The polars type."""
        return pl.Struct({each.name: each.kind.dtype for each in self.fields})

    def __str__(self) -> str:
        return "Struct({" + ", ".join(f"{each.name}: {each}" for each in self.fields) + "})"


@dataclass(frozen=True)
class JsonText:
    """A text that holds a JSON document of another kind."""

    content: "Kind"

    @property
    def dtype(self) -> pl.DataType:
        """The polars type."""
        return self.content.dtype

    def __str__(self) -> str:
        return f"JSON text of {self.content}"


@dataclass(frozen=True)
class Raw:
    """The whole record as it came: String, or Binary."""

    dtype: pl.DataType

    def __str__(self) -> str:
        return f"raw {self.dtype}"


Kind: TypeAlias = Scalar | TimeValue | ListOf | MapOf | StructOf | JsonText | Raw


@dataclass(frozen=True)
class Field:
    """A column of a schema, or a member of a StructOf.

    Args:
        name: of the column or member.
        kind: the values that fit.
        path: names of the members that lead to the value; () means ``name``.
        required: whether a record without the value is dead; else the value is ``default``.
        default: the value in place of a missing member or null, as decoded JSON; of a TimeValue,
            its text in ISO 8601.
    """

    name: str
    kind: Kind
    path: tuple[str, ...] = ()
    required: bool = False
    default: Any = None

    @property
    def place(self) -> tuple[str, ...]:
        """The names of the members that lead to the value."""
        return self.path or (self.name,)

    def __str__(self) -> str:
        """Return everything that decides the value; of a plain column, its type."""
        parts = [str(self.kind)]
        if self.place != (self.name,):
            parts.append("from " + ".".join(map(repr, self.place)))
        if self.required:
            parts.append("required")
        if self.default is not None:
            parts.append(f"default {self.default!r}")
        return " ".join(parts)


@dataclass(frozen=True)
class Schema(Mapping[str, pl.DataType]):
    """The columns that records are read as; a mapping of their polars types."""

    fields: tuple[Field, ...]
    _types: Mapping[str, pl.DataType] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        types = {each.name: each.kind.dtype for each in self.fields}
        object.__setattr__(self, "_types", types)

    @classmethod
    def of(cls, columns: Mapping[str, pl.DataType]) -> "Schema":
        """Return the schema of optional, strict columns at the top level of the record."""
        return cls(tuple(Field(name, kind_of(dtype)) for name, dtype in columns.items()))

    def __getitem__(self, name: str) -> pl.DataType:
        return self._types[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    def only(self, names: Collection[str]) -> "Schema":
        """Return the schema of some of the columns."""
        return Schema(tuple(each for each in self.fields if each.name in names))

    def kind_at(self, path: Sequence[str]) -> Kind:
        """Return the kind of a column, or of a field in it; ``path``: names that lead to it."""
        fields, kind = self.fields, None
        for name in path:
            kind = next(each.kind for each in fields if each.name == name)
            kind = kind.content if isinstance(kind, JsonText) else kind
            fields = kind.fields if isinstance(kind, StructOf) else ()
        assert kind is not None
        return kind

    def texts(self) -> dict[str, str]:
        """Return, by column, everything that decides its values."""
        return {each.name: str(each) for each in self.fields}

    @cached_property
    def has_times(self) -> bool:
        """Whether a column is of times, or holds some."""
        return any(has_times(each.kind) for each in self.fields)

    @cached_property
    def raw(self) -> Field | None:
        """The column that is the whole record, if there is one."""
        return next((each for each in self.fields if isinstance(each.kind, Raw)), None)


def has_times(kind: Kind) -> bool:
    """Return whether values of a kind are times, or hold some."""
    match kind:
        case ListOf(inner) | MapOf(inner) | JsonText(inner):
            return has_times(inner)
        case StructOf(fields):
            return any(has_times(each.kind) for each in fields)
    return isinstance(kind, TimeValue)


def kind_of(dtype: DataTypeClass | pl.DataType) -> Kind:
    """Return the strict kind of a polars type."""
    if isinstance(dtype, pl.List):
        return ListOf(kind_of(dtype.inner))
    if isinstance(dtype, pl.Struct):
        return StructOf(tuple(Field(each.name, kind_of(each.dtype)) for each in dtype.fields))
    return Scalar(instance(dtype))


def instance(dtype: DataTypeClass | pl.DataType) -> pl.DataType:
    """Return a column type as an instance: polars accepts ``pl.Int64`` for ``pl.Int64()``."""
    return dtype if isinstance(dtype, pl.DataType) else dtype()
