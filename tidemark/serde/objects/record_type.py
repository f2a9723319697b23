"""The msgspec type of a schema's records, for JSON text and for decoded Python values alike.

A record is an object of a generated struct type with slots m0, m1, ...  The type accepts exactly
the values of the schema.  All decoders share it, so all formats have the same rules and reasons.
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
import polars as pl

from tidemark.core.rows.schema import (
    Field,
    JsonText,
    Kind,
    ListOf,
    MapOf,
    Raw,
    Schema,
    StructOf,
    TimeValue,
)
from tidemark.errors import PipelineError
from tidemark.serde.nesting import MAX_NESTING, nested_too_deep
from tidemark.serde.objects.member_values import object_values, values_of
from tidemark.serde.objects.members import Member, Object
from tidemark.serde.objects.value_loop import ValueLoop
from tidemark.serde.spellings.lenient import Read, kind_name, lenient

_NO_TYPE = re.compile(r"Expected `(.+?)`, got `(.+?)`")
_MISSING = re.compile(r"Object missing required field `(.*?)`", re.DOTALL)
_WHERE = re.compile(r"^(.*) - at `\$\.?(.*)`$", re.DOTALL)
_ELEMENT = re.compile(r"\[(\d+)\]\.?")
_RANGE = re.compile(r"Expected `int` [<>]= |[Nn]umber out of range|Integer value out of range")


class _Anything(type):
    """The type of hook types: what a hook returns is not checked again."""

    read: Read

    def __instancecheck__(cls, _value: object) -> bool:
        return True


class RecordType:
    """The type of the records of one schema.

    ``converted``: the number of lenient values that were converted so far.  ``is_lenient``: whether
    the schema has lenient values.
    """

    def __init__(self, schema: Schema, what: str = "schema") -> None:
        """Make the type; ``what`` names the schema in errors.

        Raises:
            PipelineError: two columns read one member as different types, a default does not fit,
                or a type is not supported.
        """
        self.schema = schema
        self.converted = 0
        self.is_lenient = False
        self._what = what
        self.object = self._object(schema.fields)

    def json_decoder(self) -> "msgspec.json.Decoder[Any]":
        """Return a decoder of one record as JSON text."""
        return msgspec.json.Decoder(self.object.type, dec_hook=_read)

    def json_array_decoder(self) -> "msgspec.json.Decoder[list[Any]]":
        """Return a decoder of a JSON array of records."""
        return msgspec.json.Decoder(list[self.object.type], dec_hook=_read)  # type: ignore[name-defined]

    def json_document_decoder(self) -> "msgspec.json.Decoder[Any]":
        """Return a decoder of a record, or an array of records; its reasons are not for users."""
        type_ = self.object.type
        return msgspec.json.Decoder(type_ | list[type_], dec_hook=_read)  # type: ignore[valid-type]

    def rows(self, values: Sequence[Any]) -> list[Any]:
        """Return decoded values, such as dicts of their members, as rows.

        Raises:
            msgspec.ValidationError: one does not fit the schema; of several, named by its position.
        """
        if len(values) == 1:
            return [msgspec.convert(values[0], self.object.type, dec_hook=_read)]
        rows: list[Any] = msgspec.convert(
            values,
            list[self.object.type],  # type: ignore[name-defined]  # a type made at run time
            dec_hook=_read,
        )
        return rows

    def _object(self, fields: Sequence[Field]) -> Object:
        made = Object()
        for each in _maps_first(fields):
            if not isinstance(each.kind, Raw):
                self._place(made, each, each.name)
        self._close(made)
        self._check_defaults(fields, made)
        return made

    def _place(self, parent: Object, each: Field, column: str) -> None:
        """Add the members on the path of a field."""
        *way, name = each.place
        for at, part in enumerate(way):
            member = self._member(parent, part, column, each.required)
            if isinstance(member.kind, MapOf):
                self._entry(member, each, (*way[at + 1 :], name), column)
                return
            parent = self._inside(member, part, column)
        member = self._member(parent, name, column, each.required)
        if isinstance(each.kind, StructOf):
            inside = self._inside(member, name, column)
            for inner in _maps_first(each.kind.fields):
                self._place(inside, inner, column)
        elif member.object is not None or member.kind not in (None, each.kind):
            raise self._conflict(member, name, column)
        member.kind = member.kind or each.kind
        member.is_whole |= each.default is not None

    def _entry(self, of: Member, each: Field, path: tuple[str, ...], column: str) -> None:
        """Add the entry of a map that a field reads; ``path``: from the map."""
        assert isinstance(of.kind, MapOf)
        if len(path) > 1 or each.kind != of.kind.value:
            raise PipelineError(
                f"{self._what}: column {column!r} reads {'.'.join(path)!r} of the map {of.column!r}"
                f" as {each.kind}, but the map's values are {of.kind.value}"
            )
        entry = of.entries.setdefault(path[0], Member("", column, each.kind, is_whole=True))
        entry.required |= each.required
        of.is_whole = True

    def _member(self, parent: Object, name: str, column: str, required: bool) -> Member:
        slot = f"m{len(parent.members)}"
        member = parent.members.setdefault(name, Member(slot, column))
        member.required |= required
        return member

    def _inside(self, member: Member, name: str, column: str) -> Object:
        """Return the object that a member is."""
        if member.kind is not None and not isinstance(member.kind, StructOf):
            raise self._conflict(member, name, column)
        member.object = member.object or Object()
        return member.object

    def _conflict(self, member: Member, name: str, column: str) -> PipelineError:
        return PipelineError(
            f"{self._what}: columns {member.column!r} and {column!r} read member {name!r} as "
            "different types; leave one of them out"
        )

    def _close(self, made: Object) -> None:
        """Make the types of an object whose members are all known."""
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for member in made.members.values():
            if member.object is not None:
                self._close(member.object)
                member.type = member.object.type
                member.take = member.object.take
            else:
                assert member.kind is not None
                member.type = self._type(member.kind, member)
                member.take = ValueLoop(partial(values_of, member.kind, member))
                for entry in member.entries.values():
                    assert entry.kind is not None
                    entry.type = self._type(entry.kind, entry)
                    entry.take = ValueLoop(partial(values_of, entry.kind, entry))
            optional = (member.slot, member.type | None, None)
            fields.append((member.slot, member.type) if member.required else optional)
        made.type = msgspec.defstruct(
            "Record",
            fields,
            rename={member.slot: name for name, member in made.members.items()},
            gc=False,
            eq=False,
            kw_only=True,
        )
        made.empty = made.type(**{member.slot: None for member in made.members.values()})
        made.take = ValueLoop(partial(object_values, made))

    def _type(self, kind: Kind, member: Member) -> Any:
        """Return the msgspec type that accepts exactly the values of a kind."""
        if isinstance(kind, ListOf):
            item = self._type(kind.item, member)
            return list[item | None]  # type: ignore[valid-type]  # a type made at run time
        if isinstance(kind, MapOf):
            value = self._type(kind.value, member)
            return dict[str, value | None]  # type: ignore[valid-type]
        if isinstance(kind, StructOf):
            member.object = self._object(kind.fields)
            return member.object.type
        if isinstance(kind, JsonText):
            return self._json_text(self._type(kind.content, member))
        assert not isinstance(kind, Raw)
        if isinstance(kind, TimeValue):  # time_values.py reads it, whole columns at once
            self.is_lenient |= kind.lenient
            return Any
        if kind.lenient:
            return self._lenient(lenient(kind.dtype))
        for known, type_ in _SCALARS:
            if kind.dtype == known:
                return type_
        raise PipelineError(
            f"column {member.column!r}: type {kind.dtype} cannot be read from a record"
        )

    def _lenient(self, read: Read) -> Any:
        self.is_lenient = True

        def counted(value: Any) -> Any:
            result = read(value)
            self.converted += type(result) is not type(value)
            return result

        return _Anything("Lenient", (), {"read": staticmethod(counted)})

    def _json_text(self, content: Any) -> Any:
        decode = msgspec.json.Decoder(content | None, dec_hook=_read).decode

        def read(value: Any) -> Any:
            if not isinstance(value, str):
                raise ValueError(  # noqa: TRY004 - msgspec shows it with the place
                    f"expected a text that holds JSON, got {kind_name(value)}"
                )
            if not value.strip():
                return None
            if len(value) > MAX_NESTING and nested_too_deep(value.encode()):
                raise ValueError(f"its text is nested deeper than {MAX_NESTING}")
            try:
                return decode(value)
            except msgspec.ValidationError as error:
                raise ValueError(f"in its JSON: {validation_reason(error)}") from None
            except msgspec.DecodeError as error:
                raise ValueError(f"its text is not JSON: {error}") from None

        return _Anything("JsonText", (), {"read": staticmethod(read)})

    def _check_defaults(self, fields: Sequence[Field], inside: Object) -> None:
        for each in fields:
            if isinstance(each.kind, Raw):
                continue
            at = inside
            member = member_at(each, at)
            at = member.object or at
            if each.default is not None and not isinstance(each.kind, TimeValue):
                self._require_default(each, member)
            if isinstance(each.kind, StructOf):
                self._check_defaults(each.kind.fields, at)

    def _require_default(self, each: Field, member: Member) -> None:
        try:
            default_of(each, member)
        except msgspec.ValidationError as error:
            raise PipelineError(
                f"{self._what}: column {each.name!r}: default {each.default!r}: "
                f"{validation_reason(error)}"
            ) from None


def _maps_first(fields: Sequence[Field]) -> list[Field]:
    """Return fields in the order in which they are placed: another may read an entry of a map."""
    return sorted(fields, key=lambda each: not _has_maps(each.kind))


def _has_maps(kind: Kind) -> bool:
    """Return whether a value of a kind is a map, or an object that has one."""
    if isinstance(kind, StructOf):
        return any(_has_maps(each.kind) for each in kind.fields)
    return isinstance(kind, MapOf)


def member_at(each: Field, inside: Object) -> Member:
    """Return the member that a field reads, or the entry of a map."""
    first, *rest = each.place
    member = inside.members[first]
    for name in rest:
        if member.entries:
            return member.entries[name]
        assert member.object is not None
        member = member.object.members[name]
    return member


def default_of(each: Field, member: Member) -> Any:
    """Return the default of a field as a value of its member's type.

    Raises:
        msgspec.ValidationError: it has another type.
    """
    return msgspec.convert(each.default, member.type, dec_hook=_read)


def _read(type_: Any, value: Any) -> Any:
    return type_.read(value)


def validation_reason(error: msgspec.ValidationError) -> str:
    """Return a short, stable reason: the column, and what is wrong with it."""
    message = str(error)
    where = _WHERE.match(message)
    message, place = (where[1], where[2]) if where else (message, "")
    missing = _MISSING.match(message)
    if missing:
        place, message = ".".join(filter(None, (place, missing[1]))), "missing"
    elif wrong := _NO_TYPE.match(message):
        expected = wrong[1].replace(" | null", "")
        message = f"expected {expected}, got {wrong[2]}"
        if expected in ("object", "array") and wrong[2] == "str" and place:
            message += "; is it JSON in text? field(..., json=True) declares that"
    elif _RANGE.match(message):
        message = "number out of range"
    element = _ELEMENT.match(place)
    lead = f"element {element[1]}: " if element else ""
    place = place[element.end() :] if element else place
    return f"{lead}column {place}: {message}" if place else f"{lead}{message}"


_SCALARS: tuple[tuple[type[pl.DataType], Any], ...] = (
    (pl.String, str),
    (pl.Float64, float),
    (pl.Boolean, bool),
    (pl.Binary, bytes),
    (pl.Int64, Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]),
    (pl.Int32, Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]),
    (pl.Int16, Annotated[int, msgspec.Meta(ge=-(2**15), le=2**15 - 1)]),
    (pl.Int8, Annotated[int, msgspec.Meta(ge=-(2**7), le=2**7 - 1)]),
    (pl.UInt32, Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]),
    (pl.UInt16, Annotated[int, msgspec.Meta(ge=0, le=2**16 - 1)]),
    (pl.UInt8, Annotated[int, msgspec.Meta(ge=0, le=2**8 - 1)]),
)
