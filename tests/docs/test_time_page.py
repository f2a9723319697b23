"""The tables of docs/time.md say what each spelling of a time becomes."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tidemark import Pipeline, bounded, col, count, field, tumbling
from tidemark.core.time.event_time import instant_text
from tidemark.core.time.segment import EVENT_TIME
from tidemark.core.time.time_pattern import time_pattern
from tidemark.core.time.time_units import UNITS
from tidemark.ingest.ingest import Ingest, Progress, RecordBatch

PAGE = (Path(__file__).parents[2] / "docs" / "time.md").read_text()
SPELLING = re.compile(
    r"^\| (\d+) \| `(.+?)` \| [^|]+ \| `\"(.+?)\"`(?:, zone=\"(.+?)\")? \| ([^|]+) \| ([^|]+) \|$",
    re.MULTILINE,
)
EXPRESSION = re.compile(r"^\| `([^`]+)` \| [^|]+ \| `([^`]+)` \| ([^|]+) \|$", re.MULTILINE)
TYPES = {str: str, int: int, float: float, list: list[int]}
ROWS = SPELLING.findall(PAGE)


def event_time(value, type_=None, event_time="at", **options):
    """Return the event time that ingest gives to a value, or why the record is dead."""
    schema = {"k": str, "at": type_ or TYPES[type(json.loads(value))]}
    pipeline = Pipeline("times")
    rows = pipeline.source(
        "in", schema=schema, event_time=event_time, watermark=bounded("0s"), **options
    )
    rows.key_by("k").window(tumbling("1s")).aggregate(n=count()).to("out")
    batch = RecordBatch.of_values("in", 0, 0, [f'{{"k": "a", "at": {value}}}'.encode()], 0)
    taken = Ingest(pipeline.plan()).take(batch, Progress())
    if taken.dead_letters:
        return "dead: " + taken.dead_letters[0].reason.removeprefix("event time at: ")
    (stream,) = taken.streams.values()
    return re.sub(r"000Z$", "Z", instant_text(stream.item(0, EVENT_TIME)))


def test_the_table_has_all_its_rows():
    lines = re.findall(r"^\| \d+ \|.*$", PAGE, re.MULTILINE)
    assert [int(row[0]) for row in ROWS] == list(range(1, len(lines) + 1))
    assert len(lines) >= 37


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_spelling_becomes_what_the_table_says(row):  # E
    _, value, unit, zone, expected, auto = row
    options = {"zone": zone or None}
    assert event_time(value, unit=unit, **options) == expected

    if not value.startswith('"'):
        options.pop("zone")
    of_auto = event_time(value, unit="auto", **options)
    other = auto.removeprefix("same time as unit ")
    if auto == "same":
        assert of_auto == expected
    elif other != auto:
        assert of_auto == event_time(value, unit=other, **options)
    else:
        assert of_auto == auto


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_column_of_times_reads_a_spelling_as_event_time_does(row):
    _, value, unit, zone, expected, _ = row
    found = event_time(value, type_=field("at", datetime, unit=unit, zone=zone or None))
    assert found.replace("column at: ", "") == expected
    of_auto = event_time(value, type_=datetime)
    assert of_auto.replace("column at: ", "") == event_time(value, unit="auto")


@pytest.mark.parametrize(
    "row", EXPRESSION.findall(PAGE.split("\n## Anything else\n")[1].split("\n## ")[0])
)
def test_an_expression_reads_what_no_unit_reads(row):
    value, expression, expected = row
    made = eval(expression, {"col": col, "pl": pl})
    assert event_time(value, event_time=made) == expected


def test_other_times_are_computed_with_by_expressions():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.split("\n## Other times\n")[1], re.DOTALL)
    pipeline = Pipeline("trips")
    schema = {"taxi": str, "picked_up": int, "dropped_off": str}
    trips = pipeline.source("trips", schema=schema, event_time="picked_up", watermark=bounded("0s"))
    names: dict[str, Any] = {"trips": trips, "col": col, "pl": pl}
    exec(code, names)
    keyed = names["trips"].key_by("taxi").window(tumbling("1h"))
    keyed.aggregate(n=count()).to("out")
    values = [
        b'{"taxi": "a", "picked_up": 1767323045678, "dropped_off": "2026-01-02T03:14:06Z"}',
        b'{"taxi": "a", "picked_up": 1767323045678, "dropped_off": "soon"}',
    ]
    taken = Ingest(pipeline.plan()).take(
        RecordBatch.of_values("trips", 0, 0, values, 0), Progress()
    )
    (stream,) = taken.streams.values()
    assert stream["minutes"].to_list() == [10]
    assert len(taken.dead_letters) == 1


def test_the_page_has_every_unit_and_directive():
    units = set(re.findall(r'`"([a-z0-9]+)"`', PAGE.split("\n## Units\n")[1].split("\n## ")[0]))
    assert units >= {*UNITS}

    section = PAGE.split("\n## Patterns\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `%")]
    listed = {name for row in rows for name in re.findall(r"`%(\.f|.)`", row)}
    with pytest.raises(Exception, match="no directive %!") as refused:
        time_pattern("%!")
    assert listed == set(re.findall(r"%(\.f|[a-zA-Z%])(?:,|$)", str(refused.value)))
