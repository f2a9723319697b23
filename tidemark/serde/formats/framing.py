"""Confluent's wire format: a zero byte, the id of a schema, for Protobuf the message's indexes."""

from collections.abc import Sequence

from tidemark.serde.formats.value_decoder import UnreadableValueError

HEADER_BYTES = 5

_MAX_DEPTH = 64
_MAX_VARINT_BYTES = 5


def schema_id(value: bytes) -> int:
    """Return the id of the schema that a value begins with.

    Raises:
        UnreadableValueError: the value has no such beginning.
    """
    if len(value) < HEADER_BYTES or value[0] != 0:
        raise UnreadableValueError(
            f"no id of a schema: the value begins with {value[:HEADER_BYTES].hex() or 'nothing'}, "
            "not with 00 and four bytes"
        )
    return int.from_bytes(value[1:HEADER_BYTES], "big")


def without_id(value: bytes) -> bytes:
    """Return a value with spaces in place of the id of its schema, so that positions stay.

    Raises:
        UnreadableValueError: the value has no such beginning.
    """
    schema_id(value)
    return b" " * HEADER_BYTES + value[HEADER_BYTES:]


def message_indexes(value: bytes) -> tuple[Sequence[int], int]:
    """Return which message of a Protobuf file a value is, and where the message begins.

    ``(1, 0)`` is the first message inside the second one of the file.

    Raises:
        UnreadableValueError: the value has no such beginning.
    """
    schema_id(value)
    count, at = _zigzag(value, HEADER_BYTES)
    if count == 0:
        return (0,), at
    if not 0 < count <= _MAX_DEPTH:
        raise UnreadableValueError(f"no indexes of a message: there are {count}")
    indexes = []
    for _ in range(count):
        index, at = _zigzag(value, at)
        indexes.append(index)
    return tuple(indexes), at


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    """Return a signed number of variable length, and where it ends."""
    number = 0
    for place, byte in enumerate(value[at : at + _MAX_VARINT_BYTES]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + place + 1
    raise UnreadableValueError("no indexes of a message: the value ends too early")
