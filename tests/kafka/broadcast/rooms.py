"""Readings and rules for the pipeline ``rule_matches``, and what its outputs hold by then."""

import json
import random
from collections import Counter
from typing import Any

from tests.kafka.pipelines.chains import rule_matches
from tests.kafka.support.stack import Stack
from tidemark.core.operators.ports import ROWS
from tidemark.local.run import LocalRun

START_MS, LONG_MS = 1_700_000_000_000, 120_000
NAMES = ("found", "nearly")
_VALUES = ("_id", "room", "rule", "since", "until", "a", "rows", "_event_time_ms")
Found = dict[str, Counter[tuple[Any, ...]]]


def read_values(seed: int, number: int = 400) -> list[bytes]:
    """Return readings of two minutes, in the order of time."""
    draw = random.Random(seed)
    return [
        reading(f"r{draw.randrange(8)}", at_ms, draw.randrange(100))
        for at_ms in range(0, LONG_MS, LONG_MS // number)
    ]


def reading(room: str, at_ms: int, value: int = 0) -> bytes:
    return json.dumps({"room": room, "at": START_MS + at_ms, "value": value}).encode()


def rule_values(seed: int, number: int = 30) -> list[bytes]:
    """Return rules of two minutes in the order of time; some end or replace rules, some are bad."""
    draw = random.Random(seed)
    return [
        rule(f"p{draw.randrange(4)}", at_ms, _text(draw))
        for at_ms in range(0, LONG_MS, LONG_MS // number)
    ]


def rule(name: str, at_ms: int, text: str = "") -> bytes:
    return json.dumps({"id": name, "at": START_MS + at_ms, "rule": text}).encode()


READINGS_END, RULES_END = reading("end", 400_000), rule("end", 400_000)
BAD = '{"version": 1, "within": "5s", "steps": [{"name": "a", "where": "height > 1"}]}'


def _text(draw: random.Random) -> str:
    if draw.random() < 0.2:
        return draw.choice(("", BAD))
    steps = [
        {"name": "a", "where": f"value > {draw.randrange(90)}"},
        {"name": "b", "where": "value < 30", "on": "value < a.value", "times": [1, 2]},
    ]
    return json.dumps({"version": 1, "within": f"{draw.randrange(5, 50)}s", "steps": steps})


def produced(stack: Stack, topic: str, values: list[bytes]) -> None:
    stack.produce([(0, None, value) for value in values], f"{stack.name}-{topic}")


def ended(stack: Stack) -> None:
    """Write what lets the clock pass all other records."""
    produced(stack, "readings", [READINGS_END])
    produced(stack, "rules", [RULES_END])


def in_process(name: str, readings: list[bytes], rules: list[bytes]) -> tuple[Found, set[Any]]:
    """Return what one process finds, and the first rows of what the ends of rules drop."""
    run = LocalRun(rule_matches.build(name).plan())
    inputs = {"readings": [*readings, READINGS_END], "rules": [*rules, RULES_END]}
    list(run.run({f"{name}-{topic}": values for topic, values in inputs.items()}))
    results = {each: run.published[each] for each in NAMES}
    late = results["found"].every("late")
    return (
        {each: shown(found.every(ROWS).to_dicts()) for each, found in results.items()},
        {(row["@offset"], row["@reason"]) for row in late.to_dicts()},
    )


def on_kafka(stack: Stack) -> Found:
    return {name: shown(stack.results(name)) for name in NAMES}


def dropped(stack: Stack) -> list[Any]:
    return [(row["offset"], row["reason"]) for row in stack.results("found.late")]


def shown(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """Return the values of results; each is there once."""
    assert len({row["_id"] for row in rows}) == len(rows)
    return Counter(tuple(row[name] for name in _VALUES) for row in rows if row["room"] != "end")
