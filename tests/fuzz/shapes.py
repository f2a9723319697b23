"""Sources of every kind under one pipeline, each with its rules as the judge applies them.

Between them: all column types, lists and structs, every unit of event time, event time from an
expression, the record and ingest's clock, every watermark, min_time, max_future, keys and headers
of records, keys of one and of several columns, and operators that filter, raise, and multiply.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl

from tests.fuzz.judge import MAX_RECORD_BYTES, DeadError, Rules, Values, size_bytes
from tests.fuzz.records import Raw
from tidemark import (
    INGEST_TIME,
    RECORD_TIME,
    Pipeline,
    bounded,
    col,
    count,
    from_expression,
    monotonic,
    punctuated,
    tumbling,
)
from tidemark.language.stream import Stream

Columns = Mapping[str, pl.DataType]
Rows = Sequence[tuple[Any, ...]]

HOUR_MS = 3_600_000
RECEIVED_MS = 1_700_000_500_000
"""What ingest's clock shows all along, where a test holds it."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ISO = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?"
    r"(?:([Zz])|([+-])([0-9]{2})(?::?([0-9]{2}))?)?"
)
_INTEGER = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True)
class Shape:
    """A raw topic: how its pipeline reads it, what its columns are, and what must come out."""

    name: str
    times: Mapping[str, str]
    stream: Callable[[Pipeline, str], Stream]
    key: tuple[str, ...]
    rules: Rules


def _text_ms(text: str | None, zone: str | None) -> int | None:
    """Return the instant that an ISO 8601 text names."""
    found = None if text is None else _ISO.fullmatch(text)
    if found is None:
        return None
    day, minute, second, fraction, utc, sign, hours, minutes = found.groups()
    try:
        local = datetime.fromisoformat(f"{day}T{minute}:{second or '00'}")
    except ValueError:
        return None
    ms = (local - datetime(1970, 1, 1)) // timedelta(milliseconds=1)  # noqa: DTZ001
    ms += int((fraction or "").ljust(3, "0")[:3])
    if utc:
        return ms
    if sign:
        if int(hours) > 23 or int(minutes or 0) > 59:
            return None
        ahead_ms = (int(hours) * 60 + int(minutes or 0)) * 60_000
        return ms + ahead_ms if sign == "-" else ms - ahead_ms
    return None if zone is None else _local_ms(local, ms, ZoneInfo(zone))


def _local_ms(local: datetime, ms: int, zone: ZoneInfo) -> int | None:
    """Return the one instant at which clocks of the zone show ``local``."""
    offsets = {local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1)}
    instants = {local - offset for offset in offsets if offset is not None}
    if len(instants) != 1 or None in offsets:
        return None
    (offset,) = (each for each in offsets if each is not None)
    shown = (local - offset).replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None)
    return ms - offset // timedelta(milliseconds=1) if shown == local else None


def _float_ms(seconds: float | None) -> int | None:
    """Return seconds read to the microsecond, floored to ms."""
    return None if seconds is None else round(Fraction(seconds) * 10**6) // 1000


