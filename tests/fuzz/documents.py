"""JSON documents as the judge reads them, with Python's own json: slow and plain."""

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

import polars as pl

MAX_NESTING = 128
MAX_RECORD_BYTES = 4 * 2**20

Values = dict[str, Any]


class DeadError(Exception):
    """A record that becomes no row: the stage at which it dies, and how the reason begins."""

    def __init__(self, stage: str, reason: str = "") -> None:
        super().__init__(stage, reason)
        self.stage, self.reason = stage, reason


class Special(pl.DataType):
    """A kind of value that polars has no type for."""

    def null(self, path: str) -> Any:
        """Return the value of a missing member or null; raise DeadError if there must be one."""
        del path

    def judged(self, value: Any, path: str) -> Any:
        """Return a value that is not null; raise DeadError if it does not fit."""
        raise NotImplementedError


class Members(list[tuple[str, Any]]):
    """A JSON object as it was written: its members in order, also those of the same name."""


class Number(str):
    """A JSON number as it was written."""

    __slots__ = ()

    @property
    def is_whole(self) -> bool:
        """Whether it is written as an integer."""
        return self.removeprefix("-").isdigit()


def parsed(text: bytes, lenient: bool = False) -> Any:
    """Return the one JSON document of a text; ``lenient``: NaN and Infinity are texts."""
    try:
        decoded = text.decode()
    except UnicodeDecodeError:
        raise DeadError("parse", "not UTF-8") from None
    if _is_deep(text):
        raise DeadError("parse", "nested deeper than 128")
    try:
        document = json.loads(
            decoded,
            object_pairs_hook=Members,
            parse_int=Number,
            parse_float=Number,
            parse_constant=str if lenient else _refuse,
        )
        _require_text(document)
    except ValueError:
        raise DeadError("parse") from None  # the reason may be a wrong type before the fault
    return document


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _require_text(node: Any) -> None:
    """Raise ValueError where a text is half a surrogate pair."""
    if isinstance(node, Members):
        for name, value in node:
            _require_text(name)
            _require_text(value)
    elif isinstance(node, list):
        for value in node:
            _require_text(value)
    elif isinstance(node, str) and not node.isascii():
        node.encode()


def _is_deep(text: bytes) -> bool:
    """Tell whether brackets outside of texts nest too deep; reads byte by byte."""
    if text.count(b"[") + text.count(b"{") <= MAX_NESTING:
        return False
    depth, quoted, escaped = 0, False, False
    for byte in text:
        if quoted:
            quoted = escaped or byte != 34
            escaped = not escaped and byte == 92
        elif byte == 34:
            quoted = True
        elif byte in b"[{":
            depth += 1
            if depth > MAX_NESTING:
                return True
        elif byte in b"]}":
            depth -= 1
    return False


def conform(members: Any, columns: Mapping[str, pl.DataType], path: str = "") -> Values:
    """Return the values of columns; each member of a column's name must be of its type."""
    if not isinstance(members, Members):
        # A number too large for any type is reported as that, even where no number belongs.
        expected = "" if isinstance(members, Number) else "expected object"
        raise DeadError("parse", f"column {path}: {expected}" if path else expected)
    values: Values = dict.fromkeys(columns)
    for name, value in members:
        if name in columns:
            where = f"{path}.{name}" if path else name
            values[name] = value_of(value, columns[name], where)
    for name in columns.keys() - {name for name, _ in members}:
        dtype = columns[name]
        if isinstance(dtype, Special):
            values[name] = dtype.null(f"{path}.{name}" if path else name)
    return values


def value_of(value: Any, dtype: pl.DataType, path: str) -> Any:
    """Return a member as a value of a type."""
    if isinstance(dtype, Special):
        return dtype.null(path) if value is None else dtype.judged(value, path)
    if value is None:
        return None
    if isinstance(dtype, pl.Struct):
        fields = {each.name: _instance(each.dtype) for each in dtype.fields}
        return conform(value, fields, path)
    if isinstance(dtype, pl.List) and isinstance(value, list) and not isinstance(value, Members):
        inner = _instance(dtype.inner)
        return [value_of(item, inner, f"{path}[{n}]") for n, item in enumerate(value)]
    if dtype == pl.String and isinstance(value, str) and not isinstance(value, Number):
        return value
    if dtype == pl.Boolean and isinstance(value, bool):
        return value
    if isinstance(value, Number):
        return _number(value, dtype, path)
    raise DeadError("parse", f"column {path}: ")


def _number(value: Number, dtype: pl.DataType, path: str) -> int | float:
    if dtype == pl.Float64:
        if math.isinf(number := float(value)):
            raise DeadError("parse", f"column {path}: ")
        return number
    if not dtype.is_integer() or not value.is_whole:
        raise DeadError("parse", f"column {path}: ")
    bits = int("".join(filter(str.isdigit, str(dtype))))
    signed = str(dtype).startswith("Int")
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    if len(value) > 30 or not low <= int(value) <= high:
        raise DeadError("parse", f"column {path}: ")
    return int(value)


def size_bytes(value: Any) -> int:
    """Return how much room a value takes in a segment, by the rule."""
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, dict):
        return sum(map(size_bytes, value.values()))
    return sum(map(size_bytes, value)) if isinstance(value, list | tuple) else 8


def _instance(dtype: Any) -> pl.DataType:
    made: pl.DataType = dtype if isinstance(dtype, pl.DataType) else dtype()
    return made
