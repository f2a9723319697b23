"""The module of a pipeline that reads observed records: source text that runs as it is."""

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tidemark.core.time.duration import duration_text
from tidemark.errors import ConfigurationError
from tidemark.infer.event_time import Disorder, TimePlace, disorder, time_places, window_ms
from tidemark.infer.key import key_place
from tidemark.infer.observed import Observed, Path
from tidemark.infer.schema import Column, column_path, columns_of, lines_of, quoted
from tidemark.plan.names import PANE_FIELDS, topic_part

_ALTERNATIVES = 5


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
    ``times``: places that may be the event time, the chosen one first.
    """

    columns: tuple[Column, ...]
    without: Sequence[str]
    times: Sequence[TimePlace]
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
            f"infer: none of {len(sample.values):,} records is a JSON object with a value; each "
            "line of a file is one record"
        )
    places = [each for each in observed.scalars() if column_path(columns, each[0]) is not None]
    times = time_places(records, places)
    late = disorder(times[0], partitions) if times else None
    key = key_place(
        [each for each in places if not times or each[0] != times[0].path], len(records)
    )
    return Inferred(columns, without, times, late, key, has_timestamps)


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
    time = inferred.times[0] if inferred.times else None
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
        *(f"# {line}" for line in comments),
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
    late = inferred.disorder
    if not inferred.times or late is None:
        name = "RECORD_TIME" if inferred.has_timestamps else "INGEST_TIME"
        return [
            "    # No field reads as a time in most records.",
            f"    event_time={name},",
            '    watermark=bounded("0s"),',
        ]
    first, *others = inferred.times
    path = column_path(inferred.columns, first.path)
    assert path is not None
    lines = [f"    event_time={quoted(path)},", f"    unit={quoted(first.unit)},"]
    if first.zone is not None:
        lines.append(f'    zone="{first.zone}",  # a guess: the texts have no offset')
    for other in others[:_ALTERNATIVES]:
        path = column_path(inferred.columns, other.path)
        zone = "" if other.zone is None else f', zone="{other.zone}"'
        lines.append(f"    # or: event_time={quoted(path or '')}, unit={quoted(other.unit)}{zone}")
    most = f"at most {duration_text(late.most_ms)} behind" if late.most_ms else "in order"
    beyond = f"; {late.beyond:,} further behind than this" if late.beyond else ""
    lines.append(
        f"    watermark=bounded({quoted(duration_text(late.delay_ms))}),  # records are {most}"
        f"{beyond}"
    )
    return lines
