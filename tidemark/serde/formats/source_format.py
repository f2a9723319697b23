"""The formats of raw records, as frozen values that a plan carries to every process."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias


@dataclass(frozen=True)
class JsonFormat:
    """JSON: an object, or an array of objects.

    ``framed``: values begin with the id of a schema in a registry, which is not needed.
    """

    framed: bool = False

    def __str__(self) -> str:
        return "json-schema" if self.framed else "json"


JSON = JsonFormat()
"""The format of a source that names none."""


@dataclass(frozen=True)
class AvroFormat:
    """Avro.

    ``schema``: the reader's, in JSON; None: a value has the members that its writer wrote.
    ``framed``: values begin with the id of their writer's schema in a registry.
    """

    schema: str | None = field(default=None, repr=False)
    framed: bool = True

    def __str__(self) -> str:
        return "avro framed" if self.framed else "avro"


@dataclass(frozen=True)
class ProtobufFormat:
    """Protobuf.

    ``descriptors``: a FileDescriptorSet.  ``message``: the full name of the message.  ``framed``:
    values begin with Confluent's framing.
    """

    descriptors: bytes = field(repr=False)
    message: str
    framed: bool = False

    def __str__(self) -> str:
        return f"protobuf {self.message}{' framed' if self.framed else ''}"


@dataclass(frozen=True)
class CsvFormat:
    """Delimited text.

    ``columns``: names in the order of the fields; None: the first line of each record has them.
    ``quote``: the quote character; None: fields have no quotes.  ``added``: how many columns at the
    beginning are not of the file from which the record comes; errors do not count them.
    """

    columns: tuple[str, ...] | None
    delimiter: str = ","
    quote: str | None = '"'
    added: int = 0

    def __str__(self) -> str:
        names = "with a header" if self.columns is None else f"of {', '.join(self.columns)}"
        return f"csv {names}, delimiter {self.delimiter!r}, quote {self.quote!r}"


@dataclass(frozen=True)
class DebeziumFormat:
    """Changes of database rows."""

    encoding: Literal["json", "avro"]

    def __str__(self) -> str:
        return f"debezium-{self.encoding}"


@dataclass(frozen=True)
class CloudEventsFormat:
    """CloudEvents in JSON, structured or binary."""

    def __str__(self) -> str:
        return "cloudevents"


@dataclass(frozen=True)
class TextFormat:
    """Text in UTF-8: one column."""

    def __str__(self) -> str:
        return "text"


@dataclass(frozen=True)
class BytesFormat:
    """Bytes: one column."""

    def __str__(self) -> str:
        return "bytes"


@dataclass(frozen=True)
class ExplodedFormat:
    """Records of another format that hold a list; each item of it is a row.

    ``path``: names of the members that lead to the list.
    """

    of: "SourceFormat"
    path: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.of} exploded by {'.'.join(map(repr, self.path))}"


SourceFormat: TypeAlias = (
    JsonFormat
    | AvroFormat
    | ProtobufFormat
    | CsvFormat
    | DebeziumFormat
    | CloudEventsFormat
    | TextFormat
    | BytesFormat
    | ExplodedFormat
)


def without_explode(format_: SourceFormat) -> SourceFormat:
    """Return the format of whole records, of which a source may explode a list."""
    return format_.of if isinstance(format_, ExplodedFormat) else format_


def is_binary(format_: SourceFormat) -> bool:
    """Return whether a record of the format may hold bytes of line feeds that end no line."""
    format_ = without_explode(format_)
    return (
        needs_registry(format_)
        or isinstance(format_, AvroFormat | ProtobufFormat | BytesFormat)
        or format_ == JsonFormat(framed=True)
    )


def needs_registry(format_: SourceFormat) -> bool:
    """Return whether records of the format can only be read with a schema registry."""
    format_ = without_explode(format_)
    if isinstance(format_, DebeziumFormat):
        return format_.encoding == "avro"
    return isinstance(format_, AvroFormat) and format_.framed
