"""Changes of database rows as Debezium writes them.

A change becomes the members of the row after it, or before it if the row was deleted.  Members
about the change are added, with the names that Debezium's own flattening
(``ExtractNewRecordState``) uses.
"""

from collections.abc import Callable
from typing import Any

from tidemark.serde.formats.connect_types import typed
from tidemark.serde.formats.json_value import json_value
from tidemark.serde.formats.value_decoder import UnreadableValueError, ValueDecoder
from tidemark.serde.records import Headers

_DELETED = "d"
_WITHOUT_ROW = ("t", "m")  # a truncated table, a message of the database's log
OPERATIONS = ("c", "u", "d", "r", *_WITHOUT_ROW)
ENVELOPE = {"schema", "payload"}


class DebeziumValues:
    """Decodes changes; ``decode_value`` returns a key or a value as Python values."""

    def __init__(self, decode_value: Callable[[bytes], Any]) -> None:
        """See the class."""
        self._decode = decode_value

    @classmethod
    def in_json(cls, *, with_times: bool = False) -> "DebeziumValues":
        """Return the decoder of changes in JSON, with the schema beside the payload or without.

        ``with_times``: whether times that the schema names are read as FormatTime.
        """
        return cls(
            lambda text: _payload(json_value(text), with_times=with_times) if text.strip() else None
        )

    @classmethod
    def in_avro(cls, values: ValueDecoder) -> "DebeziumValues":
        """Return the decoder of changes in Avro."""
        return cls(values.decode)

    def decode(
        self, value: bytes, key: bytes | None = None, _headers: Headers = None, /
    ) -> dict[str, Any] | list[Any]:
        """Return the row of a change, with the members about the change."""
        change = self._decode(value)
        if change is None:
            return []
        operation = change.get("op") if isinstance(change, dict) else None
        if operation not in OPERATIONS:
            raise UnreadableValueError(
                f"not a change of Debezium: op is {operation!r}, not one of {', '.join(OPERATIONS)}"
            )
        before, after = _row(change, "before"), _row(change, "after")
        row = before if operation == _DELETED else after
        if row is None and operation not in _WITHOUT_ROW:
            row = self._key(key)
        return {
            **(row or {}),
            "__op": operation,
            "__deleted": operation == _DELETED,
            "__ts_ms": change.get("ts_ms"),
            "__source": change.get("source"),
            "__before": before,
            "__transaction": change.get("transaction"),
        }

    def _key(self, key: bytes | None) -> dict[str, Any] | None:
        """Return the key columns of a row that the database did not log."""
        row = None if key is None else self._decode(key)
        return row if isinstance(row, dict) else None


def _row(change: dict[str, Any], name: str) -> dict[str, Any] | None:
    row = change.get(name)
    if isinstance(row, str):  # MongoDB's documents are texts
        row = json_value(row.encode())
    if row is not None and not isinstance(row, dict):
        raise UnreadableValueError(f"not a change of Debezium: {name} is not an object")
    return row


def _payload(value: Any, *, with_times: bool) -> Any:
    """Return a value without its schema, and with the times and decimals that the schema names."""
    if not isinstance(value, dict) or value.keys() != ENVELOPE:
        return value
    return typed(value["payload"], value["schema"], with_times=with_times)
