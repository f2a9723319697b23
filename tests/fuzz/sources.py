"""The source of each shape: its columns, how a pipeline reads it, and what rows it gives."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from tests.fuzz.documents import MAX_RECORD_BYTES, DeadError, Values, conform, size_bytes
from tests.fuzz.records import Raw
from tests.fuzz.special import JsonText, LenientInt, Map, Object, Required
from tidemark import (
    INGEST_TIME,
    RECORD_TIME,
    Pipeline,
    bounded,
    col,
    field,
    from_expression,
    monotonic,
    punctuated,
)
from tidemark.core.rows.schema import Schema
from tidemark.language.stream import Stream

Columns = Mapping[str, pl.DataType]
Rows = Sequence[tuple[Any, ...]]

_INTEGER = re.compile(r"[+-]?[0-9]+")


def _wrapped(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def _key_text(raw: Raw) -> str | None:
    try:
        return None if raw.key is None else raw.key.decode()
    except UnicodeDecodeError:
        raise DeadError("_key", "_key is not UTF-8") from None


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
    assert source.node.source is not None
    typed = replace(source.node.source, schema=Schema.of(columns))
    node = replace(source.node, columns=columns, source=typed)
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


def scalars(pipeline: Pipeline, topic: str) -> Stream:
    source = _typed(
        *(pipeline, topic, SCALARS),
        event_time="at",
        watermark=bounded("2s"),
        min_time="2000-01-01T00:00:00Z",
        max_future="1h",
    )
    return source.filter(col("ok").is_null() | col("ok"))


def scalar_rows(values: Values, _raw: Raw, _offset: int) -> Rows:
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


def nested(pipeline: Pipeline, topic: str) -> Stream:
    source = _typed(pipeline, topic, NESTED, event_time="seconds", unit="s", watermark=monotonic())
    return source.explode("tags")


def nested_rows(values: Values, _raw: Raw, _offset: int) -> Rows:
    tags = values["tags"]
    others = size_bytes([value for name, value in values.items() if name != "tags"])
    if others * len(tags or ()) + size_bytes(tags) > MAX_RECORD_BYTES:
        raise DeadError("explode", "rows of")
    if tags:
        _require_key(values["player"])
    return [tuple({**values, "tags": tag}.values()) for tag in tags or ()]


RECORDS: Columns = {
    "@at": pl.Int64(),
    "user": Object(id=pl.String(), n=LenientInt()),
    "items": pl.List(pl.Struct({"q": pl.Float64(), "s": pl.String()})),
    "m": Map(pl.Int64()),
    "text": JsonText(a=pl.Int64(), b=pl.List(pl.String())),
    "details": Required(Object(price=Required(pl.Float64()), a=Object(b=LenientInt()))),
}
"""The records that ``paths`` reads, with members as they are there."""

PATHS = ("at", "user", "who", "items", "m", "text", "price", "deep")


def paths(pipeline: Pipeline, topic: str) -> Stream:
    return pipeline.source(
        topic,
        schema={
            "at": field("@at", int),
            "user": {"count": field("n", int, lenient=True), "id": str},
            "who": field("user.id", str, default="?"),
            "items": [{"q": float, "s": str}],
            "m": dict[str, int],
            "text": field("text", {"a": int, "b": list[str]}, json=True),
            "price": field("details.price", float, optional=False),
            "deep": field(["details", "a", "b"], int, lenient=True, default=-1),
        },
        event_time="at",
        watermark=bounded("2s"),
    )


def path_values(document: Any, names: Sequence[str]) -> Values:
    """Return columns of a record of RECORDS, each member of which must fit where it is read."""
    if tuple(names) == ("at",):
        return {"at": conform(document, {"@at": RECORDS["@at"]})["@at"]}
    found = conform(document, RECORDS)
    user, inner = found["user"], found["details"]["a"]
    who = None if user is None else user["id"]
    deep = None if inner is None else inner["b"]
    return {
        "at": found["@at"],
        "user": None if user is None else {"count": user["n"], "id": user["id"]},
        "who": "?" if who is None else who,
        "items": found["items"],
        "m": found["m"],
        "text": found["text"],
        "price": found["details"]["price"],
        "deep": -1 if deep is None else deep,
    }


def path_rows(values: Values, _raw: Raw, _offset: int) -> Rows:
    return _all(values)


ISO_COLUMNS: Columns = {"at": pl.String(), "who": pl.String()}


def iso(pipeline: Pipeline, topic: str) -> Stream:
    source = pipeline.source(
        topic,
        schema={"at": str, "who": str},
        event_time="at",
        unit="iso8601",
        watermark=bounded("1m"),
    )
    return source.with_columns(who=col("who").fill_null(col("_key")))


def iso_rows(values: Values, raw: Raw, _offset: int) -> Rows:
    key = _key_text(raw)
    who = key if values["who"] is None else values["who"]
    _require_key(who)
    return [(values["at"], who)]


LOCAL: Columns = {"at": pl.String(), "done": pl.Boolean(), "n": pl.Int64(), "s": pl.String()}


def local(pipeline: Pipeline, topic: str) -> Stream:
    return pipeline.source(
        topic,
        schema={"at": str, "done": bool, "n": int, "s": str},
        event_time="at",
        unit="iso8601",
        zone="Europe/Berlin",
        watermark=punctuated(when=col("done")),
        max_future="1h",
    )


def local_rows(values: Values, _raw: Raw, _offset: int) -> Rows:
    _require_key(values["n"], values["s"])
    return _all(values)


MICROS: Columns = {"at": pl.Int64(), "complete": pl.Int64(), "n": pl.Int64()}


def micros(pipeline: Pipeline, topic: str) -> Stream:
    return pipeline.source(
        topic,
        schema={"at": int, "complete": int, "n": int},
        event_time="at",
        unit="us",
        watermark=from_expression(col("complete")),
        min_time="1990-01-01T00:00:00Z",
        max_future="1h",
    )


def number_rows(values: Values, _raw: Raw, _offset: int) -> Rows:
    _require_key(values["n"])
    return _all(values)


NANOS: Columns = {"at": pl.Int64(), "mark": pl.String(), "n": pl.Int64()}


def nanos(pipeline: Pipeline, topic: str) -> Stream:
    return pipeline.source(
        topic,
        schema={"at": int, "mark": str, "n": int},
        event_time="at",
        unit="ns",
        watermark=from_expression(col("mark").cast(pl.Int64)),
    )


def mark(values: Values, _raw: Raw, _at_ms: int | None) -> int | None:
    try:
        return _integer(values["mark"])
    except ValueError:
        raise DeadError("watermark") from None


RECORD: Columns = {"n": pl.Int64()}


def record(pipeline: Pipeline, topic: str) -> Stream:
    source = pipeline.source(
        topic, schema={"n": int}, event_time=RECORD_TIME, watermark=monotonic()
    )
    return source.with_columns(
        *(col("_key").alias("k"), col("_headers").list.len().cast(pl.Int64).alias("h")),
        *(col("_timestamp").alias("ts"), col("_offset").alias("o")),
    )


def record_rows(values: Values, raw: Raw, offset: int) -> Rows:
    key = _key_text(raw)
    _require_key(key)
    return [(values["n"], key, len(raw.headers), raw.timestamp_ms, offset)]


CLOCK: Columns = {"n": pl.Int64(), "text": pl.String()}


def clock(pipeline: Pipeline, topic: str) -> Stream:
    source = pipeline.source(
        topic, schema={"n": int, "text": str}, event_time=INGEST_TIME, watermark=monotonic()
    )
    return source.with_columns(m=col("text").cast(pl.Int64)).filter(col("n") > 9)


def clock_rows(values: Values, _raw: Raw, _offset: int) -> Rows:
    try:
        made = _integer(values["text"])
    except ValueError:
        raise DeadError("with_columns") from None
    return [(*values.values(), made)] if values["n"] is not None and values["n"] > 9 else []


SUMS: Columns = {"sec": pl.Int64(), "milli": pl.Int64(), "n": pl.Int64()}


def sums(pipeline: Pipeline, topic: str) -> Stream:
    return pipeline.source(
        topic,
        schema={"sec": int, "milli": int, "n": int},
        event_time=col("sec") * 1000 + col("milli"),
        watermark=bounded("5s"),
        max_future="1h",
    )


def sum_ms(values: Values, _raw: Raw) -> int | None:
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


def words(pipeline: Pipeline, topic: str) -> Stream:
    source = pipeline.source(
        topic, schema={"at": int, "text": str}, event_time="at", unit="s", watermark=monotonic()
    )
    return source.flat_map(_split, {"word": str, "size": int})


def word_rows(values: Values, _raw: Raw, _offset: int) -> Rows:
    try:
        return [(made["word"], made["size"]) for made in _split(values)]
    except (ValueError, AttributeError):
        raise DeadError("flat_map") from None


def column_ms(factor: int, divisor: int) -> Callable[[Values, Raw], int | None]:
    return lambda values, _: None if values["at"] is None else values["at"] * factor // divisor
