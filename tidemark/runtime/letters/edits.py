"""Edits of a raw JSON record, field by field; all other bytes stay as they are.  Pure."""

from collections.abc import Mapping

import msgspec

from tidemark.errors import ConfigurationError
from tidemark.serde.formats.text_encoding import BOM

_Members = dict[str, msgspec.Raw]


def with_fields(value: bytes | None, fields: Mapping[str, str]) -> bytes:
    """Return a JSON object with some fields replaced or added.

    ``fields``: by name, a JSON value; other text stands for itself.  A name with points is a path
    into objects, unless a field has that very name.

    Raises:
        ConfigurationError: the value is no JSON object, or a path leads into no object.
    """
    text = (value or b"").removeprefix(BOM)
    for name, new in fields.items():
        text = _with_field(text, name, name, _json(new))
    return text


def _with_field(text: bytes, path: str, whole: str, new: bytes) -> bytes:
    try:
        members = msgspec.json.decode(text, type=_Members)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        inside = "" if path == whole else f" at {whole.removesuffix(path).rstrip('.')!r}"
        raise ConfigurationError(
            f"--set {whole}=...: the record is no JSON object{inside} ({error}): give the whole "
            "value with --edit or --value"
        ) from None
    first, point, rest = path.partition(".")
    if not point or path in members:
        members[path] = msgspec.Raw(new)
    else:
        inner = bytes(members.get(first, b"{}"))
        inner = b"{}" if inner == b"null" else inner
        members[first] = msgspec.Raw(_with_field(inner, rest, whole, new))
    return msgspec.json.encode(members)


def _json(text: str) -> bytes:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return msgspec.json.encode(text)
    return text.encode()
