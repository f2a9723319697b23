"""Schemas as users write them, nested dicts or classes, become the tree that decoders read by.

A class of fields is a dataclass, a TypedDict or a pydantic model.  Its names, types, defaults and
aliases count; a field without a default is required, unless its type is Optional.
"""

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Union, get_args, get_origin

import polars as pl

from tidemark.core.rows.expression import METADATA, as_written
from tidemark.core.rows.schema import (
    Field,
    JsonText,
    Kind,
    ListOf,
    MapOf,
    Raw,
    Schema,
    StructOf,
    has_times,
)
from tidemark.core.rows.schema import Scalar as ScalarKind
from tidemark.errors import PipelineError
from tidemark.language.field import RAW, DeclaredField
from tidemark.language.times import TIME_TYPES, default_text, time_kind
from tidemark.plan.names import TYPES, require_member_names, require_new_columns, require_top_level
from tidemark.serde.objects.record_type import RecordType

_UNIONS = (Union, types.UnionType)


class _Declared(NamedTuple):
    """A member of a schema before its type is read; None stands for no default."""

    name: str
    type: Any
    default: Any = None
    required: bool = False
    path: tuple[str, ...] = ()


class _Reading(NamedTuple):
    """How the values of a column are read, as ``field`` says it for all that it holds."""

    lenient: bool = False
    unit: str | Sequence[str] | None = None
    zone: str | None = None

    def of(self, used: DeclaredField) -> "_Reading":
        """Return the reading of a field in a column that is read this way."""
        return _Reading(
            self.lenient or used.lenient,
            self.unit if used.unit is None else used.unit,
            self.zone if used.zone is None else used.zone,
        )


def schema_of(declared: object, what: str) -> Schema:
    """Return the schema that a user declares: a dict of names and types, or a class of fields.

    Raises:
        PipelineError: a name or type is not supported, or two columns contradict each other.
    """
    members = _members(declared, what)
    if not members:
        raise PipelineError(
            f"{what}: {as_written(declared)} is not a dict of column names and types"
        )
    names = [each.name for each in members]
    for name in names:
        is_metadata = name in METADATA
        if is_metadata or (isinstance(name, str) and name.startswith("@")):
            why = (
                " is a metadata column"
                if is_metadata
                else ": names that begin with '@' are reserved"
            )
            raise PipelineError(
                f"{what}: column {name!r}{why}; read the member under another name: "
                f"{{{name.strip('_@')!r}: field({name!r}, ...)}}"
            )
    require_new_columns(names, what)
    require_top_level(names, what)
    schema = Schema(tuple(_field(each, what, _Reading()) for each in members))
    RecordType(schema, what)
    return schema


def _members(declared: object, what: str) -> list[_Declared]:
    """Return the members of a dict or class; of other objects, an empty list."""
    if isinstance(declared, Mapping):
        return [_Declared(name, type_) for name, type_ in declared.items()]
    if not isinstance(declared, type):
        return []
    try:
        return list(_of_class(declared, what))
    except NameError as error:
        raise PipelineError(f"{what}: {declared.__name__}: {error}") from None


def _of_class(declared: type, what: str) -> Iterator[_Declared]:
    if dataclasses.is_dataclass(declared):
        hints = typing.get_type_hints(declared, include_extras=True)
        for each in dataclasses.fields(declared):
            yield _with_default(each.name, hints[each.name], each.default, each.default_factory)
    elif typing.is_typeddict(declared):
        for name, hint in typing.get_type_hints(declared, include_extras=True).items():
            yield _Declared(name, hint, None, name in declared.__required_keys__)  # type: ignore[attr-defined]
    elif hasattr(declared, "model_fields"):
        for name, info in declared.model_fields.items():
            alias = info.validation_alias or info.alias or name
            path = (alias,) if isinstance(alias, str) else tuple(getattr(alias, "path", ()))
            if not path or not all(isinstance(part, str) for part in path):
                raise PipelineError(
                    f"{what}: {declared.__name__}.{name}: alias {alias!r} is not a path"
                )
            default = dataclasses.MISSING if info.is_required() else info.get_default()
            factory = info.default_factory or dataclasses.MISSING
            made = _with_default(name, info.annotation, default, factory)
            yield made._replace(path=path)


