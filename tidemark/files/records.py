"""The records of a file, as a producer would write them (docs/formats.md, "Files")."""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from tidemark.errors import ConfigurationError
from tidemark.files.avro_container import avro_records
from tidemark.files.json_documents import json_documents
from tidemark.files.table_lines import table_records
from tidemark.serde.formats.source_format import (
    AvroFormat,
    CsvFormat,
    SourceFormat,
    TextFormat,
    is_binary,
    without_explode,
)


def require_files(format_: SourceFormat, what: str) -> None:
    """Raise ConfigurationError if records of a format cannot be in a file; ``what``: of which."""
    whole = without_explode(format_)
    is_plain_avro = isinstance(whole, AvroFormat) and not whole.framed
    if is_binary(format_) and not is_plain_avro:
        raise ConfigurationError(
            f"{what}: records of format {format_} cannot be in a file; try the pipeline with "
            "tidemark.testing (docs/testing.md), or on a broker"
        )


def file_records(content: BinaryIO, format_: SourceFormat, what: str) -> Iterator[bytes]:
    """Yield the records of a file.

    ``what``: names the file in errors.

    Raises:
        ConfigurationError: the file is not of its format as a whole, or cannot be of it.
    """
    require_files(format_, what)
    whole = without_explode(format_)
    if isinstance(whole, AvroFormat):
        assert whole.schema is not None
        return avro_records(content, whole.schema, what)
    return text_records(content, format_)


def text_records(lines: Iterable[bytes], format_: SourceFormat) -> Iterator[bytes]:
    """Yield the records in the lines of a file of text; ``format_``: not Avro."""
    plain = map(_without_line_end, lines)
    if isinstance(format_, CsvFormat):
        return table_records(plain, format_)
    return plain if isinstance(format_, TextFormat) else json_documents(plain)


def _without_line_end(line: bytes) -> bytes:
    return line.removesuffix(b"\n")
