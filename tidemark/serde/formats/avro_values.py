"""Values in Avro: plain, or with Confluent's framing and the writer's schema from a registry."""

import io
import re
from typing import Any, Protocol

import fastavro
from fastavro.read import SchemaResolutionError

from tidemark.serde.avro import DAMAGE
from tidemark.serde.formats.avro_schemas import AvroSchemaError, parsed_schema
from tidemark.serde.formats.framing import HEADER_BYTES, schema_id
from tidemark.serde.formats.value_decoder import UnreadableValueError
from tidemark.serde.records import Headers

_MAX_KNOWN = 1_000
_WHOLE_SCHEMA = re.compile(r"\{'type': '\w+', 'name': '([\w.]+)'.*\}", re.DOTALL)


class WriterSchemas(Protocol):
    """Schemas by their id in a registry."""

    def texts(self, number: int) -> list[str] | None:
        """Return a schema in JSON, after the schemas that it refers to; None: unknown id.

        Raises:
            InfrastructureError: the registry cannot be reached.
        """


class AvroValues:
    """Decodes values that are all of one schema."""

    def __init__(self, schema: str, *, with_times: bool = False) -> None:
        """``schema``: in JSON.  ``with_times``: whether times are read as FormatTime.

        Raises:
            AvroSchemaError: it cannot be used.
        """
        self._schema = parsed_schema([schema], with_times=with_times)

    def decode(self, value: bytes, _key: bytes | None = None, _headers: Headers = None, /) -> Any:
        """Return the record in a value."""
        return _read(value, 0, self._schema, None, "the source's schema")


class FramedAvroValues:
    """Decodes values that begin with the id of the schema that wrote them.

    Without a schema of the reader, a value has the members that its writer wrote.
    """

    def __init__(
        self, writers: WriterSchemas, schema: str | None = None, *, with_times: bool = False
    ) -> None:
        """``schema``: of the reader, in JSON.  ``with_times``: whether times are FormatTime.

        Raises:
            AvroSchemaError: it cannot be used.
        """
        self._reader = None if schema is None else parsed_schema([schema], with_times=with_times)
        self._writers = writers
        self._with_times = with_times
        self._known: dict[int, Any] = {}

    def decode(self, value: bytes, _key: bytes | None = None, _headers: Headers = None, /) -> Any:
        """Return the record in a value, as the reader's schema has it."""
        number = schema_id(value)
        if number not in self._known:
            self._learn(number)
        writer = self._known[number]
        if isinstance(writer, str):
            raise UnreadableValueError(writer)
        return _read(value, HEADER_BYTES, writer, self._reader, f"schema {number}")

    def _learn(self, number: int) -> None:
        """Keep the schema with an id, or the reason why it cannot be used."""
        texts = self._writers.texts(number)
        if texts is None:  # not kept: it may be registered later
            raise UnreadableValueError(f"the schema registry has no schema {number}")
        if len(self._known) == _MAX_KNOWN:
            del self._known[next(iter(self._known))]
        try:
            self._known[number] = parsed_schema(texts, with_times=self._with_times)
        except AvroSchemaError as error:
            self._known[number] = f"schema {number} cannot be used: {error}"


def _read(value: bytes, begin: int, writer: Any, reader: Any, what: str) -> Any:
    """Return the record from ``begin`` to the end of a value; ``what`` names the schema."""
    body = io.BytesIO(value)
    body.seek(begin)
    try:
        record = fastavro.schemaless_reader(body, writer, reader)
    except SchemaResolutionError as error:
        reason = _WHOLE_SCHEMA.sub(r"\1", str(error))
        raise UnreadableValueError(f"{what} does not fit the source's: {reason}") from None
    except UnicodeDecodeError as error:
        raise UnreadableValueError(f"not Avro of {what}: a text is not UTF-8") from error
    except DAMAGE as error:
        where = f"byte {body.tell()} of {len(value)}"
        raise UnreadableValueError(f"not Avro of {what}: it ends too early ({where})") from error
    if body.tell() != len(value):
        raise UnreadableValueError(f"not Avro of {what}: {len(value) - body.tell()} bytes too many")
    return record
