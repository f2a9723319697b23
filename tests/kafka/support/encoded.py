"""Records of every format of the pipeline ``formats``, good and bad, and the panes they give."""

import io
import json
from collections.abc import Iterator
from typing import Any

import fastavro
from google.protobuf import message_factory

from tests.kafka.support.formats import READER, SOURCES
from tests.support.protobuf import READING_SET
from tests.support.registry import Registry
from tidemark.serde.formats.protobuf_values import message_descriptor

Row = tuple[str, int, float]

ROWS: list[Row] = [("a", 1_000, 1.0), ("b", 2_000, 2.0), ("a", 9_000, 4.0), ("a", 60_000, 8.0)]
"""The rows that every format has; the last one moves the clock past the first window."""

PANES = [("a", 0, 2, 5.0), ("b", 0, 1, 2.0)]
"""Key, start, count and sum of what then is published."""

_READING = message_factory.GetMessageClass(message_descriptor(READING_SET, "sensors.Reading"))


def record_schema(*fields: tuple[str, Any], name: str = "Reading") -> dict[str, Any]:
    """Return an Avro schema of fields by name and type."""
    made = [{"name": field, "type": kind} for field, kind in fields]
    return {"type": "record", "name": name, "fields": made}


OLD = record_schema(("id", "string"), ("time", "int"), ("v", "float"))
NEW = record_schema(("site", "string"), ("id", "string"), ("at", "long"), ("v", "double"))
WITHOUT_V = record_schema(("id", "string"), ("at", "long"))
UNFIT = record_schema(("id", "string"), ("at", "string"), ("v", "double"))
ENVELOPE = record_schema(
    ("before", ["null", record_schema(("id", "string"), ("v", "double"), name="Value")]),
    ("after", ["null", "Value"]),
    ("op", "string"),
    ("ts_ms", ["null", "long"]),
    name="Envelope",
)


def avro(schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    """Return a value in Avro."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    return body.getvalue()


def framed(number: int, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    """Return a value in Avro, behind the id of its schema."""
    return b"\0" + number.to_bytes(4, "big") + avro(schema, value)


class Encoded:
    """Encodes rows; the schemas of Avro are in a registry."""

    def __init__(self, registry: Registry) -> None:
        self._old = registry.add(OLD)
        self._new = registry.add(NEW)
        self._without_v = registry.add(WITHOUT_V)
        self._unfit = registry.add(UNFIT)
        self._envelope = registry.add(ENVELOPE)

    def good(self, form: str, row: Row) -> bytes:
        """Return a row in a format; rows of framed Avro have writers of several schemas."""
        id_, at, v = row
        if form == "avro":
            if v == 1.0:
                return framed(self._old, OLD, {"id": id_, "time": at, "v": v})
            return framed(self._new, NEW, {"site": "s", "id": id_, "at": at, "v": v})
        if form == "avro-plain":
            return avro(READER, {"id": id_, "at": at, "v": v})
        if form == "csv":
            return f"{v};{id_};{at}\r\n".encode()
        if form == "debezium-json":
            image = {"id": id_, "qty": v}
            gone = v == 4.0
            change: dict[str, Any] = {
                "before": image if gone else None,
                "after": None if gone else image,
                "op": "d" if gone else "c",
                "source": {"ts_ms": at},
            }
            with_schema = {"schema": {}, "payload": change}
            return json.dumps(with_schema if v == 1.0 else change).encode()
        if form == "debezium-avro":
            change = {"before": None, "after": {"id": id_, "v": v}, "op": "u", "ts_ms": at}
            return framed(self._envelope, ENVELOPE, change)
        if form == "cloudevents":
            event = {"specversion": "1.0", "id": "e", "source": "s", "type": "t", "subject": id_}
            return json.dumps({**event, "data": {"at": at, "v": v}}).encode()
        if form == "list":
            # The second row of a key comes with its first one.
            both = {1.0: [row, ROWS[2]], 4.0: []}.get(v, [row])
            readings = [{"at": at, "v": v} for _, at, v in both]
            return json.dumps({"id": id_, "readings": readings}).encode()
        message = _READING(id=id_, at=at)
        message.limit.value = v
        data: bytes = message.SerializeToString()
        return b"\0\0\0\0\1\2\2" + data

    def bad(self, form: str) -> bytes:
        """Return a value that is not of a format."""
        return b"\xff\xfe" if form == "csv" else b"\0\0\0\0\1\2\2\xff"

    def evolved(self) -> Iterator[tuple[bytes, float | str]]:
        """Yield records of framed Avro by other writers; each with its value, or its reason."""
        yield framed(self._without_v, WITHOUT_V, {"id": "c", "at": 3_000}), 100.0
        value = {"id": "c", "at": "3000", "v": 1.0}
        yield framed(self._unfit, UNFIT, value), f"schema {self._unfit} does not fit the source's"
        yield framed(999, WITHOUT_V, {"id": "c", "at": 3_000}), "registry has no schema 999"


FORMATS = list(SOURCES)