def _wrapped(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def _key_text(raw: Raw) -> str | None:
    try:
        return None if raw.key is None else raw.key.decode()
    except UnicodeDecodeError:
        raise DeadError("_key", "_key is not UTF-8") from None


def _require_headers(raw: Raw) -> int:
    try:
        return len([None if value is None else value.decode() for _, value in raw.headers])
    except UnicodeDecodeError:
        raise DeadError("_headers", "_headers is not UTF-8") from None


def _require_key(*key: object) -> None:
    if None in key:
        raise DeadError("key_by", "null key")


def _integer(text: str | None) -> int | None:
    """Return what a strict cast to Int64 makes of a text."""
    if text is None:
        return None
    if not _INTEGER.fullmatch(text) or not -(2**63) <= int(text) < 2**63:
        raise ValueError(text)
    return int(text)


def _all(values: Values, _raw: Raw | None = None, _offset: int = 0) -> Rows:
    return [tuple(values.values())]


def _typed(pipeline: Pipeline, topic: str, columns: Columns, **options: Any) -> Stream:
    """Return a source with columns that Python types cannot name."""
    python = {"player": str, "at": int, "seconds": float}
    named = {name: kind for name, kind in python.items() if name in columns}
    source = pipeline.source(topic, schema=named, **options)
    node = replace(source.node, columns=columns)
    source.dataflow.sources[-1] = node
    return Stream(source.dataflow, node)


SCALARS: Columns = {
    "player": pl.String(),
    "at": pl.Int64(),
    "x": pl.Float64(),
    "ok": pl.Boolean(),
    "i32": pl.Int32(),
    "i16": pl.Int16(),
    "i8": pl.Int8(),
    "u32": pl.UInt32(),
    "u16": pl.UInt16(),
    "u8": pl.UInt8(),
}


def _scalars(pipeline: Pipeline, topic: str) -> Stream:
    source = _typed(
        *(pipeline, topic, SCALARS),
        event_time="at",
        watermark=bounded("2s"),
        min_time="2000-01-01T00:00:00Z",
        max_future="1h",
    )
    return source.filter(col("ok").is_null() | col("ok"))


def _scalar_rows(values: Values, _raw: Raw, _offset: int) -> Rows:
    if values["ok"] is False:
        return []
    _require_key(values["player"])
    return _all(values)


NESTED: Columns = {
    "player": pl.String(),
    "seconds": pl.Float64(),
    "tags": pl.List(pl.String()),
    "grid": pl.List(pl.List(pl.Int64())),
    "deep": pl.Struct(
        {"a": pl.Int8(), "items": pl.List(pl.Struct({"q": pl.Float64(), "s": pl.String()}))}
    ),
}


def _nested(pipeline: Pipeline, topic: str) -> Stream:
    source = _typed(pipeline, topic, NESTED, event_time="seconds", unit="s", watermark=monotonic())
    return source.explode("tags")


def _nested_rows(values: Values, _raw: Raw, _offset: int) -> Rows:
    tags = values["tags"]
    others = size_bytes([value for name, value in values.items() if name != "tags"])
    if others * len(tags or ()) + size_bytes(tags) > MAX_RECORD_BYTES:
        raise DeadError("explode", "rows of")
    if tags:
        _require_key(values["player"])
    return [tuple({**values, "tags": tag}.values()) for tag in tags or ()]


ISO_COLUMNS: Columns = {"at": pl.String(), "who": pl.String()}


def _iso(pipeline: Pipeline, topic: str) -> Stream:
    source = pipeline.source(
        topic,
        schema={"at": str, "who": str},
        event_time="at",
        unit="iso8601",
        watermark=bounded("1m"),
    )
    return source.with_columns(who=col("who").fill_null(col("_key")))


def _iso_rows(values: Values, raw: Raw, _offset: int) -> Rows:
    key = _key_text(raw)
    who = key if values["who"] is None else values["who"]
    _require_key(who)
    return [(values["at"], who)]


LOCAL: Columns = {"at": pl.String(), "done": pl.Boolean(), "n": pl.Int64(), "s": pl.String()}


def _local(pipeline: Pipeline, topic: str) -> Stream:
    return pipeline.source(
        topic,
        schema={"at": str, "done": bool, "n": int, "s": str},
        event_time="at",
        unit="iso8601",
        zone="Europe/Berlin",
        watermark=punctuated(when=col("done")),
        max_future="1h",
    )


def _local_rows(values: Values, _raw: Raw, _offset: int) -> Rows:
    _require_key(values["n"], values["s"])
    return _all(values)


MICROS: Columns = {"at": pl.Int64(), "complete": pl.Int64(), "n": pl.Int64()}


def _micros(pipeline: Pipeline, topic: str) -> Stream:
    return pipeline.source(
        topic,
        schema={"at": int, "complete": int, "n": int},
        event_time="at",
        unit="us",
        watermark=from_expression(col("complete")),
        min_time="1990-01-01T00:00:00Z",
        max_future="1h",
    )


def _number_rows(values: Values, _raw: Raw, _offset: int) -> Rows:
    _require_key(values["n"])
    return _all(values)


NANOS: Columns = {"at": pl.Int64(), "mark": pl.String(), "n": pl.Int64()}


def _nanos(pipeline: Pipeline, topic: str) -> Stream:
    return pipeline.source(
        topic,
        schema={"at": int, "mark": str, "n": int},
        event_time="at",
        unit="ns",
        watermark=from_expression(col("mark").cast(pl.Int64)),
    )


def _mark(values: Values, _raw: Raw, _at_ms: int | None) -> int | None:
    try:
        return _integer(values["mark"])
    except ValueError:
        raise DeadError("watermark") from None


RECORD: Columns = {"n": pl.Int64()}


def _record(pipeline: Pipeline, topic: str) -> Stream:
    source = pipeline.source(
        topic, schema={"n": int}, event_time=RECORD_TIME, watermark=monotonic()
    )
    return source.with_columns(
        *(col("_key").alias("k"), col("_headers").list.len().cast(pl.Int64).alias("h")),
        *(col("_timestamp").alias("ts"), col("_offset").alias("o")),
    )


def _record_rows(values: Values, raw: Raw, offset: int) -> Rows:
    key, headers = _key_text(raw), _require_headers(raw)
    _require_key(key)
    return [(values["n"], key, headers, raw.timestamp_ms, offset)]


CLOCK: Columns = {"n": pl.Int64(), "text": pl.String()}


def _clock(pipeline: Pipeline, topic: str) -> Stream:
    source = pipeline.source(
        topic, schema={"n": int, "text": str}, event_time=INGEST_TIME, watermark=monotonic()
    )
    return source.with_columns(m=col("text").cast(pl.Int64)).filter(col("n") > 9)


def _clock_rows(values: Values, _raw: Raw, _offset: int) -> Rows:
    try:
        made = _integer(values["text"])
    except ValueError:
        raise DeadError("with_columns") from None
    return [(*values.values(), made)] if values["n"] is not None and values["n"] > 9 else []


SUMS: Columns = {"sec": pl.Int64(), "milli": pl.Int64(), "n": pl.Int64()}


def _sums(pipeline: Pipeline, topic: str) -> Stream:
    return pipeline.source(
        topic,
        schema={"sec": int, "milli": int, "n": int},
        event_time=col("sec") * 1000 + col("milli"),
        watermark=bounded("5s"),
        max_future="1h",
    )


def _sum_ms(values: Values, _raw: Raw) -> int | None:
    if None in (values["sec"], values["milli"]):
        return None
    return _wrapped(values["sec"] * 1000 + values["milli"])


WORDS: Columns = {"at": pl.Int64(), "text": pl.String()}


def _split(row: Values) -> list[Values]:
    """Make a row of each word; "boom" and a text that is null raise."""
    words = row["text"].split(",")
    if "boom" in words:
        raise ValueError("boom")
    return [{"word": word, "size": len(word)} for word in words if word]


def _words(pipeline: Pipeline, topic: str) -> Stream:
    source = pipeline.source(
        topic, schema={"at": int, "text": str}, event_time="at", unit="s", watermark=monotonic()
    )
    return source.flat_map(_split, {"word": str, "size": int})


def _word_rows(values: Values, _raw: Raw, _offset: int) -> Rows:
    try:
        return [(made["word"], made["size"]) for made in _split(values)]
    except (ValueError, AttributeError):
        raise DeadError("flat_map") from None


def _column_ms(factor: int, divisor: int) -> Callable[[Values, Raw], int | None]:
    return lambda values, _: None if values["at"] is None else values["at"] * factor // divisor


SHAPES: tuple[Shape, ...] = (
    Shape(
        *("scalars", {"at": "ms"}, _scalars, ("player",)),
        Rules(
            *(SCALARS, ("at",), _column_ms(1, 1), _scalar_rows),
            delay_ms=2_000,
            min_ms=946_684_800_000,
            max_future_ms=HOUR_MS,
        ),
    ),
    Shape(
        *("nested", {"seconds": "float s"}, _nested, ("player",)),
        Rules(NESTED, ("seconds",), lambda values, _: _float_ms(values["seconds"]), _nested_rows),
    ),
    Shape(
        *("iso", {"at": "iso8601"}, _iso, ("who",)),
        Rules(
            *(ISO_COLUMNS, ("at",), lambda values, _: _text_ms(values["at"], None), _iso_rows),
            delay_ms=60_000,
        ),
    ),
    Shape(
        *("local", {"at": "iso8601"}, _local, ("n", "s")),
        Rules(
            *(LOCAL, ("at", "done"), lambda values, _: _text_ms(values["at"], "Europe/Berlin")),
            *(_local_rows, lambda values, _, at_ms: at_ms if values["done"] else None),
            max_future_ms=HOUR_MS,
        ),
    ),
    Shape(
        *("micros", {"at": "us", "complete": "ms"}, _micros, ("n",)),
        Rules(
            *(MICROS, ("at", "complete"), _column_ms(1, 1_000), _number_rows),
            candidate=lambda values, _raw, _at_ms: values["complete"],
            min_ms=631_152_000_000,
            max_future_ms=HOUR_MS,
        ),
    ),
    Shape(
        *("nanos", {"at": "ns", "mark": "text ms"}, _nanos, ("n",)),
        Rules(*(NANOS, ("at", "mark"), _column_ms(1, 1_000_000), _number_rows), candidate=_mark),
    ),
    Shape(
        *("record", {}, _record, ("k",)),
        Rules(
            *(RECORD, (), lambda _, raw: raw.timestamp_ms if raw.timestamp_ms >= 0 else None),
            _record_rows,
        ),
    ),
    Shape(
        *("clock", {}, _clock, ("n",)),
        Rules(CLOCK, (), lambda _values, _raw: RECEIVED_MS, _clock_rows),
    ),
    Shape(
        *("sums", {"sec": "s"}, _sums, ("n",)),
        Rules(
            *(SUMS, ("sec", "milli"), _sum_ms, _number_rows), delay_ms=5_000, max_future_ms=HOUR_MS
        ),
    ),
    Shape(
        *("words", {"at": "s"}, _words, ("word",)),
        Rules(WORDS, ("at",), _column_ms(1_000, 1), _word_rows),
    ),
)


def build(name: str, partitions: int = 2) -> Pipeline:
    """Return a pipeline that reads every shape, from topics ``NAME-SHAPE``."""
    pipeline = Pipeline(name, partitions=partitions)
    for shape in SHAPES:
        keyed = shape.stream(pipeline, f"{name}-{shape.name}").key_by(*shape.key)
        keyed.window(tumbling("1h")).aggregate(count=count()).to(shape.name)
    return pipeline


pipeline = build(os.environ.get("TEST_PIPELINE", "fuzz"))
