"""Values in Protobuf, with or without Confluent's framing, read by the message's descriptor.

Values are those of Protobuf's JSON form, except that 64-bit integers are numbers and bytes are
bytes.  An enum is its name, a Timestamp is RFC 3339 text, a wrapper is its value.  Members have the
names of the .proto file.  A member without presence that is not set has its default, as in every
Protobuf reader; a member with presence is then null.
"""

from collections.abc import Callable, Collection
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError, EncodeError

from tidemark.serde.formats.framing import message_indexes
from tidemark.serde.formats.value_decoder import UnreadableValueError
from tidemark.serde.records import Headers

_GOOGLE = "google.protobuf."
_AS_TEXT = {f"{_GOOGLE}{name}" for name in ("Timestamp", "Duration", "FieldMask")}
_WRAPPED: dict[str, type] = {
    f"{_GOOGLE}{name}Value": kind
    for name, kind in (
        *(("Double", float), ("Float", float), ("Bool", bool), ("String", str), ("Bytes", bytes)),
        *(("Int64", int), ("UInt64", int), ("Int32", int), ("UInt32", int)),
    )
}
_FREE = {f"{_GOOGLE}{name}" for name in ("Struct", "Value", "ListValue")}
_PYTHON_TYPES: dict[int, type] = {
    FieldDescriptor.CPPTYPE_INT32: int,
    FieldDescriptor.CPPTYPE_INT64: int,
    FieldDescriptor.CPPTYPE_UINT32: int,
    FieldDescriptor.CPPTYPE_UINT64: int,
    FieldDescriptor.CPPTYPE_DOUBLE: float,
    FieldDescriptor.CPPTYPE_FLOAT: float,
    FieldDescriptor.CPPTYPE_BOOL: bool,
    FieldDescriptor.CPPTYPE_ENUM: str,
}

_Read = Callable[[Any], Any]


class DescriptorError(ValueError):
    """A descriptor set that cannot be used; the text is the reason."""


def message_descriptor(descriptors: bytes, message: str) -> Descriptor:
    """Return a message's descriptor; ``descriptors``: a FileDescriptorSet as ``protoc`` writes it.

    Raises:
        DescriptorError: the bytes are no descriptor set, lack a file, or lack the message.
    """
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
    except DecodeError as error:
        raise DescriptorError(f"not a descriptor set: {error}") from None
    pool, waiting = descriptor_pool.DescriptorPool(), {file.name: file for file in files}

    def add(name: str) -> None:
        file = waiting.pop(name, None)
        if file is not None:
            for needed in file.dependency:
                add(needed)
            pool.Add(file)

    try:
        for name in list(waiting):
            add(name)
        return pool.FindMessageTypeByName(message)
    except (TypeError, RecursionError) as error:
        raise DescriptorError(
            f"{error}; write the set with protoc --include_imports --descriptor_set_out"
        ) from None
    except KeyError:
        known = ", ".join(sorted(f"{f.package}.{m.name}" for f in files for m in f.message_type))
        raise DescriptorError(f"no message {message!r}; the messages are {known}") from None


def descriptor_set(message: Descriptor) -> bytes:
    """Return a message's file, and the files that it imports, as a FileDescriptorSet."""
    found = descriptor_pb2.FileDescriptorSet()
    seen: set[str] = set()

    def add(file: Any) -> None:
        if file.name not in seen:
            seen.add(file.name)
            for needed in file.dependencies:
                add(needed)
            file.CopyToProto(found.file.add())

    add(message.file)
    data: bytes = found.SerializeToString(deterministic=True)
    return data


