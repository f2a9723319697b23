"""The schema of a source's records: a tree of the columns, with their places in the record.

See docs/semantics.md, "Raw records".  A column is read from one place, its path of member names.  A
kind says which values fit, and which polars type they become.  Kinds nest as the record does.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import polars as pl
from polars.datatypes import DataTypeClass

KEY, VALUE = "key", "value"
"""The members of the structs that a map becomes."""


@dataclass(frozen=True)
class Scalar:
    """One value; ``lenient``: other spellings of it are converted, if they are not ambiguous."""

    dtype: pl.DataType
    lenient: bool = False

    def __str__(self) -> str:
        return f"{self.dtype} lenient" if self.lenient else str(self.dtype)


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


Kind: TypeAlias = Scalar | ListOf | MapOf | StructOf | JsonText | Raw


@dataclass(frozen=True)
class Field:
    """A column of a schema, or a member of a StructOf.

    Args:
        name: of the column or member.
        kind: the values that fit.
        path: names of the members that lead to the value; () means ``name``.
        required: whether a record without the value is dead; else the value is ``default``.
        default: the value in place of a missing member or null, as decoded JSON.
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

    def texts(self) -> dict[str, str]:
        """Return, by column, everything that decides its values."""
        return {each.name: str(each) for each in self.fields}

    @cached_property
    def raw(self) -> Field | None:
        """The column that is the whole record, if there is one."""
        return next((each for each in self.fields if isinstance(each.kind, Raw)), None)


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
