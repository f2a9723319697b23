"""What a sample says about its source: columns, event time, disorder and key."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from tidemark.errors import ConfigurationError
from tidemark.infer.disorder import Disorder, disorder
from tidemark.infer.event_time import TimePlace, time_places
from tidemark.infer.key import key_place
from tidemark.infer.observed import TEXT, Observed, Path
from tidemark.infer.sample import LINE, Sample
from tidemark.infer.schema import Column, Type, column_path, columns_of, type_at, with_type
from tidemark.infer.time_expressions import expression_places
from tidemark.infer.time_lines import line_places, undated
from tidemark.infer.wrapped import Wrapped, wrapped
from tidemark.serde.formats.source_format import (
    CloudEventsFormat,
    CsvFormat,
    DebeziumFormat,
    ExplodedFormat,
    SourceFormat,
    TextFormat,
    without_explode,
)

_MANY = 10

PRESENT = 0.8
"""The least share of records that have the event time."""


@dataclass(frozen=True)
class Inferred:
    """What a sample says about its source.

    ``columns``: of the schema; ``without``: members that have no column, with the reason.
    ``time``: the place of the event time; ``other_times``: places that may be it too.
    ``inside``: a list whose items have a time too.  ``why_no_time``: why the times at the
    beginning of lines of text are no event times, "" for records without such times.
    """

    format: SourceFormat
    columns: tuple[Column, ...]
    without: Sequence[str]
    time: TimePlace | None
    other_times: Sequence[TimePlace]
    disorder: Disorder | None
    key: Path | None
    has_timestamps: bool
    inside: Wrapped | None = None
    why_no_time: str = ""


def infer(sample: Sample) -> Inferred:
    """Return what a sample says.

    Raises:
        ConfigurationError: no record is an object with a member.
    """
    observed, records, partitions = Observed(), [], []
    for record, partition in sample.rows():
        observed.add(record)
        records.append(record)
        partitions.append(partition)
    if isinstance(without_explode(sample.format), CloudEventsFormat):
        observed.members.pop("data_base64", None)  # the decoder gives its content as data
    is_csv = isinstance(sample.format, CsvFormat)
    columns, without = columns_of(observed, of_text=is_csv)
    if not columns:
        fault = f"; the first reason is: {sample.fault}" if sample.fault else ""
        raise ConfigurationError(
            f"infer: none of {len(sample.records):,} records is an object with a value; records in "
            f"JSON are objects or arrays of objects (docs/formats.md){fault}"
        )
    places = {path: seen for path, seen in observed.scalars() if column_path(columns, path)}
    times = time_places(records, columns, places)
    why_no_time = ""
    if isinstance(sample.format, TextFormat):
        lines = pl.Series([each[LINE] for each in records], dtype=pl.String())
        times = list(line_places(lines, (LINE,)))
        why_no_time = undated(lines) or ""
    else:
        times += expression_places(records, columns, places)
        times.sort(key=lambda place: -place.score)
    usual = _usual_time(sample.format)
    times.sort(key=lambda place: place.path[: len(usual)] != usual)
    time = next((place for place in times if place.share >= PRESENT), None)
    inside = None
    if not isinstance(sample.format, CsvFormat | TextFormat | ExplodedFormat):
        inside = wrapped(records, columns, observed)
        if inside is not None and (time is None or inside.number > _MANY * len(records)):
            return infer(replace(sample, format=ExplodedFormat(sample.format, inside.path)))
    late = None if time is None else disorder(time, partitions)
    others = [place for place in times if place is not time and not place.as_text]
    if time is not None and time.as_text:
        columns = with_type(columns, time.path, Type(TEXT, lenient=not is_csv))
    key = None
    if not isinstance(sample.format, TextFormat):
        found = {place.path for place in times if place.score > 0}
        keys = ((at, seen) for at, seen in places.items() if at not in found)
        key = key_place(((at, seen, type_at(columns, at).text) for at, seen in keys), len(records))
    return Inferred(
        sample.format,
        columns,
        without,
        time,
        others,
        late,
        key,
        sample.has_timestamps,
        inside,
        why_no_time,
    )


def _usual_time(format_: SourceFormat) -> Path:
    """Return the place of the event time by the rules of a format, () if it has none.

    Of a list that is exploded, it is somewhere in the items.
    """
    if isinstance(format_, ExplodedFormat):
        return format_.path
    if isinstance(format_, DebeziumFormat):
        return "__source", "ts_ms"
    return ("time",) if isinstance(format_, CloudEventsFormat) else ()
