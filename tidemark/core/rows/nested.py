"""Paths to nested values: of a record's members, and of the fields of struct columns."""

from collections.abc import Mapping, Sequence

import polars as pl

from tidemark.core.rows.schema import instance
from tidemark.errors import PipelineError

Path = tuple[str, ...]


def path_of(path: object, what: str) -> Path:
    """Return the names that a path has: text with dots between them, or a list of names.

    Raises:
        PipelineError: it is neither, or a name is empty.
    """
    parts: Sequence[object] = ()
    if isinstance(path, str):
        parts = path.split(".")
    elif isinstance(path, list | tuple):
        parts = path
    if not parts or not all(isinstance(part, str) and part for part in parts):
        raise PipelineError(
            f"{what}: {path!r} is not a path such as 'details.price'; if a name has a dot, write a "
            "list of names, such as ['details', 'unit.price']"
        )
    return tuple(map(str, parts))


def nested_expression(path: Path) -> pl.Expr:
    """Return the expression of a nested value, named by the last name of the path."""
    expression = pl.col(path[0])
    for name in path[1:]:
        expression = expression.struct.field(name)
    return expression


def nested_column(rows: pl.DataFrame, path: Path) -> pl.Series:
    """Return the values at a path."""
    column = rows[path[0]]
    for name in path[1:]:
        column = column.struct.field(name)
    return column


def nested_type(path: Path, columns: Mapping[str, pl.DataType], what: str) -> pl.DataType:
    """Return the type of a nested value; ``path`` begins with one of ``columns``.

    Raises:
        PipelineError: a column on the path has no such field.
    """
    dtype = columns[path[0]]
    for depth, name in enumerate(path[1:], 1):
        fields = {each.name: each.dtype for each in getattr(dtype, "fields", ())}
        if name not in fields:
            parent = ".".join(path[:depth])
            known = f" (fields: {', '.join(fields)})" if fields else f", it is {dtype}"
            raise PipelineError(f"{what}: {parent!r} has no field {name!r}{known}")
        dtype = instance(fields[name])
    return dtype
