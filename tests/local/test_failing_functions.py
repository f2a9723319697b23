"""A user's function that fails on rows and panes: dead letters, the same whatever the cuts."""

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.local_results import decoded, finished
from tidemark import Pipeline, apply_frame, col, count, custom, monotonic, session, tumbling
from tidemark import sum as total
from tidemark.errors import PipelineError, UserCodeError
from tidemark.local.view import summary
from tidemark.testing.in_process import InProcess


class Best:
    """The greatest of numbers; null is refused, and so is a result of 13."""

    def init(self) -> Any:
        return None

    def add(self, state: Any, row: Any, /) -> Any:
        value = row["v"] + 0
        return value if state is None else max(state, value)

    def merge(self, state: Any, other: Any, /) -> Any:
        return max(state, other)

    def result(self, state: Any, /) -> Any:
        if state == 13:
            raise ArithmeticError("13 is no result")
        return state


class Bag(Best):
    """``Best`` whose state, from 100 on, is a set: no JSON value."""

    def add(self, state: Any, row: Any, /) -> Any:
        value = super().add(state, row)
        return {value} if value >= 100 else value


def first(rows: Any) -> int:
    """Return the first value; a pane whose first value is null has none."""
    found: int = rows["v"][0] + 0
    return found


RECORDS = [("a", 1, 5), ("a", 2, None), ("b", 3, 13), ("b", 4, 2), ("a", 11, None), ("c", 12, 13)]
"""Key, time and value."""

SCHEMA = {"k": str, "ts": int, "v": int}


def pipeline(
    on_error: Any = "dead_letter",
    window: Any = None,
    frame: bool = False,
    aggregate: Any = None,
) -> Pipeline:
    made = Pipeline("p", partitions=2)
    source = made.source("t", schema=SCHEMA, event_time="ts", unit="s", watermark=monotonic())
    kind = (
        apply_frame(first, "v", int, on_error=on_error)
        if frame
        else custom(aggregate or Best(), "v", int, on_error=on_error)
    )
    source.key_by("k").window(window or tumbling("10s")).aggregate(n=count(), best=kind).to("best")
    return made


def values(records: Sequence[tuple[str, int, int | None]] = RECORDS) -> list[bytes]:
    return [json.dumps({"k": k, "ts": ts, "v": v}).encode() for k, ts, v in records]


def results(
    made: Pipeline,
    seed: int | None = None,
    records: Sequence[tuple[str, int, int | None]] = RECORDS,
) -> tuple[list[Any], list[str]]:
    run, lines = finished(made.plan(), {"t": values(records)}, seed)
    return decoded(lines), list(summary(run))


def letter(**fields: Any) -> dict[str, Any]:
    return {"topic": "p.dead-letters", "value": {"stage": "best", "timestamp_ms": None, **fields}}


ADD = "best=custom(Best): add: TypeError: unsupported operand type(s) for +: 'NoneType' and 'int'"


def test_a_row_and_a_pane_that_fail_are_dead_letters_and_the_rest_goes_on():  # B1
    found, lines = results(pipeline())

    panes = [each["value"] for each in found if each["topic"] == "p.best"]
    assert [(pane["k"], pane["start"], pane["n"], pane["best"]) for pane in panes] == [
        ("a", 0, 1, 5)
    ]
    dead = [each for each in found if each["topic"] == "p.dead-letters"]
    bounds = {"revision": 2, "timing": "on_time", "final": True}
    assert dead == [
        letter(
            reason=ADD,
            topic="t",
            partition=0,
            offset=offset,
            key='["a"]',
            value=f'{{"k":"a","ts":{ts},"v":null}}',
        )
        for offset, ts in ((1, 2), (4, 11))
    ] + [
        letter(
            reason="best=custom(Best): result: ArithmeticError: 13 is no result",
            topic="p.best",
            partition=-1,
            offset=-1,
            key=json.dumps([k, start], separators=(",", ":")),
            value=json.dumps(
                {"k": k, "start": start, "end": start + 10_000, **bounds, "revision": rows},
                separators=(",", ":"),
            ),
        )
        for k, start, rows in (("b", 0, 2), ("c", 10_000, 1))
    ]
    assert lines[-1] == "best: 6 rows = 4 accepted + 0 late + 2 dead; 2 panes failed"


