"""The columns of observed records, as a user would declare them."""

import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tidemark.core.rows.expression import METADATA
from tidemark.errors import PipelineError
from tidemark.infer.names import COMMA_NUMBER, IDS
from tidemark.infer.observed import (
    BOOL,
    BYTES,
    FLOAT,
    INT,
    LIST,
    LONG,
    NULL,
    NUMERAL_ID,
    OBJECT,
    SCALARS,
    TEXT,
    Observed,
    Path,
)
from tidemark.plan.names import require_member_names

_MAP_NAMES = 20
_MAP_SHARE = 0.3
_KEYS = 3
_KEY = re.compile(
    r"[0-9]+|[0-9a-fA-F]{12,}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}.*|[0-9]+(\.[0-9]+){3}|[^@\s]+@[^@\s]+\.[a-z]+"
)
_MISFITS = 0.05
_NEARLY = 0.9
_WORD = re.compile(r"\W+")


@dataclass(frozen=True)
class Type:
    """A type as source text; ``members``: of a nested dict, in place of the text.

    ``before`` and ``after``: the lists and maps around it.  ``misfits``: the number of values that
    are not of the type.
    """

    text: str = ""
    members: tuple["Column", ...] = ()
    before: str = ""
    after: str = ""
    lenient: bool = False
    json: bool = False
    misfits: int = 0
    note: str = ""

    def inside(self, before: str) -> "Type":
        """Return the type of a list or map of this one."""
        return replace(self, before=before + self.before, after=self.after + "]", misfits=0)


@dataclass(frozen=True)
class Column:
    """A column or member: its name, where it is read, its type and a comment.

    ``member``: its name in the record.
    """

    name: str
    member: str
    type: Type
    comment: str = ""


def columns_of(records: Observed, *, of_text: bool = False) -> tuple[tuple[Column, ...], list[str]]:
    """Return the columns of records, and a comment for each place that has no type.

    ``of_text``: whether numbers are texts in the format, as in CSV.
    """
    taken: set[str] = set()
    columns = []
    reading = _Reading(of_text)
    for each in reading.members(records, ()):
        name = _column_name(each.name, taken)
        taken.add(name)
        columns.append(replace(each, name=name))
    return tuple(columns), reading.without


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


@dataclass
class _Reading:
    """Makes types of places; ``without`` gets a comment for each place that has none."""

    of_text: bool

    def __post_init__(self) -> None:
        self.without: list[str] = []

    def members(self, seen: Observed, at: Path) -> Iterator[Column]:
        """Yield the members of objects that have a type."""
        for name, member in seen.members.items():
            path, before = (*at, name), len(self.without)
            type_ = self._type(member, path) if _is_name(name) else "a name that is not allowed"
            if isinstance(type_, str):
                del self.without[before:]
                self.without.append(f"{'.'.join(path)!r}: {type_}")
            else:
                yield Column(name, name, type_, _comment(member, type_, seen.types[OBJECT]))

    def _type(self, seen: Observed, at: Path, *, in_list: bool = False) -> Type | str:
        """Return the type of a place, or why it has none; items of a list hold no JSON."""
        objects, lists = seen.types[OBJECT], seen.types[LIST]
        scalars = sum(seen.types[kind] for kind in SCALARS)
        if not objects + lists + scalars:
            return f"always null, in {seen.types[NULL]:,} records"
        most = max(objects, lists, scalars)
        misfits = objects + lists + scalars - most
        if misfits > _MISFITS * most:
            return f"{objects:,} objects, {lists:,} lists and {scalars:,} other values"
        if objects == most:
            found = self._object(seen, at)
        elif lists == most:
            found = self._list(seen, at)
        else:
            found = self._value(seen, at, in_list=in_list)
        if isinstance(found, str) or (found.text == TEXT and found.lenient):
            return found
        return replace(found, misfits=misfits)

    def _value(self, seen: Observed, at: Path, *, in_list: bool) -> Type:
        scalars = sum(seen.types[kind] for kind in SCALARS)
        content = None if in_list else seen.content
        if content is not None and content.types.total() + seen.distinct[""] == scalars:
            inner = _Reading(of_text=False)._type(content, at)
            if not isinstance(inner, str):
                return replace(inner, json=True)
        return _scalar(seen, at[-1], of_text=self.of_text)

    def _list(self, seen: Observed, at: Path) -> Type | str:
        if seen.items is None or not seen.items.types:
            return f"lists without values, in {seen.types[LIST]:,} records"
        item = self._type(seen.items, at, in_list=True)
        return f"lists of {item}" if isinstance(item, str) else item.inside("list[")

    def _object(self, seen: Observed, at: Path) -> Type | str:
        if _is_map(seen):
            values = Observed()
            for member in (*seen.members.values(), *filter(None, [seen.others])):
                values.merge(member)
            before = len(self.without)
            value = self._type(values, at, in_list=True)
            if not isinstance(value, str):
                return value.inside("dict[str, ")
            del self.without[before:]
        members = tuple(self.members(seen, at))
        if not members:
            return f"objects without members of a type, in {seen.types[OBJECT]:,} records"
        return Type(members=members)


