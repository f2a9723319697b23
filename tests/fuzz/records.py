"""Hostile raw records, drawn from a seed: mostly readable, and wrong in every way a topic can be.

A record is an object of the shape's columns with one or more of these: values of another type or
range, odd but right spellings, members nobody declared or declared twice, damage to its bytes, or
no object at all.  Keys, headers and timestamps are as hostile as values.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import polars as pl

from tests.fuzz.oddities import (
    DRESSES,
    HEADERS,
    INSTANTS,
    KEYS,
    MARKS,
    MEMBERS,
    NO_OBJECT,
    NOTHING,
    VALUES,
    WORDS,
)

BEGIN_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
HUGE_EACH = 20_000
"""One record in this many is a megabyte or more."""


class Raw(NamedTuple):
    """A raw record; ``timestamp_ms`` is -1 where the broker's client knows none."""

    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int
    value: bytes | None


class Records:
    """The raw records of one partition, without end."""

    def __init__(
        self,
        columns: Mapping[str, pl.DataType],
        times: Mapping[str, str],
        seed: str,
        max_bytes: int = 2**20,
    ) -> None:
        """``times``: columns that hold instants, and their unit.  ``max_bytes``: of a value."""
        self._columns, self._times, self._max_bytes = dict(columns), dict(times), max_bytes
        self._draw = random.Random(seed)
        self._now_ms = BEGIN_MS
        self._last = b"{}"

    def __iter__(self) -> Iterator[Raw]:
        """Draw records for ever."""
        while True:
            yield self.next()

    def next(self) -> Raw:
        """Draw the next record."""
        draw = self._draw
        self._now_ms += draw.randrange(100)
        value = self._value()
        if draw.random() < 0.8:
            return Raw(draw.choice((None, b"k", b"p1")), (), self._now_ms, value)
        key = draw.choice(KEYS) if draw.random() < 0.99 else draw.randbytes(draw.randrange(40))
        stamp = draw.choice(
            (-1, 1, self._now_ms - 9 * HOUR_MS, self._now_ms + 9 * HOUR_MS, 2**53, 2**63 - 1)
        )
        return Raw(key, draw.choice(HEADERS), stamp, value)

    def _value(self) -> bytes | None:
        kind = self._draw.random()
        if kind < 0.02:
            return self._draw.choice(NOTHING)
        if kind < 0.05:
            return self._draw.choice(NO_OBJECT)
        value = self._object(odd=0.0 if kind < 0.45 else 0.25)
        if kind > 0.8:
            value = self._damaged(value)
        elif kind > 0.75:
            value = self._dressed(value)
        if self._draw.randrange(HUGE_EACH) == 0:
            value = self._huge(value)
        self._last = value
        return value

    def _object(self, odd: float) -> bytes:
        draw = self._draw
        members = [
            b'"%s":%s' % (self._name(name, odd), self._member(name, dtype, odd))
            for name, dtype in self._columns.items()
            if draw.random() > odd / 2
        ]
        if odd:
            draw.shuffle(members)
            if members and draw.random() < 0.1:
                members.append(draw.choice(members))
            if draw.random() < 0.1:
                members.insert(draw.randrange(len(members) + 1), draw.choice(MEMBERS))
        space = draw.choice((b",", b", ", b" ,\r\n\t")) if odd else b","
        return b"{" + space.join(members) + b"}"

    def _name(self, name: str, odd: float) -> bytes:
        if odd and self._draw.random() < 0.02:
            escaped = f"\\u{ord(name[0]):04x}{name[1:]}"
            return self._draw.choice((escaped, name.upper(), f"{name} ", name)).encode()
        return name.encode()

    def _member(self, name: str, dtype: pl.DataType, odd: float) -> bytes:
        if odd and self._draw.random() < odd:
            if name in self._times and self._draw.random() < 0.7:
                return self._odd_time(self._times[name])
            return self._draw.choice(VALUES)
        if name in self._times:
            jitter_ms = self._draw.choice((0, 0, -500, -5_000, -HOUR_MS, 700))
            return spelled(self._now_ms + jitter_ms, self._times[name])
        return self._good(dtype)

    def _good(self, dtype: pl.DataType) -> bytes:
        draw = self._draw
        if draw.random() < 0.05:
            return b"null"
        if (special := getattr(dtype, "good", None)) is not None:
            return json.dumps(special(draw), ensure_ascii=draw.random() < 0.5).encode()
        if isinstance(dtype, pl.List):
            items = (self._good(_instance(dtype.inner)) for _ in range(draw.randrange(4)))
            return b"[" + b",".join(items) + b"]"
        if isinstance(dtype, pl.Struct):
            fields = (
                b'"%s":%s' % (f.name.encode(), self._good(_instance(f.dtype))) for f in dtype.fields
            )
            return b"{" + b",".join(fields) + b"}"
        if dtype == pl.String:
            return f'"{draw.choice(WORDS)}"'.encode()
        if dtype == pl.Boolean:
            return draw.choice((b"true", b"false"))
        if dtype == pl.Float64:
            return repr(draw.choice((draw.random(), draw.uniform(-1e300, 1e300), 5))).encode()
        return str(draw.randrange(128)).encode()

    def _odd_time(self, unit: str) -> bytes:
        draw = self._draw
        if unit == "iso8601":
            return f'"{draw.choice(INSTANTS)}"'.encode()
        other = draw.choice(("s", "ms", "us", "ns"))
        at_ms = draw.choice((
            *(self._now_ms, self._now_ms + 2 * HOUR_MS, self._now_ms + HOUR_MS, -1, 0, 1, 999),
            *(-self._now_ms, 946_684_800_000, 946_684_799_999, 253_402_300_799_999),
            *(253_402_300_800_000, -62_135_596_800_000, -62_135_596_800_001),
            *(253_402_297_199_999, 253_402_297_200_000, -62_135_593_200_000),
            *(2**63 - 1, -(2**63), 9_223_372_036_854),
        ))  # fmt: skip
        return spelled(at_ms, other if draw.random() < 0.3 else unit)

    def _dressed(self, value: bytes) -> bytes:
        """Put around a record what producers put there, right and wrong."""
        dress = self._draw.choice(DRESSES)
        return dress % ((value,) * dress.count(b"%s"))

    def _damaged(self, value: bytes) -> bytes:
        """Change a few bytes as a broken producer, disk or tool would."""
        for _ in range(self._draw.choice((1, 1, 1, 2, 5))):
            value = self._hurt(value, self._draw.randrange(len(value) + 1))
        return value

    def _hurt(self, value: bytes, at: int) -> bytes:
        draw = self._draw
        end = at + draw.choice((1, 1, 2, 3, 8, 50))
        before, hit, after = value[:at], value[at:end], value[end:]
        flipped = bytes(byte ^ 1 << draw.randrange(8) for byte in hit)
        return draw.choice(
            (
                before,
                before + after,
                before + hit + hit + after,
                before + draw.randbytes(len(hit)) + after,
                before + draw.choice(VALUES) + hit + after,
                before + draw.choice(MARKS) + hit + after,
                before + flipped + after,
                before + self._last[at:],
            )
        )

    def _huge(self, value: bytes) -> bytes:
        """Make a record of a megabyte or more, up to what the topic takes."""
        room = self._draw.choice((2**20, 2**20, self._max_bytes)) - len(value) - 100
        filler = self._draw.choice([*_fillers(room), *self._huge_columns(room)])
        joint = b"," if value.startswith(b"{") and value[1:2] != b"}" else b""
        return b"{" + filler + joint + value[1:]

    def _huge_columns(self, room: int) -> Sequence[bytes]:
        texts = [n.encode() for n, dtype in self._columns.items() if dtype == pl.String]
        lists = [n.encode() for n, dtype in self._columns.items() if isinstance(dtype, pl.List)]
        words = (b"z" * room, b"z," * (room // 2), b"\\u0001" * (room // 6))
        return [
            *(b'"%s":"%s"' % (name, self._draw.choice(words)) for name in texts),
            *(b'"%s":[%snull]' % (name, b"null," * (min(room, 2**20) // 5)) for name in lists),
        ]


def _fillers(room: int) -> Sequence[bytes]:
    """Return members of ``room`` bytes that no column has."""
    half = room // 2
    return (
        *(b'"o":"%s"' % (b"z" * room), b'"o":"%s"' % ("é" * half).encode(), b'"o":' + b"9" * room),
        *(b'"o":[%s0]' % (b"0," * half), b'"o":[%s0]' % (b"[]," * (room // 3))),
        *(b'"o":%s' % (b"[" * half + b"]" * half), b'"%s":0' % (b"n" * room)),
    )


def spelled(ms: int, unit: str) -> bytes:
    """Return an instant as JSON of a unit."""
    if unit == "iso8601":
        instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
        return f'"{instant.isoformat(timespec="milliseconds")}"'.encode()
    if unit == "text ms":
        return b'"%d"' % ms
    if unit == "float s":
        return repr(ms / 1000).encode()
    factor, divisor = {"s": (1, 1000), "ms": (1, 1), "us": (1_000, 1), "ns": (1_000_000, 1)}[unit]
    return str(ms * factor // divisor).encode()


def _instance(dtype: object) -> pl.DataType:
    return dtype if isinstance(dtype, pl.DataType) else dtype()  # type: ignore[operator]
