"""Lenient values: other spellings of a number, text or Boolean (docs/semantics.md, "Raw records").

Each function takes a decoded JSON value, and returns the value of the column's type, or None for a
spelling of "no value".  It raises ValueError if the value has no such meaning.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from math import isinf
from typing import Any

import msgspec
import polars as pl

from tidemark.errors import PipelineError

Read = Callable[[Any], Any]

NO_VALUE = r"-?|null|none|n/?a|\\N|[+-]?(?:nan|inf|infinity)"
"""A regular expression of the spellings of "no value", in any case."""

_NO_VALUE = re.compile(NO_VALUE, re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_LONGEST = 400
_SURELY_SHORT = 19  # digits of an integer that fits, whatever they are
_SURELY_FLOAT = 300  # so few digits are a finite number as a float
_DIGITS = 40  # more than any integer has
_TRUTHS = {"true": True, "false": False, "1": True, "0": False}


def lenient(dtype: pl.DataType) -> Read:
    """Return the function that reads values of a type.

    Raises:
        PipelineError: there are no other spellings of the type's values.
    """
    if dtype == pl.String:
        return _text
    if dtype == pl.Boolean:
        return _boolean
    if dtype == pl.Float64:
        return _number
    if dtype == pl.Int64:
        return _integer
    raise PipelineError(f"lenient: {dtype} has no other spellings; use str, int, float or bool")


def _text(value: Any) -> str:
    if value is None:  # of a required field
        raise _differs("str", value)
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=int).decode()


def _boolean(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return value == 1
    if isinstance(value, str):
        text = value.strip()
        if _NO_VALUE.fullmatch(text):
            return None
        if (truth := _TRUTHS.get(text.lower())) is not None:
            return truth
    raise _differs("bool", value)


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        if _is_plain(value):
            return float(value)
        text = _numeral(value, "float")
        if text is None:
            return None
        number = float(text)
        if isinf(number):
            raise ValueError("number out of range")
        return number
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _differs("float", value)
    try:
        return float(value)
    except OverflowError:
        raise ValueError("number out of range") from None


def _integer(value: Any) -> int | None:
    if isinstance(value, str):
        if value.isascii() and value.isdigit() and len(value) < _SURELY_SHORT:
            return int(value)
        text = _numeral(value, "int")
        if text is None:
            return None
        return _whole(Decimal(text), value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _differs("int", value)
    return _whole(Decimal(value), value)


def _is_plain(value: str) -> bool:
    """Return whether a text has only digits with at most one point, as most do; cheap."""
    return len(value) < _SURELY_FLOAT and value.isascii() and value.replace(".", "", 1).isdigit()


def _numeral(value: str, kind: str) -> str | None:
    """Return the decimal number in a text, or None for a spelling of "no value"."""
    if len(value) <= _LONGEST and _NUMBER.fullmatch(value):
        return value
    text = value.strip()
    if _NO_VALUE.fullmatch(text):
        return None
    if len(text) > _LONGEST or not _NUMBER.fullmatch(text):
        raise _differs(kind, value)
    return text


def _whole(number: Decimal, value: Any) -> int:
    if number.adjusted() > _DIGITS:
        raise ValueError("number out of range")
    if number.adjusted() < -_DIGITS or number != number.to_integral_value():
        if number:
            raise _differs("int", value)
        return 0
    whole = int(number)
    if not -(2**63) <= whole < 2**63:
        raise ValueError("number out of range")
    return whole


def _differs(kind: str, value: Any) -> ValueError:
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return ValueError(f"expected {kind}, got {f'{value!r:.60}' if plain else kind_name(value)}")


def kind_name(value: Any) -> str:
    """Return the kind of a decoded JSON value, as reasons name it."""
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else type(value).__name__