def _comment(member: Observed, type_: Type, records: int) -> str:
    parts = [type_.note] if type_.note else []
    if member.types.total() < records:
        parts.append(f"in {member.types.total():,} of {records:,}")
    if member.types[NULL]:
        parts.append(f"null in {member.types[NULL]:,}")
    if type_.misfits:
        parts.append(f"{type_.misfits:,} do not fit")
    return ", ".join(parts)


def _scalar(seen: Observed, name: str, *, of_text: bool) -> Type:
    kinds = {kind for kind in SCALARS if seen.types[kind]}
    if kinds == {TEXT}:
        return _of_texts(seen, name, of_text=of_text)
    if kinds <= {INT, LONG} and LONG in kinds:
        return Type(TEXT, lenient=True)  # a float would make two ids one
    if len(kinds) == 1:
        return Type(kinds.pop())
    if kinds <= {INT, LONG, FLOAT}:
        return Type(FLOAT)
    spelled = {kind for kind in seen.texts if seen.texts[kind]} - {NULL}
    if BYTES in kinds:
        return Type(BYTES, misfits=sum(seen.types[kind] for kind in kinds - {BYTES}))
    if kinds == {BOOL, TEXT} and spelled <= {BOOL}:
        return Type(BOOL, lenient=True)
    if not kinds & {BOOL, LONG} and spelled <= {INT, FLOAT, NUMERAL_ID}:
        numbers = (kinds | spelled) & {INT, FLOAT}
        if NUMERAL_ID not in spelled:
            return Type(FLOAT if FLOAT in numbers else INT, lenient=True)
    return Type(TEXT, lenient=True)


def _of_texts(seen: Observed, name: str, *, of_text: bool) -> Type:
    """Return the type of texts: of what they all spell, unless they are likely ids."""
    found = seen.texts
    values = found.total() - found[NULL]
    numbers = found[INT] + found[FLOAT]
    if values and found[BOOL] == values:
        return Type(BOOL, lenient=not of_text)
    is_id = IDS.fullmatch(name) is not None and (not of_text or bool(found[FLOAT]))
    if values and numbers == values and not is_id:
        return Type(FLOAT if found[FLOAT] else INT, lenient=not of_text)
    others = values - numbers
    note = f"all but {others:,} are numbers" if _NEARLY * values <= numbers < values else ""
    if others == values and any(seen.distinct) and all(map(COMMA_NUMBER.fullmatch, seen.distinct)):
        note = "numbers with commas are text; replace the comma before a cast"
    return Type(TEXT, note="" if found[NUMERAL_ID] else note)


def quoted(text: str) -> str:
    """Return a text as source text."""
    plain = text.isprintable() and not {'"', "\\"} & {*text}
    return f'"{text}"' if plain else repr(text)


def _is_map(seen: Observed) -> bool:
    """Return whether objects look like maps: many names, each in few of them, or names of keys."""
    members = seen.members.values()
    if len(members) < _KEYS or not _are_alike(seen):
        return False
    if all(map(_KEY.fullmatch, seen.members)):
        return True
    if seen.others is None and len(members) < _MAP_NAMES:
        return False
    mean = sum(member.types.total() for member in members) / len(members)
    return mean < _MAP_SHARE * seen.types[OBJECT]


def _are_alike(seen: Observed) -> bool:
    """Return whether the members of objects may be values of one map."""
    members = seen.members.values()
    kinds: set[Any] = {kind for member in members for kind in member.types if kind != NULL}
    if kinds <= {*SCALARS}:
        return True
    if len(kinds) > 1:
        return False
    names = [frozenset(member.members) for member in members]
    everywhere = frozenset.intersection(*names)
    return kinds == {LIST} or 2 * len(everywhere) >= max(map(len, names))


def column_path(columns: tuple[Column, ...], path: Path) -> str | None:
    """Return a place of the records as the path of a column, None if no column leads there."""
    names = []
    for found in _columns_at(columns, path):
        if found is None or "." in found.name:
            return None
        names.append(found.name)
    return ".".join(names) if names else None


def type_at(columns: tuple[Column, ...], path: Path) -> Type:
    """Return the type of the column of a place that has a path (``column_path``)."""
    *_, last = _columns_at(columns, path)
    assert last is not None
    return last.type


def with_type(columns: tuple[Column, ...], path: Path, type_: Type) -> tuple[Column, ...]:
    """Return the columns with another type at a place."""
    changed = []
    for each in columns:
        if each.member == path[0]:
            if len(path) == 1:
                each = replace(each, type=type_)
            else:
                members = with_type(each.type.members, path[1:], type_)
                each = replace(each, type=replace(each.type, members=members))
        changed.append(each)
    return tuple(changed)


def _columns_at(columns: tuple[Column, ...], path: Path) -> Iterator[Column | None]:
    """Yield the columns on the way to a scalar; None where the way ends before."""
    for name in path:
        found = next((each for each in columns if each.member == name), None)
        if found is None or found.type.before or found.type.json:
            yield None
            return
        yield found
        columns = found.type.members
    if columns:
        yield None
