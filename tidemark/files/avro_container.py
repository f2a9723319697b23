"""The records in a container file of Avro, as plain Avro values."""

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

import fastavro
from fastavro.schema import to_parsing_canonical_form

from tidemark.errors import ConfigurationError
from tidemark.serde.avro import DAMAGE
from tidemark.serde.formats.avro_schemas import AvroSchemaError, parsed_schema

MAGIC = b"Obj\x01"


def container_schema(content: BinaryIO, what: str) -> tuple[str, Any]:
    """Return the schema of a container in JSON, and a reader of its blocks.

    Raises:
        ConfigurationError: the content is not a container, or its schema cannot be used.
    """
    try:
        blocks = fastavro.block_reader(content)
        text = blocks.metadata["avro.schema"]
        parsed_schema([text])
    except (*DAMAGE, KeyError, AvroSchemaError) as error:
        raise ConfigurationError(f"{what}: not a container file of Avro: {error}") from None
    return text, blocks


def avro_records(content: BinaryIO, schema: str, what: str) -> Iterator[bytes]:
    """Yield the records of a container whose schema is that of the source.

    Raises:
        ConfigurationError: it is not a container, has another schema, or is damaged.
    """
    text, blocks = container_schema(content, what)
    if _canonical(text) != _canonical(schema):
        raise ConfigurationError(
            f"{what}: the schema in the file is not that of the source; try the pipeline with "
            "avro(SCHEMA) of the file"
        )
    yield from block_records(text, blocks, what)


def block_records(schema: str, blocks: Any, what: str) -> Iterator[bytes]:
    """Yield the records of the blocks that were written with a schema."""
    parsed = parsed_schema([schema])
    try:
        for block in blocks:
            body = block.bytes_
            content = body.getvalue()
            for _ in range(block.num_records):
                begin = body.tell()
                fastavro.schemaless_reader(body, parsed, None)
                yield content[begin : body.tell()]
    except DAMAGE as error:
        raise ConfigurationError(f"{what}: the container file is damaged: {error}") from None


def _canonical(schema: str) -> str:
    return str(to_parsing_canonical_form(fastavro.parse_schema(json.loads(schema))))
