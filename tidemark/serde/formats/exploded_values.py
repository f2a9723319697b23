"""Records that hold a list of the real ones, as one row for each item (docs/formats.md, "Lists").

A row is the record with one item in place of the list.  So the members around the list are members
of each row.  Only those that the schema reads are kept: a record of a megabyte may have many
members and many items.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from tidemark.core.rows.row_size import MAX_RECORD_BYTES, row_bytes, too_large
from tidemark.core.rows.schema import Field, Kind, ListOf, MapOf, Schema, StructOf
from tidemark.serde.formats.value_decoder import UnreadableValueError, ValueDecoder
from tidemark.serde.object_count import least_row_bytes, most_bytes_of_a_byte
from tidemark.serde.objects.record_columns import record_columns
from tidemark.serde.objects.record_type import RecordType
from tidemark.serde.records import Headers
from tidemark.serde.spellings.lenient import kind_name

Members: TypeAlias = "dict[str | None, Members]"
"""The members of an object that are read, by name; None: of any name.  Empty: the whole value."""


class ExplodedValues:
    """Decodes values of another format, and makes rows of the items of a list in them."""

    def __init__(self, values: ValueDecoder, path: tuple[str, ...], schema: Schema | None) -> None:
        """``path``: of the list; lists on the way are exploded, too.

        ``schema``: of the rows.  Without it, rows keep all members and may have any size.
        """
        self._values = values
        self._path = path
        self._read: Members = {None: {}} if schema is None else _members(schema.fields, {})
        self._size = None if schema is None else _RowsSize(schema)

    def decode(
        self, value: bytes, key: bytes | None = None, headers: Headers = None, /
    ) -> list[Any]:
        """Return a row for each item; no row if the list is null or empty."""
        decoded = self._values.decode(value, key, headers)
        rows: list[Any] = []
        repeated_bytes = 0
        for document in decoded if isinstance(decoded, list) else [decoded]:
            for row, size_bytes in self._rows(document, self._read, 0, in_list=False):
                rows.append(row)
                repeated_bytes += size_bytes
                if self._size is not None:
                    self._size.require_count(len(rows))
        if self._size is not None:
            self._size.require(rows, repeated_bytes)
        return rows

    def _rows(
        self, value: Any, read: Members, depth: int, *, in_list: bool
    ) -> Iterator[tuple[Any, int]]:
        """Yield the rows of an object, with the size of what repeats in each, in JSON.

        ``read``: its members that the schema reads.  ``depth``: of the object on the path.
        ``in_list``: whether a list was found above it.
        """
        if value is None and in_list:
            return
        name, is_last = self._path[depth], depth + 1 == len(self._path)
        if not isinstance(value, dict):
            raise self._mistake(depth, "an object", value)
        if name not in value:
            if in_list:
                return
            raise UnreadableValueError(f"no list at {'.'.join(self._path)!r}, which is exploded")
        inside = value[name]
        if inside is None:
            return
        is_list = isinstance(inside, list)
        if is_last and not is_list:
            raise self._mistake(depth + 1, "an array", inside)
        inner = read.get(name, {})
        beside = _only({**value, name: None}, read)
        beside.pop(name, None)
        size_bytes = 0 if self._size is None else len(msgspec.json.encode(beside, enc_hook=str))
        for item in inside if is_list else [inside]:
            if is_last:
                yield {**beside, name: item}, size_bytes
            else:
                for row, more_bytes in self._rows(
                    item, inner, depth + 1, in_list=in_list or is_list
                ):
                    yield {**beside, name: row}, size_bytes + more_bytes

    def _mistake(self, depth: int, expected: str, value: Any) -> UnreadableValueError:
        place = f"column {'.'.join(self._path[:depth])}: " if depth else ""
        return UnreadableValueError(f"{place}expected {expected}, got {kind_name(value)}")


class _RowsSize:
    """Refuses rows of a record that together exceed MAX_RECORD_BYTES, before they are columns.

    The members that repeat take no bytes in the record, but they do in the rows.
    """

    def __init__(self, schema: Schema) -> None:
        self._type = RecordType(schema)
        self._least_bytes = least_row_bytes(schema)
        self._factor = most_bytes_of_a_byte(schema)

    def require_count(self, count: int) -> None:
        """Raise UnreadableValueError if ``count`` rows of nulls would be too large."""
        if count * self._least_bytes > MAX_RECORD_BYTES:
            raise UnreadableValueError(too_large(count * self._least_bytes))

    def require(self, rows: Sequence[Any], repeated_bytes: int) -> None:
        """Raise UnreadableValueError if rows are too large; ``repeated_bytes``: in JSON."""
        most_bytes = repeated_bytes * self._factor
        if most_bytes <= MAX_RECORD_BYTES:
            return
        step = max(1, len(rows) * MAX_RECORD_BYTES // most_bytes)
        size = 0
        for begin in range(0, len(rows), step):
            try:
                some = self._type.rows(rows[begin : begin + step])
            except msgspec.ValidationError:  # the record is dead; the decoder of records says why
                return
            columns = record_columns(self._type, some, [b""] * len(some)).columns
            size += int(row_bytes(columns.get_columns(), len(some)).sum())
            if size > MAX_RECORD_BYTES:
                raise UnreadableValueError(too_large(size))


def _members(fields: Sequence[Field], found: Members) -> Members:
    """Add the members that fields read to those found, and return them."""
    for each in fields:
        inside = found
        for name in each.place:
            inside = inside.setdefault(name, {})
        _add(each.kind, inside)
    return found


def _add(kind: Kind, inside: Members) -> None:
    match kind:
        case StructOf(fields):
            _members(fields, inside)
        case ListOf(item):
            _add(item, inside)
        case MapOf(value):
            _add(value, inside.setdefault(None, {}))


def _only(value: Any, read: Members) -> Any:
    """Return a value with only the members that are read, also in lists."""
    if not read:
        return value
    if isinstance(value, list):
        return [_only(each, read) for each in value]
    if not isinstance(value, dict):
        return value
    if None in read:
        return {name: _only(inside, read[None]) for name, inside in value.items()}
    return {name: _only(value[name], inside) for name, inside in read.items() if name in value}
