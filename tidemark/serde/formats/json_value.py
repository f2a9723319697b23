"""A JSON document of any kind as a Python value, by the rules of raw records."""

from typing import Any

import msgspec

from tidemark.serde.formats.value_decoder import UnreadableValueError
from tidemark.serde.json_records import json_reason
from tidemark.serde.nesting import MAX_NESTING, nested_too_deep

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
