"""``field``: a value inside a record, as a column of a schema or as an expression."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, overload

import polars as pl

from tidemark.core.rows.nested import Path, nested_expression, path_of
from tidemark.core.rows.options import require_boolean
from tidemark.errors import PipelineError


class _Raw(Enum):
    RAW = "raw"

    def __repr__(self) -> str:
        return "RAW"


RAW: Final = _Raw.RAW
"""The whole record as it came, as a column of a schema: ``{"body": RAW}``."""


@dataclass(frozen=True)
class DeclaredField:
    """A column of a schema as ``field`` declares it; ``path`` is () for RAW."""

    path: Path
    type: Any
    default: Any = None
    optional: bool | None = None
    lenient: bool = False
    json: bool = False
    unit: str | Sequence[str] | None = None
    zone: str | None = None


@overload
def field(path: str | Sequence[str]) -> pl.Expr: ...


@overload
def field(
    path: str | Sequence[str] | _Raw,
    type: Any,
    *,
    default: Any = None,
    optional: bool | None = None,
    lenient: bool = False,
    json: bool = False,
    unit: str | Sequence[str] | None = None,
    zone: str | None = None,
) -> DeclaredField: ...


def field(
    path: str | Sequence[str] | _Raw,
    type: Any = None,  # noqa: A002
    *,
    default: Any = None,
    optional: bool | None = None,
    lenient: bool = False,
    json: bool = False,
    unit: str | Sequence[str] | None = None,
    zone: str | None = None,
) -> pl.Expr | DeclaredField:
    """Return a nested value: an expression, or with a type a column of a schema.

    ``path``: the names that lead to the value, with dots between them: ``"details.price"``; or a
    list of names, if one has a dot.  ``field("details.price")`` is an expression for ``filter``,
    ``select`` and the others.  Its column is named by the last name.

    With ``type``, the column of a schema is read from this path of the record.  Inside a nested
    schema, the path begins there.  ``field(RAW, bytes)`` is the whole record as bytes.

    ``default``: the value in place of a missing member or null.  ``optional=False``: a record
    without the member, or with null, is a dead letter.  ``lenient``: other spellings are converted,
    such as ``"2.5"`` and ``1.0`` for an int.  ``json``: the member is a text that holds JSON.
    ``unit`` and ``zone``: how a datetime or date is read, as for the event time of a source; a
    datetime is of unit "auto" by default, and a date of "%Y-%m-%d".

    Raises:
        PipelineError: the path is not one, or an option does not fit the others.
    """
    what = f"field({path!r})"
    options = (default, optional, unit, zone) != (None,) * 4 or lenient or json
    if path is RAW:
        if options:
            raise PipelineError(f"{what}: RAW is the whole record, so it has no options")
        return DeclaredField((), str if type is None else type)
    names = path_of(path, what)
    if type is None:
        if options:
            raise PipelineError(f"{what}: options need a type, such as field({path!r}, str, ...)")
        return nested_expression(names)
    for name, value in (("lenient", lenient), ("json", json)):
        require_boolean(value, f"{what}: {name}")
    if optional is not None:
        require_boolean(optional, f"{what}: optional")
    if optional is False and default is not None:
        raise PipelineError(f"{what}: a field with a default is optional; drop optional=False")
    return DeclaredField(names, type, default, optional, lenient, json, unit, zone)