class ProtobufValues:
    """Decodes the messages of one type."""

    def __init__(
        self, message: Descriptor, *, framed: bool, members: Collection[str] | None = None
    ) -> None:
        """``framed``: with Confluent's framing.  ``members``: the ones to read, all by default."""
        self._name = message.full_name
        self._parse = message_factory.GetMessageClass(message).FromString
        self._indexes = _indexes(message) if framed else None
        self._readers: dict[str, list[tuple[str, _Read]]] = {}
        fields = [f for f in message.fields if members is None or f.name in members]
        self._fields = [(field.name, self._field(field)) for field in fields]

    def decode(self, value: bytes, _key: bytes | None = None, _headers: Headers = None, /) -> Any:
        """Return the message in a value as a mapping."""
        if self._indexes is not None:
            indexes, begin = message_indexes(value)
            if indexes != self._indexes:
                raise UnreadableValueError(
                    f"message {list(indexes)} of its file, {self._name} is {list(self._indexes)}"
                )
            value = value[begin:]
        try:
            message = self._parse(value)
            return {name: read(message) for name, read in self._fields}
        except (DecodeError, EncodeError, ValueError, OverflowError) as error:
            raise UnreadableValueError(f"not Protobuf of {self._name}: {error}") from None

    def _field(self, field: FieldDescriptor) -> _Read:
        """Return the function that reads a field of a message."""
        name = field.name
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            item = self._value(kind.fields_by_name["value"])
            return lambda message: {
                _key_text(key): item(value) for key, value in getattr(message, name).items()
            }
        item = self._value(field)
        if field.is_repeated:
            return lambda message: list(map(item, getattr(message, name)))
        if field.has_presence:
            return lambda message: item(getattr(message, name)) if message.HasField(name) else None
        return lambda message: item(getattr(message, name))

    def _value(self, field: FieldDescriptor) -> _Read:
        """Return the function that makes a Python value of a value of a field."""
        if field.enum_type is not None:
            names = {number: v.name for number, v in field.enum_type.values_by_number.items()}
            return lambda number: names.get(number, str(number))
        kind = field.message_type
        if kind is None:
            return _same
        if kind.full_name in _AS_TEXT:
            return lambda value: value.ToJsonString()
        if kind.full_name in _WRAPPED:
            return lambda value: value.value
        if kind.full_name in _FREE:
            return _free_value
        if kind.full_name not in self._readers:
            readers: list[tuple[str, _Read]] = []
            self._readers[kind.full_name] = readers  # before its fields: one may be of this type
            readers += [(inner.name, self._field(inner)) for inner in kind.fields]
        fields = self._readers[kind.full_name]
        return lambda value: {name: read(value) for name, read in fields}


def python_types(message: Descriptor, path: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the members of a message with their types, as ``Pipeline.source`` takes them.

    Raises:
        DescriptorError: a member is of no fixed type, or the message contains itself.
    """
    if message.full_name in path:
        raise DescriptorError(f"{message.full_name} contains itself: name the columns in schema=")
    path = (*path, message.full_name)
    return {field.name: _python_type(field, path) for field in message.fields}


def _python_type(field: FieldDescriptor, path: tuple[str, ...]) -> Any:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        return dict[str, _item_type(kind.fields_by_name["value"], path)]  # type: ignore[misc]
    item = _item_type(field, path)
    return list[item] if field.is_repeated else item  # type: ignore[valid-type]


def _item_type(field: FieldDescriptor, path: tuple[str, ...]) -> Any:
    kind = field.message_type
    if kind is None:
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            return bytes if field.type == FieldDescriptor.TYPE_BYTES else str
        return _PYTHON_TYPES[field.cpp_type]
    if kind.full_name in _FREE:
        raise DescriptorError(f"{field.full_name} has no fixed type: name the columns in schema=")
    if kind.full_name in _AS_TEXT:
        return str
    return _WRAPPED.get(kind.full_name) or python_types(kind, path)


def _indexes(message: Descriptor) -> tuple[int, ...]:
    """Return the place of a message in its file, as the framing has it."""
    outer = message.containing_type
    if outer is not None:
        return (*_indexes(outer), [each.name for each in outer.nested_types].index(message.name))
    return (list(message.file.message_types_by_name).index(message.name),)


def _key_text(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _same(value: Any) -> Any:
    return value


def _free_value(value: Any) -> Any:
    return MessageToDict(value)
