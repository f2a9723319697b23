"""The size of a record's objects, found before they are made.

A member that is missing takes no byte in a record and eight bytes in a row.  So a record of three
megabytes may have objects of gigabytes.  The objects of a record that may be too large are counted
first, in the record decoded without its values (docs/semantics.md, "Raw records").
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import methodcaller
from typing import Any

from tidemark.core.rows.row_size import MAX_RECORD_BYTES, VALUE_BYTES
from tidemark.core.rows.schema import Field, JsonText, Kind, ListOf, MapOf, Schema, StructOf
from tidemark.serde.formats.source_format import ExplodedFormat, SourceFormat, is_binary
from tidemark.serde.objects.members import Member, Object
from tidemark.serde.objects.record_type import RecordType

_ROW_BYTES = 400
_FEW_VALUES = 16  # an object with up to 16 values takes at most a hundred times its text


def most_values(schema: Schema) -> int:
    """Return the number of values of the widest object of a schema, the record among them."""
    return _widest(StructOf(schema.fields))


def least_row_bytes(schema: Schema) -> int:
    """Return the size of a row whose values are all null or missing."""
    return VALUE_BYTES * _values(StructOf(schema.fields))


def most_bytes_of_a_byte(schema: Schema) -> int:
    """Return a size that one byte of JSON does not exceed in a row, beyond ``least_row_bytes``."""
    if _has_lists_of_objects(StructOf(schema.fields)):
        return VALUE_BYTES * most_values(schema)
    return VALUE_BYTES // 2  # a number in a list takes two bytes of JSON, with a comma


def memory_size(schema: Schema, format_: SourceFormat) -> Callable[[bytes], int]:
    """Return a function that estimates what the objects of a value take in memory."""
    if isinstance(format_, ExplodedFormat) and not is_binary(format_):
        # Items may be short: each becomes a row of Python values.
        return lambda value: max(len(value), _ROW_BYTES * (value.count(b",") + 1))
    values = most_values(schema)
    if values <= _FEW_VALUES:
        return len
    widest_bytes, objects_at_most = VALUE_BYTES * values, _objects_at_most(schema)
    return lambda value: max(len(value), widest_bytes * objects_at_most(value))


def _objects_at_most(schema: Schema) -> Callable[[bytes], int]:
    """Return a function that returns a number that the objects in a JSON text do not exceed.

    A null counts as an object only in a list or map of objects.  Elsewhere it is a value of one.
    """
    if _has_lists_of_objects(StructOf(schema.fields)):
        return lambda text: text.count(b"{") + text.count(b"null")
    return methodcaller("count", b"{")


class ObjectCount:
    """Finds the least size of the rows of JSON records of one schema."""

    def __init__(self, schema: Schema) -> None:
        """Make the type of the records without their values."""
        self._fields = schema.fields
        self._values = _values(StructOf(schema.fields))
        self._objects_at_most = _objects_at_most(schema)
        self._most_objects = MAX_RECORD_BYTES // (VALUE_BYTES * most_values(schema))
        self._type = RecordType(Schema(_without_values(schema.fields)))
        self._decode = self._type.json_document_decoder().decode
        # The shortest object is "{}", with a comma.
        self.short_bytes = self._most_objects * len("{},")
        """The size up to which a record's objects do not exceed MAX_RECORD_BYTES."""

    def may_be_large(self, text: bytes) -> bool:
        """Return whether the objects of a record may exceed MAX_RECORD_BYTES; cheap."""
        return len(text) > self.short_bytes and self._objects_at_most(text) > self._most_objects

    def least_bytes(self, text: bytes) -> int:
        """Return the least size of the rows of a record, or 0 if it is within MAX_RECORD_BYTES.

        Counting ends where the size exceeds it, so the objects in a list are looked at only if
        they are few.

        Raises:
            msgspec.DecodeError: the record does not fit the schema.
        """
        if not self.may_be_large(text):
            return 0
        document = self._decode(text)
        return self._least_bytes(document if isinstance(document, list) else [document])

    def least_bytes_of(self, values: Sequence[Any], size_bytes: int) -> int:
        """Return the same of decoded values of a record; ``size_bytes``: of the record.

        Raises:
            msgspec.ValidationError: the values do not fit the schema.
        """
        if size_bytes <= self._most_objects:  # an object takes a byte at least
            return 0
        return self._least_bytes(self._type.rows(values))

    def _least_bytes(self, rows: Sequence[Any]) -> int:
        size = len(rows) * self._values * VALUE_BYTES
        for row in rows:
            if size > MAX_RECORD_BYTES:
                return size
            size += _of_fields(self._fields, self._type.object, row)
        return size if size > MAX_RECORD_BYTES else 0


def _of_fields(fields: Sequence[Field], inside: Object, row: Any) -> int:
    """Return the least size of the objects in the lists and maps of an object."""
    size = 0
    for each in fields:
        if row is None or not _has_lists_of_objects(each.kind):
            continue
        value, at = row, inside
        for name in each.place:
            member = at.members[name]
            value = None if value is None else getattr(value, member.slot)
            if member.entries:  # the map counts them
                value = None
                break
            at = member.object or at
        size += _of_value(each.kind, member, value)
    return size


def _of_value(kind: Kind, member: Member, value: Any) -> int:
    if value is None:
        return 0
    match kind:
        case JsonText(content):
            return _of_value(content, member, value)
        case StructOf(fields):
            assert member.object is not None
            return _of_fields(fields, member.object, value)
        case ListOf(item) | MapOf(item):
            items = value.values() if isinstance(value, dict) else value
            size = len(items) * _values(item) * VALUE_BYTES
            if size <= MAX_RECORD_BYTES and _has_lists_of_objects(item):
                size += sum(_of_value(item, member, each) for each in items)
            return size
    raise AssertionError(kind)


def _values(kind: Kind) -> int:
    """Return the number of values that an object of a kind has, if its lists are empty."""
    if isinstance(kind, StructOf):
        return sum(_values(each.kind) for each in kind.fields)
    return 1


def _widest(kind: Kind) -> int:
    match kind:
        case StructOf(fields):
            return max(_values(kind), *(_widest(each.kind) for each in fields), 1)
        case ListOf(inner) | MapOf(inner) | JsonText(inner):
            return _widest(inner)
    return 1


def _has_lists_of_objects(kind: Kind) -> bool:
    match kind:
        case ListOf(item) | MapOf(item):
            return isinstance(item, StructOf) or _has_lists_of_objects(item)
        case StructOf(fields):
            return any(_has_lists_of_objects(each.kind) for each in fields)
        case JsonText(content):
            return _has_lists_of_objects(content)
    return False


def _without_values(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Return the fields with objects in lists or maps, without all other members."""
    return tuple(
        replace(each, kind=_bare(each.kind), required=False, default=None)
        for each in fields
        if _has_lists_of_objects(each.kind)
    )


def _bare(kind: Kind) -> Kind:
    match kind:
        case ListOf(item):
            return ListOf(_bare(item))
        case MapOf(value):
            return MapOf(_bare(value))
        case JsonText(content):
            return JsonText(_bare(content))
        case StructOf(fields):
            return StructOf(_without_values(fields))
    return kind
