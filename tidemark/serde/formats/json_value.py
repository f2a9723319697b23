"""A JSON document of any kind as a Python value, by the rules of raw records."""

from typing import Any

import msgspec

from tidemark.serde.formats.framing import without_id
from tidemark.serde.formats.value_decoder import UnreadableValueError
from tidemark.serde.json_records import EMPTY_ARRAY, json_reason, with_texts, without_bom
from tidemark.serde.nesting import MAX_NESTING, nested_too_deep
from tidemark.serde.records import Headers

_decode = msgspec.json.Decoder().decode


def json_value(text: bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        UnreadableValueError: it is not UTF-8, not JSON, or nested too deep.
    """
    if nested_too_deep(text):
        raise UnreadableValueError(f"nested deeper than {MAX_NESTING}")
    try:
        text.decode()
        return _decode(text)
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        raise UnreadableValueError(json_reason(error, text)) from None


class JsonValues:
    """Decodes JSON: an object, or an array of objects."""

    def __init__(self, *, is_lenient: bool, framed: bool = False) -> None:
        """``is_lenient``: whether NaN and Infinity, which are not JSON, are read as texts.

        ``framed``: whether values begin with the id of a schema.
        """
        self._is_lenient = is_lenient
        self._framed = framed

    def decode(self, value: bytes, _key: bytes | None = None, _headers: Headers = None, /) -> Any:
        """Return the object, or the objects of an array."""
        text = without_bom(without_id(value) if self._framed else value)
        if not text.strip():
            return []
        decoded: Any = json_value(with_texts(text) if self._is_lenient else text)
        if decoded == []:
            raise UnreadableValueError(EMPTY_ARRAY)
        return decoded
