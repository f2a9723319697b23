"""What records have at each place: types, distinct values, members and items."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec
import polars as pl

from tidemark.serde.spellings.lenient import lenient

BOOL, INT, FLOAT, TEXT, BYTES = "bool", "int", "float", "str", "bytes"
OBJECT, LIST, NULL = "object", "list", "null"
LONG = "int beyond 64 bits"
SCALARS = (BOOL, INT, LONG, FLOAT, TEXT, BYTES)
NUMERAL_ID = "numeral id"
"""Texts of digits that a number would not keep: with zeros before, or beyond 64 bits."""

_DISTINCT = 5_000
_MEMBERS = 1_000
_LONGEST = 200
_DEEPEST = 12
_TYPES = {bool: BOOL, int: INT, float: FLOAT, str: TEXT, bytes: BYTES, dict: OBJECT, list: LIST}
_ID = re.compile(r"[+-]?0[0-9]+|\+[0-9]{5,}")
_DIGITS = re.compile(r"[+-]?[0-9]+")
_WORDS = ("true", "false")

Path = tuple[str, ...]


@dataclass
class Observed:
    """The values seen at one place of the records.

    ``types``: values by type.  ``texts``: texts by what they spell.  ``distinct``: the number of
    each scalar, of the first ``_DISTINCT`` ones.  ``members``: of objects, by name.  ``items``: of
    lists.  ``content``: of texts that hold JSON objects or lists.  ``others``: members of objects
    that have too many names.
    """

    types: Counter[str] = field(default_factory=Counter)
    texts: Counter[str] = field(default_factory=Counter)
    distinct: Counter[Any] = field(default_factory=Counter)
    members: dict[str, "Observed"] = field(default_factory=dict)
    items: "Observed | None" = None
    content: "Observed | None" = None
    others: "Observed | None" = None

    def add(self, value: Any, depth: int = 0) -> None:
        """Count a decoded value, and all values in it down to a bound of nesting."""
        kind = NULL if value is None else _TYPES[type(value)]
        if kind == INT and not -(2**63) <= value < 2**63:
            kind = LONG
        self.types[kind] += 1
        if depth == _DEEPEST:
            return
        if kind == OBJECT:
            self._add_members(value, depth)
        elif kind == LIST:
            self.items = self.items or Observed()
            for item in value:
                self.items.add(item, depth + 1)
        elif kind != NULL:
            self._add_scalar(value, depth)

    def _add_members(self, value: dict[str, Any], depth: int) -> None:
        for name, member in value.items():
            known = self.members.get(name)
            if known is None and len(self.members) < _MEMBERS:
                known = self.members[name] = Observed()
            elif known is None:
                known = self.others = self.others or Observed()
            known.add(member, depth + 1)

    def _add_scalar(self, value: Any, depth: int) -> None:
        if isinstance(value, str):
            self.texts[spelled(value[:_LONGEST])] += 1
            inside = _json_in(value)
            if inside is not None:
                self.content = self.content or Observed()
                self.content.add(inside, depth + 1)
            value = value[:_LONGEST]
        if value in self.distinct or len(self.distinct) < _DISTINCT:
            self.distinct[value] += 1

    def merge(self, other: "Observed") -> None:
        """Add the values that were counted at another place."""
        self.types += other.types
        self.texts += other.texts
        self.distinct += other.distinct
        for name, member in other.members.items():
            self.members.setdefault(name, Observed()).merge(member)
        for name in ("items", "content", "others"):
            theirs = getattr(other, name)
            if theirs is not None:
                own = getattr(self, name) or Observed()
                own.merge(theirs)
                setattr(self, name, own)

    def scalars(self, at: Path = ()) -> Iterator[tuple[Path, "Observed"]]:
        """Yield the places of scalars that are not in lists, parents first."""
        if any(self.types[kind] for kind in SCALARS):
            yield at, self
        for name, member in self.members.items():
            yield from member.scalars((*at, name))


@lru_cache(1 << 16)
def spelled(text: str) -> str:
    """Return what a text spells for a lenient column: a type, NULL, NUMERAL_ID or TEXT."""
    if _ID.fullmatch(text):
        return NUMERAL_ID
    for kind, dtype in ((INT, pl.Int64()), (FLOAT, pl.Float64())):
        try:
            value = lenient(dtype)(text)
        except ValueError:
            continue
        if value is None:
            return NULL
        if kind == FLOAT and _DIGITS.fullmatch(text):
            return NUMERAL_ID
        return FLOAT if "." in text else kind
    return BOOL if text.strip().lower() in _WORDS else TEXT


def _json_in(text: str) -> Any:
    """Return the object or list that a text holds as JSON, else None."""
    stripped = text.strip(" \t\r\n")
    if not (stripped.startswith(("{", "[")) and stripped.endswith(("}", "]"))):
        return None
    try:
        return msgspec.json.decode(stripped)
    except (msgspec.DecodeError, RecursionError):
        return None


def value_at(record: Any, path: Path) -> Any:
    """Return the value at a path of a record, None if it is missing."""
    for name in path:
        if not isinstance(record, dict):
            return None
        record = record.get(name)
    return record