@pytest.mark.parametrize("window", [tumbling("10s"), session("5s")])
@pytest.mark.parametrize("frame", [False, True])
def test_no_cut_shows_in_the_dead_letters(window: Any, frame: bool):
    whole, _ = results(pipeline(window=window, frame=frame))

    assert any(each["topic"] == "p.dead-letters" for each in whole)
    for seed in range(6):
        assert results(pipeline(window=window, frame=frame), seed)[0] == whole


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_a_row_whose_state_is_no_json_is_dead_and_its_window_is_published(seed: int | None):  # B1
    records = [("a", 1, 5), ("a", 2, 100), ("a", 3, 7)]
    found, lines = results(pipeline(aggregate=Bag()), seed, records)

    pane, dead = sorted((each["value"] for each in found), key=lambda value: "reason" in value)
    assert (pane["n"], pane["best"]) == (2, 7)
    reason = "best=custom(Bag): add: TypeError: Object of type set is not JSON serializable"
    assert (dead["reason"], dead["offset"]) == (reason, 1)
    assert lines[-1] == "best: 3 rows = 2 accepted + 0 late + 1 dead"


def test_a_scenario_shows_the_dead_letters_of_functions():
    with InProcess(pipeline()) as scenario:
        scenario.send("t", *values())
        scenario.send("t", {"k": "d", "ts": 100, "v": 1})
        dead = scenario.dead_letters()

    assert [(each["topic"], each["offset"], each["key"]) for each in dead] == [
        ("t", 1, '["a"]'),
        ("t", 4, '["a"]'),
        ("p.best", -1, '["b",0]'),
        ("p.best", -1, '["c",10000]'),
    ]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (False, f"best: {ADD}; key k='a', topic t, partition 0, offset 1: correct the function"),
        (True, "best: best=apply_frame(first): function: TypeError: "),
    ],
)
def test_a_function_that_is_to_stop_does_and_names_the_place(frame: bool, message: str):
    with pytest.raises(UserCodeError, match=re.escape(message)):
        results(pipeline("stop", frame=frame))


def test_rows_and_panes_that_fail_show_columns_named_reason():
    made = Pipeline("p")
    source = made.source("t", schema=SCHEMA, event_time="ts", unit="s", watermark=monotonic())
    reasons = source.select(reason=col("k"), v=col("v")).key_by("reason").window(tumbling("10s"))
    reasons.aggregate(best=custom(Best(), "v", int)).to("best")
    found, _ = results(made)

    letters = [each["value"] for each in found if each["topic"] == "p.dead-letters"]
    shown = {json.loads(letter["value"])["reason"] for letter in letters}
    assert shown == {"a", "b", "c"}


def test_a_row_that_stops_without_a_key_is_named_by_its_place():
    made = Pipeline("p")
    source = made.source("t", schema=SCHEMA, event_time="ts", unit="s", watermark=monotonic())
    best = custom(Best(), "v", int, on_error="stop")
    source.key_by().window(tumbling("10s")).aggregate(best=best).to("best")

    with pytest.raises(UserCodeError, match=re.escape(f"best: {ADD}; topic t, partition 0, off")):
        results(made)


def test_a_result_of_a_stage_that_stops_the_next_is_named_by_operator_and_time():
    made = Pipeline("p")
    source = made.source("t", schema=SCHEMA, event_time="ts", unit="s", watermark=monotonic())
    sums = source.key_by("k").window(tumbling("10s")).aggregate(v=total("v"))
    sums.to("sums")
    best = custom(Best(), "v", int, on_error="stop")
    sums.key_by("k").window(tumbling("20s")).aggregate(best=best).to("best")

    place = "key k='a', operator k.tumbling-10s.v, event time 1970-01-01T00:00:19.999000Z: correct"
    with pytest.raises(UserCodeError, match=re.escape(f"best: {ADD}; {place}")):
        results(made)


def test_a_pane_that_stops_names_key_and_window():
    made = pipeline("stop", frame=True)

    with pytest.raises(UserCodeError, match=r"key k='a', window \[10000, 20000\): correct the fun"):
        results(made)


def test_state_does_not_depend_on_what_follows_a_failure():
    signatures = [
        pipeline(on_error).plan().operators[0].state_signature
        for on_error in ("dead_letter", "stop")
    ]

    assert signatures[0] == signatures[1]


def test_another_choice_is_refused():
    with pytest.raises(PipelineError, match=r"custom\(on_error\): 'skip' is not one of \('dead_"):
        pipeline("skip")
