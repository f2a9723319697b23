"""The module of a pipeline that reads observed records: source text that runs as it is."""

import json
import keyword
import re
from collections.abc import Iterator, Sequence
from pprint import pformat

from tidemark.core.time.duration import duration_text
from tidemark.infer.disorder import window_ms
from tidemark.infer.event_time import TimePlace
from tidemark.infer.inference import PRESENT, Inferred
from tidemark.infer.schema import Column, column_path, quoted
from tidemark.infer.schema_text import lines_of
from tidemark.infer.wrapped import Wrapped
from tidemark.plan.names import PANE_FIELDS, topic_part
from tidemark.serde.formats.source_format import (
    JSON,
    AvroFormat,
    CsvFormat,
    ExplodedFormat,
    SourceFormat,
    TextFormat,
)

_ALTERNATIVES = 5
_WIDTH = 90
_NAMES = ("INGEST_TIME", "RECORD_TIME", "avro", "col", "csv", "field")
_TEXT_ADVICE = (
    "The lines are text without a known structure. Columns come from patterns, such as:",
    '    .with_columns(status=col("line").str.extract(r" ([0-9]{3}) "))',
)
_DEFAULT_MS = 60_000


def window_size_ms(inferred: Inferred) -> int:
    """Return the size of the module's windows."""
    return _DEFAULT_MS if inferred.time is None else window_ms(inferred.time)


def module_text(inferred: Inferred, topic: str, origin: str, comments: Sequence[str]) -> str:
    """Return the source text of a pipeline that counts records by key and window.

    ``origin``: what the sample was, for the first line.  ``comments``: on what does not fit.
    """
    name, keyed = _key(inferred)
    number = "records" if name == "n" else "n"
    size = duration_text(window_size_ms(inferred))
    body = [
        f"pipeline = Pipeline({quoted(topic_part(topic))})",
        "",
        *(f"# {line}" for line in comments),
        *(f"# {line}" for line in _TEXT_ADVICE if isinstance(inferred.format, TextFormat)),
        "records = pipeline.source(",
        f"    {quoted(topic)},",
        "    schema={",
        *lines_of(inferred.columns, " " * 8),
        "    },",
        *_format_lines(inferred.format),
        *(f"    # no column: {line}" for line in inferred.without),
        *_time_lines(inferred),
        *_list_lines(inferred.inside),
        *_rows_in_lists(inferred.columns),
        ")",
        "",
        *(["# No field looks like a key: all records count together."] * (inferred.key is None)),
        f"counts = {keyed}.window(tumbling({quoted(size)}))",
        f'counts.aggregate({number}=count()).to("counts")',
    ]
    code = "\n".join(line.split("  # ")[0] for line in body if not line.lstrip().startswith("#"))
    polars = ["import polars as pl", ""] if re.search(r"\bpl\.", code) else []
    used = ["Pipeline", "bounded", "count", "tumbling"]
    used += [each for each in _NAMES if re.search(rf"(?<![\w\"']){each}\b", code)]
    lines = [
        f'"""Counts of {origin}, as `tidemark infer` wrote it.',
        "",
        "Run it over a file with: tidemark try MODULE.py --input FILE",
        '"""',
        "",
        *polars,
        f"from tidemark import {', '.join(sorted(used))}",
        "",
        *body,
    ]
    return "\n".join(lines) + "\n"


def _format_lines(format_: SourceFormat) -> Iterator[str]:
    """Yield the argument ``format=``."""
    if isinstance(format_, ExplodedFormat):
        yield from _format_lines(format_.of)
        names = list(map(quoted, format_.path))
        has_dot = any("." in name for name in format_.path)
        place = f"[{', '.join(names)}]" if has_dot else quoted(".".join(format_.path))
        yield f"    explode={place},"
        return
    if format_ == JSON:
        return
    if isinstance(format_, CsvFormat):
        yield from _csv_lines(format_)
    elif isinstance(format_, AvroFormat) and format_.schema is not None:
        schema = pformat(json.loads(format_.schema), width=_WIDTH - 8, sort_dicts=False)
        yield "    format=avro("
        yield from (f"        {line}" for line in schema.splitlines())
        yield "    ),"
    else:
        yield f'    format="{"avro" if isinstance(format_, AvroFormat) else format_}",'


def _list_lines(inside: Wrapped | None) -> Iterator[str]:
    """Yield a comment on a list whose items may be rows."""
    if inside is not None:
        place = quoted(".".join(inside.path))
        yield f"    # The items of {place} have a time too: explode= makes rows"
        yield "    # of them (docs/formats.md)."


