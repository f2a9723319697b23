"""A dead letter is shown with its reason, its record, and the declaration that refused it."""

from collections import Counter
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from tests.kafka.pipelines import failing
from tidemark import Pipeline, bounded, count, tumbling
from tidemark.commands.letters_view import (
    attempt_line,
    detail_lines,
    group_lines,
    groups_as_json,
    letter_lines,
    outcome_line,
)
from tidemark.core.rows.schema import Field, Scalar, Schema, StructOf
from tidemark.plan.physical import Plan
from tidemark.runtime.letters.attempts import Attempt
from tidemark.runtime.letters.check import Verdict
from tidemark.runtime.letters.raw_records import Origin, RawRecord
from tidemark.runtime.letters.selection import StoredLetter
from tidemark.runtime.letters.summary import Summary
from tidemark.serde.letters import Letter

T = 1_772_366_400_000


def plan() -> Plan:
    pipeline = Pipeline("shop")
    rows = pipeline.source(
        "orders",
        schema={"at": int, "amount": float},
        event_time="at",
        watermark=bounded("0s"),
    )
    rows.key_by("at").window(tumbling("1m")).aggregate(n=count()).to("totals")
    made = pipeline.plan()
    (source,) = made.sources
    user = StructOf((Field("id", Scalar(pl.String())), Field("age", Scalar(pl.Int64()))))
    stamp = Field("stamp", Scalar(pl.String()), ("meta", "@timestamp"))
    schema = Schema((*source.schema.fields, Field("user", user), stamp))
    return replace(made, sources=(replace(source, schema=schema),))


def stored(**fields: Any) -> StoredLetter:
    given = {"stage": "parse", "topic": "orders", "partition": 0, "offset": 7, **fields}
    return StoredLetter(5, T, Letter(**given))


def shown(letter: StoredLetter, origin: Origin | None = None) -> dict[str, str]:
    lines = detail_lines(plan(), "shop.py", letter, origin, None)
    return {line[:11].strip(): line[11:] for line in lines}


@pytest.mark.parametrize(
    ("reason", "value", "expected"),
    [
        ("column amount: expected float, got str", '{"amount":"1,5"}',
         'amount: Float64; the record has "1,5"'),
        ("column user.age: expected int, got str", '{"user":{"age":"x"}}',
         'the record has {"age":"x"}'),
        ("column meta.@timestamp: expected str, got int", '{"meta":{"@timestamp":7}}',
         "stamp: String from 'meta'.'@timestamp'; the record has 7"),
        ("element 1: column amount: missing", '[{"amount":1},{"at":2}]', "has no such field"),
        ("element 1: column amount: expected float, got bool", '[{},{"amount":true}]', "has true"),
        ("event time at: outside the years 1 to 9999", '{"at":1e30}', "the record has 1e30"),
    ],
)  # fmt: skip
def test_the_column_is_shown_with_its_type_and_what_came(reason, value, expected):
    lines = shown(stored(reason=reason, value=value))
    assert lines["column"].endswith(expected)
    assert lines["source"].startswith("orders, declared in tests/commands/test_letters_view.py:")
    assert lines["next"] == (
        "tidemark dead-letters retry shop.py 5, with --set FIELD=VALUE, --edit or another option"
    )


@pytest.mark.parametrize("reason", ["not JSON: ends too early (byte 3)", "column other: wrong"])
def test_a_reason_without_a_column_of_the_source_shows_none(reason):
    assert "column" not in shown(stored(reason=reason, value="{"))


def test_the_raw_record_is_shown_with_headers_and_bytes():
    headers = [("by", b"web"), ("trace", b"\xff\x00"), ("none", None)]
    record = RawRecord("orders", 0, 7, T, b"\x01\xfe", b'{"a":1}', headers)
    lines = list(detail_lines(plan(), "p", stored(reason="r"), Origin(record), T))
    assert "record     orders/0/7, timestamp 2026-03-01T12:00:00.000+00:00" in lines
    assert "key        hex 01 fe" in lines
    assert [line for line in lines if line.startswith("header")] == [
        "header     by = web",
        "header     trace = hex ff 00",
        "header     none = none",
    ]
    assert 'value      {"a":1}' in lines
    assert "sent again 2026-03-01T12:00:00.000+00:00" in lines
    assert lines[-1].startswith("next       tidemark dead-letters retry p 5 --again, ")


def test_a_long_value_is_cut():
    lines = shown(stored(reason="r", value="x" * 9_000))
    assert lines["value"].endswith("x... (9,000 characters)")


def test_a_pane_names_its_operator_and_the_reset_of_it():
    letter = StoredLetter(3, T, Letter("why", "windows", "p.windows", 0, -1, key='["a"]'))
    lines = list(detail_lines(failing.build("p").plan(), "p.py", letter, None, None))
    assert "results    p.windows/0" in lines
    assert any(line.startswith("operator   windows: ") for line in lines)
    assert "'tidemark reset p.py --operator windows' builds its results" in lines[-1]


def test_tables_have_a_line_for_each_letter_or_group():
    summary = Summary(newest=1)
    groups = Summary("reason", newest=0)
    for number in range(3):
        each = StoredLetter(number, T, Letter(f"byte {number}", "parse", "t", 0, number))
        summary.add(each)
        groups.add(each)
    assert list(letter_lines(summary, {2: T})) == [
        "letter  written                        stage  record  reason",
        "     2  2026-03-01T12:00:00.000+00:00  parse  t/0/2   byte 2 "
        "(sent again 2026-03-01T12:00:00.000+00:00)",
        "3 letters, the newest 1",
    ]
    assert list(group_lines(groups)) == [
        "letters  stage  reason  newest",
        "      3  parse  byte N       2",
        "3 letters",
    ]
    assert list(groups_as_json(groups)) == [
        b'{"reason":"byte N","stage":"parse","letters":3,"newest":2}\n'
    ]


def test_a_retry_says_how_late_its_rows_are():
    verdict = Verdict(event_time_ms=T)
    attempt = Attempt(stored(reason="r"), verdict=verdict)
    assert attempt_line(attempt, 5_000) == (
        "5 orders/0/7: would be sent to the end of orders/0; event time "
        "2026-03-01T12:00:00.000+00:00; 5 s behind the watermark, so windows that have closed "
        "take it only within their allowed lateness"
    )
    none = Attempt(stored(reason="r"), state="sent", verdict=Verdict())
    assert attempt_line(none, None).endswith("it gives no rows: the pipeline filters it")
    assert outcome_line(Counter({"sent": 2, "refused": 1})) == (
        "2 sent again, 1 refused by the present program"
    )
    assert outcome_line(Counter()) == "no letter is selected"
