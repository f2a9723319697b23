"""Check whether readers with one Avro schema can read records written with another.

The rules are those of the Avro specification, "Schema Resolution".  A change of a schema is safe if
both directions work: consumers with the old schema read new records, and consumers with the new
schema read old records.
"""

from collections.abc import Iterator
from typing import Any

Schema = Any

_PROMOTED = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}


def breaking_changes(old: Schema, new: Schema) -> list[str]:
    """Return what a change breaks, and for which readers; empty if the change is safe."""
    return [
        *(f"readers of the new schema: {fault}" for fault in resolution_errors(new, old, "")),
        *(f"readers of the old schema: {fault}" for fault in resolution_errors(old, new, "")),
    ]


def resolution_errors(reader: Schema, writer: Schema, at: str) -> Iterator[str]:
    """Yield the places where a reader cannot read a writer's records; ``at``: the field so far."""
    if isinstance(writer, list):
        for branch in writer:
            yield from resolution_errors(reader, branch, at)
    elif isinstance(reader, list):
        if all(any(resolution_errors(branch, writer, at)) for branch in reader):
            yield f"{at or 'the record'}: {_shown(writer)} is none of {_shown(reader)}"
    elif _kind(reader) != _kind(writer):
        if _kind(reader) not in _PROMOTED.get(_kind(writer), ()):
            yield f"{at or 'the record'}: {_shown(writer)} is no {_shown(reader)}"
    else:
        yield from _inside(reader, writer, at)


def _inside(reader: Schema, writer: Schema, at: str) -> Iterator[str]:
    """Compare two schemas of the same type."""
    kind = _kind(reader)
    if kind == "record":
        yield from _fields(reader, writer, at)
    elif kind in ("array", "map"):
        name = "items" if kind == "array" else "values"
        yield from resolution_errors(reader[name], writer[name], f"{at}[]")
    elif kind == "enum":
        unknown = sorted(set(writer["symbols"]) - set(reader["symbols"]))
        if unknown and "default" not in reader:
            yield f"{at}: no symbols {', '.join(unknown)}"
    elif _logical(reader) != _logical(writer):
        yield f"{at or 'the record'}: {_shown(writer)} is no {_shown(reader)}"


def _fields(reader: Schema, writer: Schema, at: str) -> Iterator[str]:
    written = {field["name"]: field for field in writer["fields"]}
    for field in reader["fields"]:
        name = f"{at}.{field['name']}" if at else field["name"]
        if field["name"] in written:
            yield from resolution_errors(field["type"], written[field["name"]]["type"], name)
        elif "default" not in field:
            yield f"{name} is missing and has no default"


def _kind(schema: Schema) -> str:
    return str(schema["type"]) if isinstance(schema, dict) else str(schema)


def _logical(schema: Schema) -> tuple[Any, ...]:
    names = ("logicalType", "precision", "scale")
    return tuple(schema.get(name) for name in names) if isinstance(schema, dict) else (None,) * 3


def _shown(schema: Schema) -> str:
    if isinstance(schema, list):
        return "/".join(map(_shown, schema))
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    return str(logical) if logical else _kind(schema)