def _rows_in_lists(columns: Sequence[Column]) -> Iterator[str]:
    """Yield a comment on each column whose items are lists, which may be rows without names."""
    for each in columns:
        if each.type.before.startswith("list[list["):
            name = quoted(each.name)
            yield f"    # The items of {name} are lists. records.explode({name}) makes rows,"
            yield f"    # and col({name}).list.get(0) is the first value of a row."


def _csv_lines(format_: CsvFormat) -> Iterator[str]:
    options = []
    if format_.delimiter != ",":
        options.append(f"delimiter={quoted(format_.delimiter)}")
    if format_.quote != '"':
        options.append(f"quote={format_.quote!r}")
    if format_.columns is None:
        yield f"    format=csv({', '.join(['header=True', *options])}),"
        return
    names = list(map(quoted, format_.columns))
    listed = "[" + ", ".join(names) + "]"
    short = f"    format=csv({', '.join([listed, *options])}),"
    if len(short) <= _WIDTH:
        yield short
        return
    yield "    format=csv("
    yield "        ["
    yield from _wrapped(names, " " * 12)
    yield "        ],"
    yield from (f"        {option}," for option in options)
    yield "    ),"


def _wrapped(items: Sequence[str], indent: str) -> Iterator[str]:
    """Yield lines with items and a comma after each."""
    line = indent
    for item in items:
        if line.strip() and len(line) + len(item) + 1 > _WIDTH:
            yield line.rstrip()
            line = indent
        line += f"{item}, "
    yield line.rstrip()


def _key(inferred: Inferred) -> tuple[str | None, str]:
    """Return the name of the key, if there is one, and the expression of the keyed stream."""
    if inferred.key is None:
        return None, "records.key_by()"
    path = column_path(inferred.columns, inferred.key)
    assert path is not None
    if "." not in path and path not in PANE_FIELDS:
        return path, f"records.key_by({quoted(path)})"
    name = re.sub(r"[^0-9A-Za-z_]", "_", path)  # with a prefix it is an identifier
    taken = {each.name for each in inferred.columns} | {*PANE_FIELDS}
    while name in taken or not name.isidentifier() or keyword.iskeyword(name):
        name = f"key_{name}"
    return name, f"records.key_by({name}={quoted(path)})"


def _time_lines(inferred: Inferred) -> list[str]:
    time, late = inferred.time, inferred.disorder
    others = [
        f"    # or: {', '.join(_time_arguments(inferred, place))}{_dead_text(place)}"
        for place in inferred.other_times[:_ALTERNATIVES]
    ]
    if time is None or late is None:
        name = "RECORD_TIME" if inferred.has_timestamps else "INGEST_TIME"
        return [
            f"    # No field reads as a time in {PRESENT:.0%} of the records.",
            *([f"    # {inferred.why_no_time}"] if inferred.why_no_time else []),
            f"    event_time={name},",
            *others,
            '    watermark=bounded("0s"),',
        ]
    chosen = _chosen_lines(inferred, time)
    if time.zone is not None:
        chosen[-1] += "  # a guess: the times have no offset"
    if time.is_guess:
        chosen.insert(1, "    # A guess: another order of day and month reads all texts too.")
    most = f"at most {duration_text(late.most_ms)} behind" if late.most_ms else "in order"
    if late.is_descending:
        most = "in descending order: the newest come first"
    beyond = f"; {late.beyond:,} further behind than this" if late.beyond else ""
    return [
        *chosen,
        *others,
        f"    watermark=bounded({quoted(duration_text(late.delay_ms))}),  # records are {most}"
        f"{beyond}",
    ]


def _chosen_lines(inferred: Inferred, time: TimePlace) -> list[str]:
    """Return the lines of the chosen event time; a long expression is on several lines."""
    lines = [f"    {each}," for each in _time_arguments(inferred, time)]
    if time.expression and len(lines[0]) > _WIDTH:
        first, *parts = time.expression
        inside = " " * 4 * first.endswith("(")
        parts = [part.strip() for part in parts if part]
        indents = ["" if part.startswith(")") else inside for part in parts]
        lines = [f"    event_time={first}"]
        lines += [f"    {indent}{part}" for indent, part in zip(indents, parts, strict=True)]
        lines[-1] += ","
    return lines


def _time_arguments(inferred: Inferred, place: TimePlace) -> list[str]:
    if place.expression:
        return [f"event_time={''.join(place.expression)}"]
    path = column_path(inferred.columns, place.path)
    assert path is not None
    units = list(map(quoted, place.units))
    unit = units[0] if len(units) == 1 else f"[{', '.join(units)}]"
    zone = [] if place.zone is None else [f'zone="{place.zone}"']
    return [f"event_time={quoted(path)}", f"unit={unit}", *zone]


def _dead_text(place: TimePlace) -> str:
    dead = int((~place.known).sum())
    return f": {dead:,} would be dead" if dead else ""
