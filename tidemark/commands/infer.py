"""``tidemark infer``: prints a pipeline module for the records of a file or topic."""

import re
from collections import deque
from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, BinaryIO, cast

import typer

from tidemark.commands.options import Bootstrap, broker_config
from tidemark.errors import ConfigurationError
from tidemark.files.avro_container import MAGIC, block_records, container_schema
from tidemark.files.content import STDIN, open_content
from tidemark.files.json_documents import is_unfinished_array
from tidemark.files.records import text_records
from tidemark.infer.fit import fitted_module
from tidemark.infer.formats import (
    envelope_format,
    format_of_lines,
    format_of_records,
    is_change,
    is_framed,
)
from tidemark.infer.sample import Sample, SampleRecord
from tidemark.partition import Partition
from tidemark.plan.names import topic_part
from tidemark.runtime.client.broker_probe import require_broker
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.client.schema_registry import RegistrySchemas
from tidemark.runtime.client.topics import require
from tidemark.runtime.config import Config
from tidemark.serde.formats.framing import schema_id
from tidemark.serde.formats.source_format import JSON, AvroFormat, DebeziumFormat, needs_registry
from tidemark.serde.records import Headers

_TOPIC_OF_STDIN = "records"
_HEAD_LINES = 1_000
_HEAD_BYTES = 1 << 22
_SHOWN = 40
_PACKAGE = re.compile(r"^\s*package\s+([\w.]+)\s*;", re.MULTILINE)
_PROTOBUF = re.compile(r"^\s*message\s+(\w+)\s*\{", re.MULTILINE)
_FILE_SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".log", ".gz")


def infer_(
    source: Annotated[
        str, typer.Argument(metavar="FILE|TOPIC", help="A file, - for stdin; or a raw topic.")
    ],
    records: Annotated[
        int,
        typer.Option(min=1, help="Look at this many records at the beginning and at the end."),
    ] = 10_000,
    bootstrap_server: Bootstrap = None,
) -> None:
    """Print a pipeline module for the records of a file or topic: it runs as it is.

    Reads JSON, CSV, text, Debezium's changes, CloudEvents and Avro (docs/formats.md).  The format,
    the schema, the event time with its unit, the watermark and the key are guesses from the first
    and last records.  Comments say what else there is, and which records do not fit.
    """
    if _is_file(source):
        topic = _topic_of(source)
        sample = _of_file(source, records)
    else:
        topic = source
        sample = _of_topic(source, records, broker_config(bootstrap_server))
    if not any((each.value or b"").strip() for each in sample.records):
        raise ConfigurationError(f"infer {source}: there are no records")
    origin = f"{topic}, from {len(sample.records):,} records"
    typer.echo(fitted_module(sample, topic, origin), nl=False)


def _is_file(source: str) -> bool:
    path = Path(source)
    return source == STDIN or path.exists() or "/" in source or path.suffix in _FILE_SUFFIXES


def _topic_of(path: str) -> str:
    """Return a name for the topic of a file's records."""
    stem = Path(path).name.split(".")[0]
    return topic_part(stem) if path != STDIN and stem else _TOPIC_OF_STDIN


def _of_file(path: str, count: int) -> Sample:
    """Return the first and last records of a file or of stdin."""
    what = f"infer {path}"
    with open_content(path, what) as content:
        head = content.peek(len(MAGIC))  # type: ignore[attr-defined]
        if head.startswith(MAGIC):
            return _of_container(content, count, what)
        lines = _head(content)
        format_ = format_of_lines(lines, what)
        values = _ends(text_records(chain(lines, content), format_), count)
    if format_ == JSON and is_unfinished_array(values):
        last = next(filter(None, map(bytes.strip, reversed(values))))
        raise ConfigurationError(
            f"{what}: the array that begins the file has no end; the file stops after "
            f"{last[-_SHOWN:].decode(errors='replace')!r}: get the whole file again, or read its "
            "objects: grep '^{' FILE | sed 's/,$//' | tidemark infer -"
        )
    sample = Sample(envelope_format(values) if format_ == JSON else format_)
    sample.records += map(SampleRecord, values)
    return sample


def _of_container(content: BinaryIO, count: int, what: str) -> Sample:
    schema, blocks = container_schema(content, what)
    sample = Sample(AvroFormat(schema, framed=False))
    sample.records += map(SampleRecord, _ends(block_records(schema, blocks, what), count))
    return sample


def _head(content: BinaryIO) -> list[bytes]:
    """Return the first lines."""
    lines: list[bytes] = []
    held = 0
    for line in islice(content, _HEAD_LINES):
        lines.append(line)
        held += len(line)
        if held > _HEAD_BYTES:
            break
    return lines


def _ends(values: Iterable[bytes], count: int) -> list[bytes]:
    rest = iter(values)
    return [*islice(rest, count), *deque(rest, count)]


def _of_topic(topic: str, count: int, config: Config) -> Sample:
    """Return the first and last records of a topic, the same number of each partition."""
    admin = require_broker(config)
    partitions = [Partition(topic, number) for number in range(require(admin, [topic])[topic])]
    begins = offsets(admin, partitions, EARLIEST)
    ends = offsets(admin, partitions, LATEST)
    each = max(1, count // len(partitions))
    found: list[SampleRecord] = []
    firsts = {at: (begins[at], min(begins[at] + each, ends[at])) for at in partitions}
    lasts = {at: (max(firsts[at][1], ends[at] - each), ends[at]) for at in partitions}
    for ranges in (firsts, lasts):
        for message in read(config, ranges):
            found.append(
                SampleRecord(
                    message.value(),
                    message.partition() or 0,
                    message.key(),
                    cast(Headers, message.headers()),
                    message.timestamp()[1],
                )
            )
    format_ = format_of_records(found, f"infer {topic}")
    sample = Sample(format_, found, has_timestamps=True)
    return _framed(sample, topic, config) if needs_registry(format_) else sample


def _framed(sample: Sample, topic: str, config: Config) -> Sample:
    """Return a sample of records that begin with the id of a schema, with the schemas of these.

    Raises:
        ConfigurationError: no registry is set, or it has no schema of Avro for the first record.
    """
    what = f"infer {topic}: the records begin with the id of a schema in a registry"
    if not config.schema_registry:
        raise ConfigurationError(
            f"{what}; set TIDEMARK_SCHEMA_REGISTRY to its address. Or write the source: "
            'format="avro" with the columns of that schema, or for Protobuf '
            'format=protobuf("FILE.desc", "PACKAGE.MESSAGE", framed=True) (docs/formats.md)'
        )
    values = (each.value or b"" for each in sample.records)
    number = schema_id(next(filter(is_framed, values)))
    sample.writers = RegistrySchemas(config, lambda _reason: None)
    texts = sample.writers.texts(number)
    if texts is None:
        raise ConfigurationError(f"{what}, but the registry has no schema {number}")
    if (message := _PROTOBUF.search(texts[-1])) is not None:
        package = _PACKAGE.search(texts[-1])
        name = f"{package[1]}.{message[1]}" if package else message[1]
        raise ConfigurationError(
            f"{what}, and schema {number} is of Protobuf; save it as {topic}.proto, run protoc "
            f"--include_imports --descriptor_set_out={topic}.desc {topic}.proto, and write the "
            f'source with format=protobuf("{topic}.desc", "{name}", framed=True)'
        )
    rows = [row for row, _ in islice(sample.rows(), _HEAD_LINES)]
    if rows and all(map(is_change, rows)):
        sample.format = DebeziumFormat("avro")
    return sample
