"""Avro schemas of raw records: parsed so that values are read as plain numbers, texts and bytes.

Logical types are read as the numbers that they annotate: ``timestamp-micros`` as microseconds,
``date`` as days.  The exception is ``decimal``, which is read as text with all its digits.  For a
source with columns of times, instants and dates are read as FormatTime, which carries its unit.

fastavro reads values by recursion in C, without a limit.  A record of a recursive schema could end
the process, so recursive schemas are refused.  So are arrays of items without bytes, of which a few
bytes hold any number.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
from fastavro.read import LOGICAL_READERS
from fastavro.schema import SchemaParseException, UnknownType

from tidemark.serde.formats.connect_types import CONNECT_TIMES, decimal_text
from tidemark.serde.spellings.time_values import (
    FormatDays,
    FormatMicros,
    FormatMillis,
    FormatNanos,
    FormatTime,
)

_PRIMITIVES = {
    "null": type(None),
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "bytes": bytes,
    "string": str,
}
_DECIMAL_TEXT = "tidemark-decimal-text"
_FAULTS = (ValueError, TypeError, KeyError, AttributeError, SchemaParseException, UnknownType)


class AvroSchemaError(ValueError):
    """A schema that cannot be used; the text is the reason."""


def parsed_schema(texts: Sequence[str], *, with_times: bool = False) -> Any:
    """Return a schema as fastavro uses it.

    ``texts``: the schema in JSON, after the schemas that it refers to.  ``with_times``: whether
    instants and dates are read as FormatTime.

    Raises:
        AvroSchemaError: a text is not a schema, or the schema is recursive.
    """
    named: dict[str, Any] = {}
    schema: Any = None
    try:
        for text in texts:
            schema = fastavro.parse_schema(_plain(json.loads(text), with_times), named)
        _Check(named).may_be_empty(schema)
    except RecursionError:
        raise AvroSchemaError("the Avro schema is nested too deep") from None
    except AvroSchemaError:
        raise
    except _FAULTS as error:
        raise AvroSchemaError(f"not an Avro schema: {type(error).__name__}: {error}") from None
    return schema


def python_types(schema: Any) -> dict[str, Any]:
    """Return the members of a record schema with their types, as ``Pipeline.source`` takes them.

    Raises:
        AvroSchemaError: the schema is not a record, or a member may be of several types.
    """
    named = schema.get("__named_schemas", {}) if isinstance(schema, dict) else {}
    types = _python_type(schema, named, "the schema")
    if not isinstance(types, dict):
        raise AvroSchemaError("the Avro schema is not a record")
    return types


def _python_type(schema: Any, named: Mapping[str, Any], at: str) -> Any:
    if isinstance(schema, list):
        kinds = [branch for branch in schema if _kind(branch) != "null"]
        if len(kinds) != 1:
            raise AvroSchemaError(f"{at} may be of several types: name the columns in schema=")
        return _python_type(kinds[0], named, at)
    kind = _kind(schema)
    if kind in named:
        return _python_type(named[kind], named, at)
    if kind == "record":
        fields = schema["fields"]
        return {f["name"]: _python_type(f["type"], named, f["name"]) for f in fields}
    if kind == "array":
        return list[_python_type(schema["items"], named, at)]  # type: ignore[misc]
    if kind == "map":
        return dict[str, _python_type(schema["values"], named, at)]  # type: ignore[misc]
    if kind == "fixed" or kind == "bytes":
        is_text = isinstance(schema, dict) and schema.get("logicalType") == _DECIMAL_TEXT
        return str if is_text else bytes
    return str if kind == "enum" else _PRIMITIVES[kind]


def _plain(schema: Any, with_times: bool) -> Any:
    """Return a schema whose logical types are the types that they annotate, decimals texts."""
    if isinstance(schema, list):
        return [_plain(branch, with_times) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: part for name, part in schema.items() if name != "logicalType"}
    if schema.get("logicalType") == "decimal":
        plain["logicalType"] = _DECIMAL_TEXT
    for name in ("type", "items", "values", "fields"):
        if isinstance(plain.get(name), dict | list):
            plain[name] = _plain(plain[name], with_times)
    if with_times and (time := _time(schema)) is not None:
        plain["logicalType"] = _TIMES[time]
    return plain


def _time(schema: dict[str, Any]) -> type[FormatTime] | None:
    """Return the type of the times that a schema is of, by its logical type or Connect's name."""
    names = (schema.get("connect.name"), schema.get("logicalType"))
    for name in filter(None, names):
        if name in _LOGICAL_TIMES and schema.get("type") in ("int", "long"):
            return _LOGICAL_TIMES[name]
    return None


def _decimal_text(data: bytes, writer: Any, _reader: Any = None) -> str:
    return decimal_text(data, writer.get("scale", 0))


_LOGICAL_TIMES: Mapping[str, type[FormatTime]] = {
    "timestamp-millis": FormatMillis,
    "timestamp-micros": FormatMicros,
    "timestamp-nanos": FormatNanos,
    "date": FormatDays,
    **CONNECT_TIMES,
}
_TIMES = {each: f"tidemark-{each.unit}" for each in set(_LOGICAL_TIMES.values())}
for _class, _name in _TIMES.items():
    for _integer in ("int", "long"):
        LOGICAL_READERS[f"{_integer}-{_name}"] = lambda number, *_, class_=_class: class_(number)

LOGICAL_READERS[f"bytes-{_DECIMAL_TEXT}"] = _decimal_text
LOGICAL_READERS[f"fixed-{_DECIMAL_TEXT}"] = _decimal_text


class _Check:
    """Walks through a schema, to refuse what records could use against the process."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._path: list[str] = []  # the named types around the place
        self._known: dict[str, bool] = {}

    def may_be_empty(self, schema: Any) -> bool:
        """Return whether a value of the schema may take no bytes.

        Raises:
            AvroSchemaError: the schema is recursive, or an array has items without bytes.
        """
        if isinstance(schema, list):
            for branch in schema:
                self.may_be_empty(branch)
            return False  # the number of the branch takes a byte
        kind = _kind(schema)
        if kind in self._named:
            return self._of_named(kind)
        if kind == "array" and self.may_be_empty(schema["items"]):
            raise AvroSchemaError("the Avro schema has an array whose items take no bytes")
        if kind == "map":
            self.may_be_empty(schema["values"])
        if kind in ("record", "fixed"):
            return self._of_named(schema["name"])
        return kind == "null"

    def _of_named(self, name: str) -> bool:
        if name in self._path:
            raise AvroSchemaError(f"the Avro schema is recursive: {name} contains itself")
        if name not in self._known:
            self._path.append(name)
            self._known[name] = self._inside(self._named[name])
            self._path.pop()
        return self._known[name]

    def _inside(self, schema: Any) -> bool:
        if schema["type"] != "record":
            return bool(schema["type"] == "fixed" and schema["size"] == 0)
        is_empty = True
        for field in schema["fields"]:
            _decode_default(field)
            is_empty &= self.may_be_empty(field["type"])  # of every field: it checks them
        return is_empty


def _decode_default(field: dict[str, Any]) -> None:
    """Replace a default of bytes, which a schema has as text, by bytes; fastavro would not."""
    kind = field["type"][0] if isinstance(field["type"], list) else field["type"]
    if isinstance(field.get("default"), str) and _kind(kind) in ("bytes", "fixed"):
        field["default"] = field["default"].encode("latin-1")


def _kind(schema: Any) -> str:
    """Return the name of a type, which may be that of a named type."""
    return str(schema["type"]) if isinstance(schema, dict) else str(schema)
