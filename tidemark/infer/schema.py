"""The schema of observed records, as a user would write it."""

import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import polars as pl

from tidemark.core.rows.expression import METADATA
from tidemark.errors import PipelineError
from tidemark.infer.observed import (
    BOOL,
    FLOAT,
    INT,
    LIST,
    NULL,
    OBJECT,
    SCALARS,
    TEXT,
    Observed,
    Path,
)
from tidemark.plan.names import require_member_names
from tidemark.serde.spellings.lenient import lenient

_MAP_NAMES = 20
_MAP_SHARE = 0.3
_MISFITS = 0.05
_WIDTH = 92
_WORD = re.compile(r"\W+")


@dataclass(frozen=True)
class Type:
    """A type as source text; ``members``: of a nested dict, in place of the text."""

    text: str = ""
    members: tuple["Column", ...] = ()
    lenient: bool = False
    json: bool = False
    in_list: bool = False


@dataclass(frozen=True)
class Column:
    """A column or member: its name, where it is read, its type and a comment.

    ``member``: its name in the record.
    """

    name: str
    member: str
    type: Type
    comment: str = ""


def columns_of(records: Observed) -> tuple[tuple[Column, ...], list[str]]:
    """Return the columns of records, and a comment for each place that has no type."""
    taken: set[str] = set()
    without: list[str] = []
    columns = []
    for each in _members(records, (), without):
        name = _column_name(each.name, taken)
        taken.add(name)
        columns.append(replace(each, name=name))
    return tuple(columns), without


def _is_name(name: str) -> bool:
    try:
        require_member_names([name], "")
    except PipelineError:
        return False
    return True


def _column_name(name: str, taken: set[str]) -> str:
    """Return the name of a top-level member as that of a column, or another one if it must be."""
    reserved = name in METADATA
    if not reserved and name not in taken and not re.search(r"[.\[\]@]", name):
        return name
    plain = _WORD.sub("_", name).strip("_") or "column"
    if (reserved and plain == name) or keyword.iskeyword(plain):
        plain = f"record_{plain}"
    made, number = plain, 2
    while made in taken or made in METADATA:
        made, number = f"{plain}_{number}", number + 1
    return made


def _presence(member: Observed, records: int) -> str:
    parts = []
    if member.types.total() < records:
        parts.append(f"in {member.types.total():,} of {records:,}")
    if member.types[NULL]:
        parts.append(f"null in {member.types[NULL]:,}")
    return ", ".join(parts)


def _type(seen: Observed, at: Path, without: list[str], *, in_list: bool = False) -> Type | str:
    """Return the type of a place, or why it has none; items of a list have no options.

    ``without`` gets a comment for each place below that has no type.
    """
    objects, lists = seen.types[OBJECT], seen.types[LIST]
    scalars = sum(seen.types[kind] for kind in SCALARS)
    if not objects + lists + scalars:
        return f"always null, in {seen.types[NULL]:,} records"
    most = max(objects, lists, scalars)
    if objects + lists + scalars - most > _MISFITS * most:
        return f"{objects:,} objects, {lists:,} lists and {scalars:,} other values"
    if objects == most:
        return _object(seen, at, without)
    if lists == most:
        return _list(seen, at, without)
    content = None if in_list else seen.content
    if content is not None and content.types.total() == scalars:
        inner = _type(content, at, without)
        if not isinstance(inner, str):
            return Type(inner.text, inner.members, json=True, in_list=inner.in_list)
    return _scalar(seen)


def _scalar(seen: Observed) -> Type:
    kinds = {kind for kind in SCALARS if seen.types[kind]}
    if len(kinds) == 1:
        return Type(kinds.pop())
    if kinds == {INT, FLOAT}:
        return Type(FLOAT)
    numbers = {INT, FLOAT} & kinds
    if TEXT in kinds and numbers and BOOL not in kinds:
        for name, dtype in ((INT, pl.Int64()), (FLOAT, pl.Float64())):
            if all(map(partial(_fits, lenient(dtype)), seen.distinct)):
                return Type(name, lenient=True)
    return Type(TEXT, lenient=True)