def _with_default(name: str, type_: Any, default: Any, factory: Any) -> _Declared:
    if factory is not dataclasses.MISSING:
        return _Declared(name, type_, factory())
    if default is dataclasses.MISSING:
        return _Declared(name, type_, None, required=True)
    return _Declared(name, type_, default)


def _field(each: _Declared, what: str, reading: _Reading) -> Field:
    """Return a field; ``reading``: how the values in it are read."""
    where = f"{what}: column {each.name!r}"
    type_, is_optional, used = _unwrapped(each.type)
    if type_ is RAW:
        used = DeclaredField((), str)
    if used is None:
        kind = _kind(type_, where, reading)
        required = each.required and not is_optional
        default = default_text(each.default, kind, where)
        return Field(each.name, kind, _place(each.path, each.name), required, default)
    if used.path == ():
        inner, _, _ = _unwrapped(used.type)
        if inner not in (str, bytes):
            raise PipelineError(f"{where}: RAW is str or bytes, not {as_written(inner)}")
        return Field(each.name, Raw(pl.String() if inner is str else pl.Binary()))
    inner, is_optional_inner, nested = _unwrapped(used.type)
    if nested is not None or inner is RAW:
        raise PipelineError(f"{where}: {as_written(used.type)} is not a type")
    require_member_names(used.path, where)
    kind = _kind(inner, where, reading.of(used))
    if (used.unit or used.zone) and not has_times(kind):
        raise PipelineError(f"{where}: unit and zone are of a datetime or date, not {kind.dtype}")
    optional = is_optional or is_optional_inner if used.optional is None else used.optional
    required = not optional and (each.required or used.optional is False)
    default = each.default if used.default is None else used.default
    default = default_text(default, kind, where)
    if default is not None:
        required = False
    path = _place(used.path, each.name)
    return Field(each.name, JsonText(kind) if used.json else kind, path, required, default)


def _place(path: tuple[str, ...], name: str) -> tuple[str, ...]:
    return () if path == (name,) else path


def _unwrapped(type_: Any) -> tuple[Any, bool, DeclaredField | None]:
    """Return a type without Optional and Annotated, whether it had None, and its ``field``."""
    is_optional, used = False, type_ if isinstance(type_, DeclaredField) else None
    while used is None:
        origin, args = get_origin(type_), get_args(type_)
        if origin in (typing.Required, typing.NotRequired):
            is_optional = is_optional or origin is typing.NotRequired
            type_ = args[0]
        elif origin is typing.Annotated:
            used = next((each for each in args[1:] if isinstance(each, DeclaredField)), None)
            type_ = args[0]
        elif origin in _UNIONS and type(None) in args and len(args) == 2:
            is_optional = True
            type_ = next(each for each in args if each is not type(None))
        else:
            break
    return type_, is_optional, used


def _kind(type_: Any, where: str, reading: _Reading) -> Kind:
    """Return the kind of a type; ``where`` names the column in errors."""
    type_, _, used = _unwrapped(type_)
    if used is not None:
        raise PipelineError(f"{where}: field() is a member of a dict or class, not an item")
    if isinstance(type_, type) and type_ in TYPES:
        if type_ in TIME_TYPES:
            return time_kind(
                TYPES[type_], reading.unit, reading.zone, where, lenient=reading.lenient
            )
        return ScalarKind(TYPES[type_], reading.lenient)
    origin, args = get_origin(type_), get_args(type_)
    if isinstance(type_, list) and len(type_) == 1:
        return ListOf(_kind(type_[0], f"{where}[]", reading))
    if origin is list:
        return ListOf(_kind(args[0], f"{where}[]", reading))
    if origin is dict and args[0] is str:
        return MapOf(_kind(args[1], f"{where}[...]", reading))
    members = [] if origin is not None else _members(type_, where)
    if members:
        require_member_names([each.name for each in members], where)
        if any(each.type is RAW for each in members):
            raise PipelineError(f"{where}: RAW is a column, not a member of one")
        return StructOf(tuple(_field(each, where, reading) for each in members))
    raise PipelineError(
        f"{where}: {as_written(type_)} is not a type; use str, int, float, bool, bytes, datetime, "
        "date, list[...], dict[str, ...], a dict of members, [a dict of members], or a dataclass"
    )
