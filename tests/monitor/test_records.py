"""Records as text: docs/monitor.md, "Newest records"."""

import json

import pytest

from tests.serde.samples import AGGREGATES, KEY, PANES
from tidemark import Pipeline, bounded, count, mean, tumbling
from tidemark.core.operators.ports import pane_port
from tidemark.monitor.records import lateness, shown_topics
from tidemark.serde.avro_results import AvroEncoder


def text_of(value: bytes) -> str:
    """Return a value of a topic of results in Avro as the page shows it."""
    pipeline = Pipeline("game")
    rows = pipeline.source(
        "t", schema={"key": str, "n": int, "at": int}, event_time="at", watermark=bounded("2s")
    )
    panes = rows.key_by("key", "n").window(tumbling("10s"))
    panes.aggregate(pops=count(), mean=mean("at")).to("out", format="avro")
    return shown_topics(pipeline.plan())["game.out"].text(value)


def test_avro_results_are_json_also_behind_the_header_of_a_registry():
    encoder = AvroEncoder("game.out", pane_port(tuple(KEY), KEY, AGGREGATES))
    value = encoder.encode(PANES)[1][0]
    shown = json.loads(text_of(value))
    assert (shown["key"], shown["n"], shown["pops"], shown["mean"]) == ("a", 1, 5, 0.1)
    assert (shown["start"], shown["end"], shown["revision"]) == (0, 10, 2)
    registered = b"\0\0\0\0\7" + value[len(encoder.avro.header) :]
    assert text_of(registered) == text_of(value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ('{"reason": "late", "late_by_ms": 13000}', "late, late by 13s"),
        ('{"reason": "more than 9 pairs", "late_by_ms": -5}', "more than 9 pairs"),
        ('{"reason": "late"}', "late"),
        ("no JSON", ""),
    ],
)
def test_a_late_row_says_by_how_much_if_a_lateness_would_have_saved_it(value, shown):
    assert lateness(value) == shown


@pytest.mark.parametrize("damage", [lambda value: value[:-1], lambda value: b"x" + value])
def test_a_damaged_avro_value_shows_what_is_wrong_with_it(damage):
    encoder = AvroEncoder("game.out", pane_port(tuple(KEY), KEY, AGGREGATES))
    shown = text_of(damage(encoder.encode(PANES)[1][0]))
    assert shown.startswith("game_out: ")
