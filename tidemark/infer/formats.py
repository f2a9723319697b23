"""The format of sampled values: of records, or of the first lines of a file."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tidemark.errors import ConfigurationError
from tidemark.files.json_documents import starts_document
from tidemark.infer.delimited import TitleError, delimited, is_aligned
from tidemark.infer.sample import SampleRecord, json_objects
from tidemark.serde.formats.cloud_events import BINARY_MARK, REQUIRED
from tidemark.serde.formats.debezium_values import ENVELOPE, OPERATIONS
from tidemark.serde.formats.framing import HEADER_BYTES
from tidemark.serde.formats.source_format import (
    JSON,
    AvroFormat,
    CloudEventsFormat,
    DebeziumFormat,
    JsonFormat,
    SourceFormat,
    TextFormat,
)

_MOST = 0.5
_ENVELOPES = 0.9


def format_of_lines(lines: Sequence[bytes], what: str) -> SourceFormat:
    """Return the format of a file, JSON in place of its envelopes; ``lines``: its first ones.

    Raises:
        ConfigurationError: the content is binary, or its lines are arrays without names.
    """
    _require_text(lines, what)
    present = [line.rstrip(b"\r\n") for line in lines if line.strip()]
    _require_names(present, what)
    if present and starts_document(present[0]):
        first = json_objects(present[0])
        is_json = _share(bool(json_objects(line)) for line in present) >= _MOST
        if first and not is_json and len(present) > 1:
            return JSON if starts_document(present[1]) else TextFormat()
        if is_json or _begins_document(present[0]):
            return JSON
    elif _share(bool(json_objects(line)) for line in present) >= _MOST:
        return JSON
    return _format_of_text([line.decode(errors="replace") for line in present], lines, what)


def _format_of_text(texts: Sequence[str], lines: Sequence[bytes], what: str) -> SourceFormat:
    """Return the format of text that is not JSON; ``lines``: as they are in the file."""
    try:
        found = delimited(texts)
    except TitleError as error:
        header = str(error).encode()
        number = next(n for n, line in enumerate(lines, 1) if line.rstrip(b"\r\n") == header)
        raise ConfigurationError(
            f"{what}: the names of the columns are in line {number}, but a file of CSV begins with "
            f"them; leave out the lines before: tail -n +{number} FILE | tidemark infer -"
        ) from None
    if found is None and is_aligned(texts):
        raise ConfigurationError(
            f"{what}: several blanks are between the columns; write one: "
            "sed -E 's/^ +//; s/ +/ /g' FILE | tidemark infer -"
        )
    return found or TextFormat()


def _begins_document(line: bytes) -> bool:
    """Return whether a line begins an object or array that it does not end, or ends several."""
    text = line.strip(b" \t\r\n\x1e")
    inside = text[1:].lstrip()
    if text.startswith(b"{"):
        return inside[:1] in (b"", b'"', b"}")
    return inside[:1] in (b"", b"{", b"[", b"]")


def format_of_records(records: Sequence[SampleRecord], what: str) -> SourceFormat:
    """Return the format of the records of a topic.

    Raises:
        ConfigurationError: the values are binary and not Avro with framing, or arrays without
            names.
    """
    if _share(BINARY_MARK in dict(each.headers or ()) for each in records) >= _ENVELOPES:
        return CloudEventsFormat()
    values = [each.value for each in records if each.value is not None and each.value.strip()]
    if _share(bool(json_objects(value)) for value in values) >= _MOST:
        return envelope_format(values)
    if _share(map(is_framed, values)) >= _MOST:
        documents = (value[HEADER_BYTES:] for value in values)
        is_json = _share(bool(json_objects(each)) for each in documents) >= _MOST
        return JsonFormat(framed=True) if is_json else AvroFormat()
    _require_text(values, what)
    _require_names(values, what)
    texts = [value.decode(errors="replace") for value in values]
    return delimited(texts, is_file=False) or TextFormat()


def is_framed(value: bytes) -> bool:
    """Return whether a value may begin with the id of a schema in a registry."""
    return value.startswith(b"\0") and len(value) > HEADER_BYTES


def envelope_format(values: Sequence[bytes | None]) -> SourceFormat:
    """Return the format of records in JSON: of Debezium, of CloudEvents, or plain."""
    objects = [each for value in values for each in json_objects(value)]
    if _share(map(is_change, objects)) >= _ENVELOPES:
        return DebeziumFormat("json")
    if _share(map(_is_event, objects)) >= _ENVELOPES:
        return CloudEventsFormat()
    return JSON


def is_change(record: dict[str, Any]) -> bool:
    """Return whether a record is a change of Debezium, with the schema beside it or without."""
    change = record["payload"] if record.keys() == ENVELOPE else record
    return (
        isinstance(change, dict)
        and change.get("op") in OPERATIONS
        and isinstance(change.get("source"), dict)
        and bool(change.keys() & {"before", "after"})
    )


def _is_event(record: dict[str, Any]) -> bool:
    return all(isinstance(record.get(name), str) for name in REQUIRED)


def _require_text(values: Sequence[bytes], what: str) -> None:
    def is_text(value: bytes) -> bool:
        try:
            value.decode()
        except UnicodeDecodeError:
            return False
        return b"\x00" not in value

    if values and _share(map(is_text, values)) < _MOST:
        raise ConfigurationError(
            f"{what}: the content is binary, or text that is not UTF-8; infer reads UTF-8 text and "
            "container files of Avro. For text in another encoding: "
            "iconv -f ENCODING -t UTF-8 FILE | tidemark infer -; for Protobuf and plain Avro write "
            "the source with format=protobuf(...) or avro(...) (docs/formats.md)"
        )


def _require_names(values: Sequence[bytes], what: str) -> None:
    """Raise ConfigurationError if most values are arrays in JSON of values without names."""
    if _share(map(_is_nameless, values)) > _MOST:
        raise ConfigurationError(
            f"{what}: the records are arrays without names, not objects; write objects: "
            "jq -c '{first: .[0], second: .[1]}' FILE | tidemark infer -"
        )


def _is_nameless(value: bytes) -> bool:
    """Return whether a value is an array of two or more, the first of them a scalar."""
    if not value.lstrip().startswith(b"["):
        return False
    try:
        decoded = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return False
    if len(decoded) < 2 or isinstance(decoded[0], list):
        return False
    return not any(isinstance(each, dict) for each in decoded)


def _share(truths: Any) -> float:
    found = list(truths)
    return sum(found) / len(found) if found else 0.0
