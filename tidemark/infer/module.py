"""The module of a pipeline that reads observed records: source text that runs as it is."""

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tidemark.core.time.duration import duration_text
from tidemark.errors import ConfigurationError
from tidemark.infer.envelopes import envelope_comments
from tidemark.infer.event_time import Disorder, TimePlace, disorder, time_places, window_ms
from tidemark.infer.key import key_place
from tidemark.infer.observed import Observed, Path
from tidemark.infer.schema import Column, column_path, columns_of, lines_of, quoted
from tidemark.plan.names import PANE_FIELDS, topic_part

_ALTERNATIVES = 5
_PRESENT = 0.8


@dataclass
class Sample:
    """Records of one topic, as bytes, with their partitions."""

    values: list[bytes | None] = field(default_factory=list)
    partitions: list[int] = field(default_factory=list)

    def add(self, value: bytes | None, partition: int = 0) -> None:
        """Add the next record of a partition."""
        self.values.append(value)
        self.partitions.append(partition)


@dataclass(frozen=True)
class Inferred:
    """What a sample says about its source.

    ``columns``: of the schema; ``without``: members that have no column, with the reason.
    ``time``: the place of the event time; ``other_times``: places that may be it too.
    """

    columns: tuple[Column, ...]
    without: Sequence[str]
    time: TimePlace | None
    other_times: Sequence[TimePlace]
    disorder: Disorder | None
    key: Path | None
    has_timestamps: bool


def infer(sample: Sample, *, has_timestamps: bool) -> Inferred:
    """Return what a sample says; ``has_timestamps``: whether the records have timestamps of Kafka.

    Raises:
        ConfigurationError: no record is a JSON object with a member.
    """
    observed, records, partitions = Observed(), [], []
    for value, partition in zip(sample.values, sample.partitions, strict=True):
        for record in _objects(value):
            observed.add(record)
            records.append(record)
            partitions.append(partition)
    columns, without = columns_of(observed)
    if not columns:
        raise ConfigurationError(
            f"infer: none of {len(sample.values):,} records is a JSON object with a value; "
            "infer reads JSON and no other format (docs/formats.md), and each line of a file is "
            "one record"
        )
    places = [each for each in observed.scalars() if column_path(columns, each[0]) is not None]
    times = time_places(records, places)
    time = next((place for place in times if place.share >= _PRESENT), None)
    late = None if time is None else disorder(time, partitions)
    others = [place for place in times if place is not time]
    key = key_place([each for each in places if time is None or each[0] != time.path], len(records))
    return Inferred(columns, without, time, others, late, key, has_timestamps)


def _objects(value: bytes | None) -> list[Any]:
    """Return the objects of a record: itself, or the elements of an array."""
    try:
        decoded = msgspec.json.decode(value or b"null")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return []
    return [
        each
        for each in (decoded if isinstance(decoded, list) else [decoded])
        if isinstance(each, dict)
    ]


def module_text(inferred: Inferred, topic: str, origin: str, comments: Sequence[str]) -> str:
    """Return the source text of a pipeline that counts records by key and window.

    ``origin``: what the sample was, for the first line.  ``comments``: on what does not fit.
    """
    name, keyed = _key(inferred)
    number = "records" if name == "n" else "n"
    time = inferred.time
    size_ms = window_ms(time) if time else 60_000
    used = {"Pipeline", "bounded", "count", "tumbling"}
    schema = list(lines_of(inferred.columns, " " * 8))
    used |= {"field"} if any("field(" in line for line in schema) else set()
    if time is None:
        used |= {"RECORD_TIME" if inferred.has_timestamps else "INGEST_TIME"}
    used |= {"lit"} if inferred.key is None else set()
    lines = [
        f'"""Counts of {origin}, as `tidemark infer` wrote it.',
        "",
        "Run it over a file with: tidemark try MODULE.py --input FILE",
        '"""',
        "",
        f"from tidemark import {', '.join(sorted(used))}",
        "",
        f"pipeline = Pipeline({quoted(topic_part(topic))})",
        "",
        *(f"# {line}" for line in (*envelope_comments(inferred.columns), *comments)),
        "records = pipeline.source(",
        f"    {quoted(topic)},",
        "    schema={",
        *schema,
        "    },",
        *(f"    # no column: {line}" for line in inferred.without),
        *_time_lines(inferred),
        ")",
        "",
        *(["# No field looks like a key."] if inferred.key is None else []),
        f"counts = {keyed}.window(tumbling({quoted(duration_text(size_ms))}))",
        f'counts.aggregate({number}=count()).to("counts")',
    ]
    return "\n".join(lines) + "\n"


def _key(inferred: Inferred) -> tuple[str, str]:
    """Return the name of the key, and the expression of the keyed stream."""
    path = "all" if inferred.key is None else column_path(inferred.columns, inferred.key)
    assert path is not None
    if inferred.key is not None and "." not in path and path not in PANE_FIELDS:
        return path, f"records.key_by({quoted(path)})"
    name = re.sub(r"\W", "_", path)
    taken = {each.name for each in inferred.columns} | {*PANE_FIELDS}
    while name in taken or not name.isidentifier() or keyword.iskeyword(name):
        name = f"key_{name}"
    if inferred.key is None:
        return name, f'records.with_columns({name}=lit("all")).key_by("{name}")'
    return name, f"records.key_by({name}={quoted(path)})"


def _time_lines(inferred: Inferred) -> list[str]:
    time, late = inferred.time, inferred.disorder
    others = [
        f"    # or: {', '.join(_time_arguments(inferred, place))}{_share_text(place)}"
        for place in inferred.other_times[:_ALTERNATIVES]
    ]
    if time is None or late is None:
        name = "RECORD_TIME" if inferred.has_timestamps else "INGEST_TIME"
        return [
            f"    # No field reads as a time in {_PRESENT:.0%} of the records.",
            f"    event_time={name},",
            *others,
            '    watermark=bounded("0s"),',
        ]
    chosen = [f"    {each}," for each in _time_arguments(inferred, time)]
    if time.zone is not None:
        chosen[-1] += "  # a guess: the texts have no offset"
    most = f"at most {duration_text(late.most_ms)} behind" if late.most_ms else "in order"
    beyond = f"; {late.beyond:,} further behind than this" if late.beyond else ""
    return [
        *chosen,
        *others,
        f"    watermark=bounded({quoted(duration_text(late.delay_ms))}),  # records are {most}"
        f"{beyond}",
    ]


def _time_arguments(inferred: Inferred, place: TimePlace) -> list[str]:
    path = column_path(inferred.columns, place.path)
    assert path is not None
    zone = [] if place.zone is None else [f'zone="{place.zone}"']
    return [f"event_time={quoted(path)}", f"unit={quoted(place.unit)}", *zone]


def _share_text(place: TimePlace) -> str:
    return "" if place.share >= _PRESENT else f", in {place.share:.0%} of the records"
