"""CloudEvents 1.0 and 0.3: structured, in batches, and in binary mode (attributes in headers).

An event becomes its attributes and ``data``.  Data in JSON is nested, other text is text, and
everything else is bytes.  Source: CloudEvents, "Kafka Protocol Binding" and "JSON Event Format".
"""

import base64
import binascii
from typing import Any

from tidemark.serde.formats.json_value import json_value
from tidemark.serde.formats.value_decoder import UnreadableValueError
from tidemark.serde.records import Headers

REQUIRED = ("specversion", "id", "source", "type")
_VERSIONS = ("1.0", "0.3")
_PREFIX = "ce_"
BINARY_MARK = f"{_PREFIX}specversion"
"""The header that each event in binary mode has."""

_EVENT = "application/cloudevents"
_BATCH = "application/cloudevents-batch"
_DATA, _DATA_BASE64, _DATA_TYPE = "data", "data_base64", "datacontenttype"


class CloudEventValues:
    """Decodes events; the headers of a record say in which mode it is."""

    def decode(
        self, value: bytes | None, _key: bytes | None = None, headers: Headers = None, /
    ) -> Any:
        """Return an event, or the events of a batch; no value is an event in binary mode only."""
        texts = {name.lower(): text for name, text in headers or ()}
        kind = _text(texts.get("content-type"), "content-type")
        if BINARY_MARK in texts and not (kind or "").startswith(_EVENT):
            return _binary(value, kind, texts)
        if value is None or not value.strip():
            return []
        if kind is not None and kind.startswith(_EVENT) and not _is_json(kind):
            raise UnreadableValueError(f"events of content-type {kind!r} are not read; use JSON")
        events = json_value(value)
        return list(map(_structured, events)) if isinstance(events, list) else _structured(events)


def _structured(event: Any) -> dict[str, Any]:
    if not isinstance(event, dict):
        raise UnreadableValueError("not a CloudEvent: expected an object")
    _require_attributes(event)
    if event.get(_DATA_BASE64) is None:
        return event
    try:
        data = base64.b64decode(event[_DATA_BASE64], validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise UnreadableValueError(f"not a CloudEvent: data_base64: {error}") from None
    kind = event.get(_DATA_TYPE)
    return {**event, _DATA: _data(data, kind if isinstance(kind, str) else None)}


def _binary(
    value: bytes | None, kind: str | None, headers: dict[str, bytes | None]
) -> dict[str, Any]:
    event: dict[str, Any] = {
        name.removeprefix(_PREFIX): _text(text, name)
        for name, text in headers.items()
        if name.startswith(_PREFIX)
    }
    _require_attributes(event)
    return {**event, _DATA_TYPE: kind, _DATA: None if value is None else _data(value, kind)}


def _require_attributes(event: dict[str, Any]) -> None:
    for name in REQUIRED:
        if not isinstance(event.get(name), str) or not event[name]:
            raise UnreadableValueError(f"not a CloudEvent: no attribute {name!r}")
    if event["specversion"] not in _VERSIONS:
        raise UnreadableValueError(
            f"a CloudEvent of specversion {event['specversion']!r}, not {' or '.join(_VERSIONS)}"
        )


def _data(data: bytes, kind: str | None) -> Any:
    """Return data of a content type; without one it is JSON, as the specification says."""
    if kind is None or _is_json(kind):
        return json_value(data) if data.strip() else None
    if not kind.lower().startswith("text/"):
        return data
    return _text(data, _DATA)


def _is_json(kind: str) -> bool:
    media = kind.partition(";")[0].strip().lower()
    return media in ("application/json", "text/json") or media.endswith("+json")


def _text(raw: bytes | None, what: str) -> str | None:
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError as error:
        raise UnreadableValueError(f"{what} is not UTF-8 (byte {error.start})") from None
