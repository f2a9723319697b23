"""Options of a source about time and lists, checked in the call that passes them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

import polars as pl

from tidemark.core.rows.expression import (
    as_written,
    expression_text,
    output_types,
    require_column,
    require_expression,
)
from tidemark.core.rows.nested import Path, nested_type, path_of
from tidemark.core.rows.options import require_zone
from tidemark.core.rows.probe import require_row_wise
from tidemark.core.rows.schema import (
    INSTANT,
    Field,
    Kind,
    ListOf,
    MapOf,
    Schema,
    StructOf,
    TimeValue,
)
from tidemark.core.time.assigners import (
    ColumnTime,
    EventTime,
    ExpressionTime,
    IngestTime,
    RecordTime,
)
from tidemark.core.time.column_times import column_times
from tidemark.core.time.raw_topics import pattern_name
from tidemark.core.time.time_units import AUTO, EPOCH, is_text_unit, require_units
from tidemark.core.time.watermark import Bounded, FromExpression, Punctuated, Watermark
from tidemark.errors import PipelineError
from tidemark.plan.names import require_topic
from tidemark.serde.formats.source_format import (
    BytesFormat,
    CsvFormat,
    ExplodedFormat,
    SourceFormat,
    TextFormat,
)

Columns = Mapping[str, pl.DataType]

_AUTO_READS = {
    pl.String: "; unit 'auto' reads texts in most forms",
    pl.Float64: "; unit 'auto' reads floats of seconds, ms and us",
}

WhenSilent: TypeAlias = Literal["advance", "wait"]


def raw_topics(topic: object, pattern: object) -> tuple[str, ...]:
    """Return the topics of a source: one name, several, or a pattern (core/time/raw_topics.py).

    Raises:
        PipelineError: none of them is given, or both, or one is not legal.
    """
    if (topic is None) == (pattern is None):
        raise PipelineError(
            "source(topic): give a topic, a list of topics, or topics= with a regular expression"
        )
    if pattern is not None:
        return (pattern_name(_pattern(pattern)),)
    if isinstance(topic, str) or not isinstance(topic, Sequence):
        return (require_topic(topic, "source(topic)"),)
    names = tuple(require_topic(name, "source(topic)") for name in topic)
    if not names or len(set(names)) < len(names):
        what = "names a topic twice" if names else "names no topic"
        raise PipelineError(f"source({as_written(topic)}): the list {what}")
    return names


def _pattern(pattern: object) -> str:
    what = f"source(topics={as_written(pattern)})"
    if not isinstance(pattern, str) or not pattern:
        raise PipelineError(
            f"{what}: not a regular expression; a list of topics is the first argument"
        )
    try:
        re.compile(pattern)
    except re.error as error:
        raise PipelineError(f"{what}: not a regular expression: {error}") from None
    return pattern


def assigner(
    event_time: object, unit: str | Sequence[str], zone: str | None, columns: Schema, what: str
) -> EventTime:
    """Return the event-time assigner that the options of a source describe.

    ``what`` names the source in errors, here and below.

    Raises:
        PipelineError: an option is not valid, or does not fit the column's type.
    """
    if isinstance(event_time, RecordTime | IngestTime | pl.Expr):
        if unit != "ms" or zone is not None:
            raise PipelineError(
                f"{what}: unit {unit!r} and zone {zone!r} apply to a column's event time only"
            )
        if not isinstance(event_time, pl.Expr):
            return event_time
        _require_time(event_time, columns, f"{what}: event_time")
        return ExpressionTime(event_time)
    place = f"{what}: event_time"
    if not isinstance(event_time, str):
        raise PipelineError(f"{place}: {event_time!r} is not a column name")
    path = path_of(event_time, place)
    require_column(path[0], columns, place)
    units = tuple(unit) if isinstance(unit, list | tuple) else (unit,)
    require_units(units, what)
    if zone is not None:
        require_zone(zone, what)
    dtype = nested_type(path, columns, place)
    if dtype == INSTANT and (unit, zone) != ("ms", None):
        raise PipelineError(
            f"{what}: event_time column {event_time!r} is a datetime; say how it is read in the "
            f"schema: field({path[-1]!r}, datetime, unit={unit!r}, zone={zone!r})"
        )
    if dtype == INSTANT:
        kind = columns.kind_at(path)
        assert isinstance(kind, TimeValue)
        units, zone = kind.units, kind.zone
    else:
        _require_type(event_time, units, dtype, what)
    return ColumnTime(event_time, units if len(units) > 1 else units[0], zone)


def require_watermark(watermark: Watermark, columns: Columns, what: str) -> None:
    """Raise PipelineError if ``watermark`` is not a watermark over the columns of a source."""
    if isinstance(watermark, Punctuated):
        name = f"{what}: watermark punctuated()"
        dtype = _one(watermark.when, columns, name)
        if dtype != pl.Boolean:
            text = expression_text(watermark.when)
            raise PipelineError(f"{name}: {text} gives {dtype}, not Boolean")
    elif isinstance(watermark, FromExpression):
        _require_time(watermark.candidate, columns, f"{what}: watermark from_expression()")
    elif not isinstance(watermark, Bounded):
        raise PipelineError(
            f"{what}: watermark {as_written(watermark)} is not a watermark; use bounded('2s'), "
            "monotonic(), punctuated() or from_expression()"
        )


def instant_ms(value: object, what: str) -> int:
    """Return the ms of an instant: ISO 8601 text or a datetime, with an offset.

    Raises:
        PipelineError: ``value`` is not such an instant.
    """
    text = value.isoformat() if isinstance(value, datetime) else value
    if isinstance(text, str):
        times = column_times(ColumnTime("", "iso8601"), pl.Series([text]))
        if times.known[0]:
            return int(times.ms[0])
    raise PipelineError(f"{what}: {value!r} is not an instant such as '2000-01-01T00:00:00Z'")


def clock_waits(when_silent: WhenSilent, what: str) -> bool:
    """Return whether the clock stands still while all sources are silent."""
    if when_silent not in ("advance", "wait"):
        raise PipelineError(f"{what}: when_silent {when_silent!r} is not 'advance' or 'wait'")
    return when_silent == "wait"


def _require_type(column: str, units: Sequence[str], dtype: pl.DataType, what: str) -> None:
    """Raise PipelineError if a unit does not read columns of a type."""
    for unit in units:
        needed = _types(unit)
        if dtype not in needed:
            raise PipelineError(
                f"{what}: event_time column {column!r} is {dtype}, but unit {unit!r} needs "
                f"{' or '.join(map(str, needed))}{_AUTO_READS.get(type(dtype), '')}"
            )


def _types(unit: str) -> tuple[pl.DataType, ...]:
    if unit in (AUTO, EPOCH):
        return pl.String(), pl.Int64(), pl.Float64()
    if is_text_unit(unit):
        return (pl.String(),)
    return (pl.Int64(), pl.Float64()) if unit == "s" else (pl.Int64(),)


def _require_time(expression: pl.Expr, columns: Columns, what: str) -> None:
    dtype = _one(expression, columns, what)
    if dtype == pl.Int64 or (isinstance(dtype, pl.Datetime) and dtype.time_zone is not None):
        return
    raise PipelineError(
        f"{what}: {expression_text(expression)} gives {dtype}, not Int64 (ms) or a Datetime with "
        "a zone"
    )


def _one(expression: object, columns: Columns, what: str) -> pl.DataType:
    """Return the type of an expression; raise PipelineError if it is not one row-wise column."""
    used = require_expression(expression, what)
    if used.meta.has_multiple_outputs():
        raise PipelineError(f"{what}: {expression_text(used)} does not name its columns")
    (dtype,) = output_types([used], columns, what).values()
    require_row_wise(used, columns, what)
    return dtype


def exploded(
    format_: SourceFormat, explode: str | Sequence[str] | None, schema: Schema, what: str
) -> SourceFormat:
    """Return the format of a source whose records hold a list of rows; ``what`` names the source.

    Raises:
        PipelineError: the path is not one, the format has no lists, or a column does not fit.
    """
    if explode is None:
        return format_
    path = path_of(explode, f"{what}: explode")
    if isinstance(format_, CsvFormat | TextFormat | BytesFormat):
        raise PipelineError(
            f"{what}: explode={explode!r}: records of format {format_} hold no lists; use "
            "explode() of the stream with a column that is a list"
        )
    for place, column, kind in _kinds(schema.fields):
        on_way = len(place) < len(path) and place == path[: len(place)]
        if on_way and not isinstance(kind, StructOf):
            raise PipelineError(
                f"{what}: explode={explode!r}: column {column!r} reads {'.'.join(place)!r} as "
                f"{kind}, but it must be a dict of members, because the list is in it"
            )
        if place == path and isinstance(kind, ListOf) and isinstance(kind.item, StructOf | MapOf):
            raise PipelineError(
                f"{what}: explode={explode!r}: column {column!r} is a list of objects, but each "
                "row has one item of the list: write the type of the item"
            )
    return ExplodedFormat(format_, path)


def _kinds(fields: Sequence[Field], at: Path = ()) -> Iterator[tuple[Path, str, Kind]]:
    """Yield what is read: its place in the record, its column or member, and its kind."""
    for each in fields:
        place = (*at, *each.place)
        yield place, each.name, each.kind
        if isinstance(each.kind, StructOf):
            yield from _kinds(each.kind.fields, place)