def quoted(text: str) -> str:
    """Return a text as source text."""
    plain = text.isprintable() and not {'"', "\\"} & {*text}
    return f'"{text}"' if plain else repr(text)


def _fits(read: Any, value: Any) -> bool:
    try:
        read(value)
    except ValueError:
        return False
    return True


def _list(seen: Observed, at: Path, without: list[str]) -> Type | str:
    if seen.items is None or not seen.items.types:
        return f"lists without values, in {seen.types[LIST]:,} records"
    item = _type(seen.items, at, without, in_list=True)
    if isinstance(item, str):
        return f"lists of {item}"
    if item.in_list and item.members:
        return "lists of lists of objects"
    text = f"list[{item.text}]" if item.in_list else item.text
    return Type(text, item.members, lenient=item.lenient, in_list=True)


def _object(seen: Observed, at: Path, without: list[str]) -> Type | str:
    if _is_map(seen):
        values = Observed()
        for member in (*seen.members.values(), *filter(None, [seen.others])):
            values.merge(member)
        value = _type(values, at, [], in_list=True)
        if not isinstance(value, str) and not value.members and not value.in_list:
            return Type(f"dict[str, {value.text}]", lenient=value.lenient)
    members = tuple(_members(seen, at, without))
    if not members:
        return f"objects without members of a type, in {seen.types[OBJECT]:,} records"
    return Type(members=members)


def _members(seen: Observed, at: Path, without: list[str]) -> Iterator[Column]:
    """Yield the members of objects that have a type."""
    for name, member in seen.members.items():
        path, before = (*at, name), len(without)
        type_ = _type(member, path, without) if _is_name(name) else "a name that is not allowed"
        if isinstance(type_, str):
            del without[before:]
            without.append(f"{'.'.join(path)!r}: {type_}")
        else:
            yield Column(name, name, type_, _presence(member, seen.types[OBJECT]))


def _is_map(seen: Observed) -> bool:
    """Return whether objects look like maps: many names, each in few of them; scalar values."""
    members = seen.members.values()
    if seen.others is None and len(members) < _MAP_NAMES:
        return False
    kinds = {kind for member in members for kind in member.types if kind != NULL}
    mean = sum(member.types.total() for member in members) / len(members)
    return kinds <= {*SCALARS} and mean < _MAP_SHARE * seen.types[OBJECT]


def lines_of(columns: tuple[Column, ...], indent: str = "") -> Iterator[str]:
    """Yield the lines of a dict's members as source text, with comments."""
    for each in columns:
        yield from _lines(each, indent)


def _lines(column: Column, indent: str) -> Iterator[str]:
    comment = f"  # {column.comment}" if column.comment else ""
    key = f"{indent}{quoted(column.name)}: "
    short = f"{key}{_text(column)},{comment}"
    if len(short) <= _WIDTH or not column.type.members:
        yield short
        return
    before, after = _around(column)
    yield f"{key}{before}{{{comment}"
    yield from lines_of(column.type.members, indent + "    ")
    yield f"{indent}}}{after},"


def _text(column: Column) -> str:
    type_ = column.type
    before, after = _around(column)
    if not type_.members:
        return f"{before}{type_.text}{after}"
    inside = ", ".join(f"{quoted(each.name)}: {_text(each)}" for each in type_.members)
    return f"{before}{{{inside}}}{after}"


def _around(column: Column) -> tuple[str, str]:
    """Return the text before and after a type: ``field(...)`` and ``list[...]``."""
    type_ = column.type
    before, after = ("list[", "]") if type_.in_list else ("", "")
    options = ", lenient=True" * type_.lenient + ", json=True" * type_.json
    if options or column.member != column.name:
        place = quoted(column.member)
        if "." in column.member:
            place = f"[{place}]"
        return f"field({place}, {before}", f"{after}{options})"
    return before, after


def column_path(columns: tuple[Column, ...], path: Path) -> str | None:
    """Return a place of the records as the path of a column, None if no column leads there."""
    names = []
    for name in path:
        found = next((each for each in columns if each.member == name), None)
        if found is None or "." in found.name or found.type.in_list or found.type.json:
            return None
        names.append(found.name)
        columns = found.type.members
    return None if columns else ".".join(names)
