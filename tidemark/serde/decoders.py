"""The decoder of a source's records, by the format of the source."""

from collections.abc import Collection, Sequence

from tidemark.core.rows.schema import Schema
from tidemark.serde.formats.avro_values import AvroValues, FramedAvroValues, WriterSchemas
from tidemark.serde.formats.cloud_events import CloudEventValues
from tidemark.serde.formats.csv_values import CsvValues
from tidemark.serde.formats.debezium_values import DebeziumValues
from tidemark.serde.formats.decoded_records import DecodedRecords
from tidemark.serde.formats.exploded_values import ExplodedValues
from tidemark.serde.formats.json_value import JsonValues
from tidemark.serde.formats.source_format import (
    AvroFormat,
    BytesFormat,
    CloudEventsFormat,
    CsvFormat,
    DebeziumFormat,
    ExplodedFormat,
    JsonFormat,
    ProtobufFormat,
    SourceFormat,
    TextFormat,
    without_explode,
)
from tidemark.serde.formats.value_decoder import ValueDecoder
from tidemark.serde.formats.whole_values import BytesValues, TextValues
from tidemark.serde.json_records import JsonRecords
from tidemark.serde.objects.record_type import RecordType
from tidemark.serde.parsed_batch import RecordDecoder

_OF_DECIMALS = (
    "; of a decimal, set the connector's decimal.handling.mode to double, or to string with "
    "field(..., float, lenient=True)"
)


def record_decoder(
    format_: SourceFormat,
    schema: Schema,
    time_columns: Sequence[str] = (),
    writers: WriterSchemas | None = None,
) -> RecordDecoder:
    """Return the decoder of a format.

    ``time_columns``: those of dead records are read, too.  ``writers``: the schemas in the
    registry, for the formats that need one (``needs_registry``).
    """
    if isinstance(format_, JsonFormat):
        return JsonRecords(schema, time_columns, framed=format_.framed)
    values = value_decoder(format_, schema, writers)
    whole = without_explode(format_)
    reads_null = isinstance(whole, CloudEventsFormat)
    number_hint = _OF_DECIMALS if whole == DebeziumFormat("json") else ""
    return DecodedRecords(
        values, schema, time_columns, reads_null=reads_null, number_hint=number_hint
    )


def value_decoder(
    format_: SourceFormat, schema: Schema, writers: WriterSchemas | None = None
) -> ValueDecoder:
    """Return the decoder of the values of a format, as Python values."""
    if not isinstance(format_, ExplodedFormat):
        return _of_whole(format_, schema, writers)
    path = format_.path
    return ExplodedValues(_of_whole(format_.of, schema, writers, path[:1]), path, schema)


def _of_whole(
    format_: SourceFormat,
    schema: Schema,
    writers: WriterSchemas | None,
    members: Sequence[str] = (),
) -> ValueDecoder:
    """Return the decoder of a format; ``members``: read although the schema may not have them."""
    match format_:
        case JsonFormat(framed=framed):
            return JsonValues(is_lenient=RecordType(schema).is_lenient, framed=framed)
        case AvroFormat(schema=text, framed=True):
            return FramedAvroValues(_required(writers), text, with_times=schema.has_times)
        case AvroFormat(schema=str(text)):
            return AvroValues(text, with_times=schema.has_times)
        case ProtobufFormat():
            read = {*members, *(each.place[0] for each in schema.fields)}
            return _protobuf_values(format_, read)
        case CsvFormat(columns, delimiter, quote, added):
            return CsvValues(columns, delimiter, quote, added)
        case DebeziumFormat(encoding="avro"):
            values = FramedAvroValues(_required(writers), with_times=schema.has_times)
            return DebeziumValues.in_avro(values)
        case DebeziumFormat():
            return DebeziumValues.in_json(with_times=schema.has_times)
        case CloudEventsFormat():
            return CloudEventValues()
        case TextFormat() | BytesFormat():
            whole = TextValues if isinstance(format_, TextFormat) else BytesValues
            return whole(_whole_value_name(schema))
    raise AssertionError(format_)


def _protobuf_values(format_: ProtobufFormat, members: Collection[str]) -> ValueDecoder:
    # Protobuf is an extra, so no module imports it unless a source has it.
    from tidemark.serde.formats.protobuf_values import ProtobufValues, message_descriptor

    message = message_descriptor(format_.descriptors, format_.message)
    return ProtobufValues(message, framed=format_.framed, members=members)


def _whole_value_name(schema: Schema) -> str:
    """Return the member that a value of text or bytes becomes: the only one of the schema."""
    (column,) = schema.fields
    return column.place[0]


def _required(writers: WriterSchemas | None) -> WriterSchemas:
    assert writers is not None, "the format needs a registry, but there are no schemas of writers"
    return writers
