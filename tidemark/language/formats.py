"""Formats of raw records with their options: ``Pipeline.source(format=...)``."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import polars as pl

from tidemark.core.rows.schema import Field, JsonText, Raw, Scalar, Schema, TimeValue
from tidemark.errors import PipelineError
from tidemark.serde.formats.avro_schemas import AvroSchemaError, parsed_schema, python_types
from tidemark.serde.formats.source_format import (
    JSON,
    AvroFormat,
    BytesFormat,
    CloudEventsFormat,
    CsvFormat,
    DebeziumFormat,
    JsonFormat,
    ProtobufFormat,
    SourceFormat,
    TextFormat,
)

FormatName: TypeAlias = Literal[
    "json",
    "json-schema",
    "avro",
    "csv",
    "debezium-json",
    "debezium-avro",
    "cloudevents",
    "text",
    "bytes",
]

_BY_NAME: Mapping[str, SourceFormat] = {
    "json": JSON,
    "json-schema": JsonFormat(framed=True),
    "avro": AvroFormat(),
    "csv": CsvFormat(columns=()),
    "debezium-json": DebeziumFormat("json"),
    "debezium-avro": DebeziumFormat("avro"),
    "cloudevents": CloudEventsFormat(),
    "text": TextFormat(),
    "bytes": BytesFormat(),
}


_WHOLE = "value"
"""The column of text and bytes if the source has no schema."""


def avro(
    schema: str | Path | Mapping[str, Any] | None = None, *, framed: bool | None = None
) -> AvroFormat:
    """Return the format of Avro records.

    ``schema``: the reader's schema, as a dict, as JSON text, or as the path of an .avsc file.
    ``framed``: values begin with the id of their writer's schema in the registry.  By default they
    do if no schema is given, and without an id every value has the given schema.

    Raises:
        PipelineError: the schema cannot be read or used, or plain values have no schema.
    """
    if schema is None:
        if framed is False:
            raise PipelineError(
                "avro(framed=False): values without framing need the schema that wrote them; "
                "write avro('sensor.avsc')"
            )
        return AvroFormat()
    text = json.dumps(schema) if isinstance(schema, Mapping) else _text(schema)
    try:
        parsed_schema([text])
    except AvroSchemaError as error:
        raise PipelineError(f"avro({_shown(schema)}): {error}") from None
    return AvroFormat(text, bool(framed))


def _text(schema: str | Path) -> str:
    if isinstance(schema, str) and schema.lstrip().startswith(("{", "[", '"')):
        return schema
    return _content(schema, f"avro({_shown(schema)})").decode()


def protobuf(
    descriptors: str | Path | type, message: str | None = None, *, framed: bool = False
) -> ProtobufFormat:
    """Return the format of Protobuf records.

    ``descriptors``: a generated class; or the path of a descriptor set, which ``protoc
    --include_imports --descriptor_set_out=PATH`` writes, with the full name of a ``message`` in
    it.  ``framed``: values begin with Confluent's framing.

    Raises:
        PipelineError: the descriptors cannot be read, or lack the message.
    """
    what = f"protobuf({_shown(descriptors)})"
    try:
        from tidemark.serde.formats.protobuf_values import (
            DescriptorError,
            descriptor_set,
            message_descriptor,
        )
    except ModuleNotFoundError:
        raise PipelineError(
            f"{what}: protobuf is not installed: pip install 'tidemark-streams[protobuf]'"
        ) from None
    if isinstance(descriptors, type):
        found = getattr(descriptors, "DESCRIPTOR", None)
        if found is None or message is not None:
            raise PipelineError(
                f"{what}: write a generated class alone, or the path of a descriptor set with the "
                "name of a message"
            )
        return ProtobufFormat(descriptor_set(found), found.full_name, framed)
    if not isinstance(message, str) or not message:
        raise PipelineError(f"{what}: message= must name a message of the descriptor set")
    content = _content(descriptors, what)
    try:
        message_descriptor(content, message)
    except DescriptorError as error:
        raise PipelineError(f"{what}: {error}") from None
    return ProtobufFormat(content, message, framed)


def csv(
    columns: Sequence[str] | None = None,
    *,
    header: bool = False,
    delimiter: str = ",",
    quote: str | None = '"',
) -> CsvFormat:
    """Return the format of records in CSV; each line is a row.

    ``columns``: the names in the order of the fields, by default the columns of the schema.
    ``header``: the first line of each record has the names.

    Raises:
        PipelineError: an option is not valid.
    """
    if header and columns is not None:
        raise PipelineError("csv(header=True): columns are named by the header; leave columns out")
    _require_character(delimiter, "delimiter")
    if quote is not None:
        _require_character(quote, "quote")
    if delimiter == quote:
        raise PipelineError(f"csv(delimiter={delimiter!r}): quote is the same character")
    if isinstance(columns, str) or (columns is not None and len(set(columns)) != len(columns)):
        raise PipelineError(f"csv(columns={columns!r}): it must be a list of distinct names")
    return CsvFormat(None if header else tuple(columns or ()), delimiter, quote)


def _require_character(value: object, option: str) -> None:
    if not isinstance(value, str) or len(value) != 1 or value in "\r\n":
        raise PipelineError(f"csv({option}={value!r}): it must be one character")


def source_format(chosen: object, what: str) -> SourceFormat:
    """Return the format that an option of a source names; ``what`` names the source in errors.

    Raises:
        PipelineError: it is not a format.
    """
    if isinstance(chosen, SourceFormat):
        return chosen
    if isinstance(chosen, str) and chosen in _BY_NAME:
        return _BY_NAME[chosen]
    if chosen == "protobuf":
        raise PipelineError(f"{what}: format 'protobuf' needs its message; write protobuf(...)")
    raise PipelineError(
        f"{what}: format {chosen!r} is not one of {', '.join(_BY_NAME)}, avro(), protobuf(), csv()"
    )


def format_columns(chosen: SourceFormat, what: str) -> Mapping[str, Any]:
    """Return the columns of a source without ``schema=``: those that its format knows.

    Raises:
        PipelineError: the format knows none.
    """
    try:
        match chosen:
            case AvroFormat(schema=str(text)):
                return python_types(parsed_schema([text]))
            case ProtobufFormat():
                from tidemark.serde.formats import protobuf_values

                message = protobuf_values.message_descriptor(chosen.descriptors, chosen.message)
                return protobuf_values.python_types(message)
            case TextFormat():
                return {_WHOLE: str}
            case BytesFormat():
                return {_WHOLE: bytes}
    except ValueError as error:  # AvroSchemaError, DescriptorError
        raise PipelineError(f"{what}: {error}") from None
    raise PipelineError(
        f"{what}: schema= is missing: format {chosen} does not say which columns there are"
    )


def fitted(chosen: SourceFormat, schema: Schema, what: str) -> tuple[SourceFormat, Schema]:
    """Return format and schema of a source as they fit each other.

    Fields of CSV are text, so its numbers, Booleans and times are read leniently.

    Raises:
        PipelineError: the schema has a column that records of the format cannot have.
    """
    members = list(dict.fromkeys(each.place[0] for each in _read_fields(schema)))
    match chosen:
        case TextFormat() | BytesFormat():
            _require_whole(chosen, schema, what)
        case CsvFormat(columns=()):
            chosen = replace(chosen, columns=tuple(members))
        case CsvFormat(columns=tuple(names)):
            _require_members(members, names, f"{what}: csv()")
        case AvroFormat(schema=str(text)):
            fields = [field["name"] for field in parsed_schema([text])["fields"]]
            _require_members(members, fields, f"{what}: its Avro schema")
        case ProtobufFormat():
            from tidemark.serde.formats.protobuf_values import message_descriptor

            message = message_descriptor(chosen.descriptors, chosen.message)
            fields = [field.name for field in message.fields]
            _require_members(members, fields, f"{what}: message {chosen.message}")
    if isinstance(chosen, CsvFormat):
        _require_flat(schema, what)
        schema = Schema(tuple(map(from_text, schema.fields)))
    return chosen, schema


def _read_fields(schema: Schema) -> list[Field]:
    return [each for each in schema.fields if not isinstance(each.kind, Raw)]


def _require_whole(chosen: SourceFormat, schema: Schema, what: str) -> None:
    needed = pl.String() if isinstance(chosen, TextFormat) else pl.Binary()
    fields = schema.fields
    if len(fields) == 1 and len(fields[0].place) == 1:
        kind = fields[0].kind
        if kind.dtype == needed or (needed == pl.String and isinstance(kind, JsonText)):
            return
    raise PipelineError(
        f"{what}: format {chosen} has exactly one column, of type {needed}: leave schema out, or "
        f"write schema={{'line': {'str' if needed == pl.String else 'bytes'}}}"
    )


def _require_members(members: Sequence[str], known: Sequence[str], what: str) -> None:
    for name in members:
        if name not in known:
            raise PipelineError(f"{what} has no {name!r}; it has {', '.join(known)}")


def _require_flat(schema: Schema, what: str) -> None:
    for each in schema.fields:
        if not isinstance(each.kind, Scalar | TimeValue | JsonText | Raw) or len(each.place) > 1:
            raise PipelineError(
                f"{what}: column {each.name!r}: a field of CSV is no {each.kind.dtype}; read its "
                f"JSON with field({each.place[0]!r}, ..., json=True)"
            )


def from_text(column: Field) -> Field:
    """Return a column whose values may be texts, or of a database with fewer types."""
    kind = column.kind
    if isinstance(kind, Scalar | TimeValue) and kind.dtype not in (pl.String, pl.Binary):
        return replace(column, kind=replace(kind, lenient=True))
    return column


def _content(path: str | Path, what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, TypeError, ValueError) as error:
        raise PipelineError(
            f"{what}: {error}; a path is relative to the working directory, so build it from "
            "Path(__file__)"
        ) from None


def _shown(value: object) -> str:
    text = value.__name__ if isinstance(value, type) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
