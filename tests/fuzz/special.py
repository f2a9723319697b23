"""Kinds of values that polars has no type for, as the judge reads them, and good ones of each."""

import json
import math
import random
from fractions import Fraction
from typing import Any

import polars as pl

from tests.fuzz.documents import DeadError, Members, Number, Special, conform, parsed, value_of

_NO_VALUE = {"", "-", "null"} | {
    f"{sign}{word}" for sign in ("", "+", "-") for word in ("nan", "inf", "infinity")
}


class Object(Special):
    """An object with declared members, which may be special."""

    def __init__(self, **fields: pl.DataType) -> None:
        self.fields = fields

    def judged(self, value: Any, path: str) -> Any:
        """Return the values of the members."""
        return conform(value, self.fields, path)

    def good(self, draw: random.Random) -> Any:
        """Draw an object."""
        return {
            name: good(dtype, draw) for name, dtype in self.fields.items() if draw.random() < 0.9
        }


class Map(Special):
    """An object of any names, as pairs."""

    def __init__(self, value: pl.DataType) -> None:
        self.value = value

    def judged(self, value: Any, path: str) -> Any:
        """Return the last value of each name, at the place of the first."""
        if not isinstance(value, Members):
            raise DeadError("parse", f"column {path}: ")
        found = {name: value_of(each, self.value, f"{path}[...]") for name, each in value}
        return [{"key": name, "value": each} for name, each in found.items()]

    def good(self, draw: random.Random) -> Any:
        """Draw a map."""
        return {draw.choice("abc\u00e9"): good(self.value, draw) for _ in range(draw.randrange(4))}


class LenientInt(Special):
    """An integer in any spelling that has one meaning."""

    def judged(self, value: Any, path: str) -> int | None:
        """Return the integer, or None for no value."""
        if isinstance(value, bool) or not isinstance(value, str):
            raise DeadError("parse", f"column {path}: ")
        if isinstance(value, Number) and not value.is_whole:
            if math.isinf(float(value)):
                raise DeadError("parse", f"column {path}: ")
            return self._whole(Fraction(float(value)), path)
        text = value.strip()
        if text.lower() in _NO_VALUE:
            return None
        if not text or len(text) > 400 or set(text) - set("+-.0123456789eE"):
            raise DeadError("parse", f"column {path}: ")
        mantissa, _, exponent = text.lower().partition("e")
        try:
            power = int(exponent or "0")
            number = Fraction(mantissa)
        except ValueError:
            raise DeadError("parse", f"column {path}: ") from None
        if number and abs(power) > 1_000:
            raise DeadError("parse", f"column {path}: ")
        return self._whole(number * Fraction(10) ** power if number else Fraction(0), path)

    def _whole(self, number: Fraction, path: str) -> int:
        if number.denominator != 1 or not -(2**63) <= number < 2**63:
            raise DeadError("parse", f"column {path}: ")
        return number.numerator

    def good(self, draw: random.Random) -> Any:
        """Draw a spelling."""
        number = draw.randrange(-5, 100)
        return draw.choice(
            (number, float(number), str(number), f" +{abs(number)}.0 ", "-", "", float("nan"))
        )


class Required(Special):
    """A value that must be there."""

    def __init__(self, dtype: pl.DataType) -> None:
        self.dtype = dtype

    def null(self, path: str) -> Any:
        """Raise DeadError."""
        raise DeadError("parse", f"column {path}")

    def judged(self, value: Any, path: str) -> Any:
        """Return the value."""
        return value_of(value, self.dtype, path)

    def good(self, draw: random.Random) -> Any:
        """Draw a value, rarely null."""
        return good(self.dtype, draw)


class JsonText(Special):
    """A text that holds a JSON object."""

    def __init__(self, **fields: pl.DataType) -> None:
        self.content = Object(**fields)

    def judged(self, value: Any, path: str) -> Any:
        """Return the object, None for an empty text or null."""
        if isinstance(value, Number) or not isinstance(value, str):
            raise DeadError("parse", f"column {path}: ")
        if not value.strip():
            return None
        try:
            document = parsed(value.encode())
            return None if document is None else self.content.judged(document, "x")
        except DeadError:
            raise DeadError("parse", f"column {path}: ") from None

    def good(self, draw: random.Random) -> Any:
        """Draw a text."""
        return json.dumps(self.content.good(draw))


def good(dtype: pl.DataType, draw: random.Random) -> Any:
    """Draw a value of a type; rarely null."""
    if draw.random() < 0.05:
        return None
    if isinstance(dtype, Object | Map | LenientInt | JsonText | Required):
        return dtype.good(draw)
    if isinstance(dtype, pl.List):
        inner = dtype.inner if isinstance(dtype.inner, pl.DataType) else dtype.inner()
        return [good(inner, draw) for _ in range(draw.randrange(4))]
    if dtype == pl.String:
        return draw.choice(("a", "", "\u00e9\U0001f600", "x y"))
    if dtype == pl.Float64:
        return draw.choice((draw.random(), 5, -1e300))
    return draw.randrange(100)
