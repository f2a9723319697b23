"""Readings for the pipeline ``matched``, and what its outputs hold by then."""

import json
import random
from collections import Counter
from typing import Any

from tests.kafka.pipelines.chains import matched
from tests.kafka.support.stack import Stack, wait_until
from tidemark.core.operators.patterns.operator import TIMEOUTS
from tidemark.core.operators.ports import PANES, ROWS
from tidemark.core.windows.pane import END_OF_INPUT, RETRACTED
from tidemark.local.run import LocalRun
from tidemark.runtime.keyed.encoders import encoder_of

START_MS = 1_700_000_000_000 // 60_000 * 60_000
CLOSED_MS = START_MS + 120_000
"""Results before this are decided by the last readings."""

_HIDDEN = (END_OF_INPUT, RETRACTED)  # of a local run alone, and of results that stay
Found = dict[str, dict[Any, dict[str, Any]]]


def readings(seed: int, number: int = 600) -> list[bytes]:
    """Return readings of two minutes, some of them late, and then what passes all timers."""
    draw = random.Random(seed)
    made = []
    for index in range(number):
        late_ms = 40_000 if draw.random() < 0.02 else draw.randrange(1_900)
        at_ms = index * 120_000 // number - late_ms
        made.append(_reading(f"r{draw.randrange(6)}", at_ms, draw))
    return [*made, *(_reading("end", at_ms, draw) for at_ms in (400_000, 800_000))]


def _reading(room: str, at_ms: int, draw: random.Random) -> bytes:
    smoke = draw.random() < 0.3
    kind = {"kind": "smoke"} if smoke else {"kind": "heat", "celsius": draw.randrange(50, 110)}
    return json.dumps({"room": room, "at": START_MS + at_ms, **kind}).encode()


def produced(stack: Stack, values: list[bytes]) -> None:
    stack.produce([(0, None, value) for value in values], f"{stack.name}-readings")


def in_process(name: str, values: list[bytes], **options: Any) -> Found:
    """Return the results of one process."""
    run = LocalRun(matched.build(name, **options).plan())
    list(run.run({f"{name}-readings": values}))
    ports = {"cooled": TIMEOUTS, "burning": PANES}
    outputs = {each.name for each in run.plan.operators if each.results.topic}
    every = {each: run.published[each].every(ports.get(each, ROWS)) for each in outputs}
    return {each: decided(frame.to_dicts()) for each, frame in every.items()}


def decided(rows: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    """Return the results that readings decide, by identity; each is there once."""
    times = Counter(_identity(row) for row in rows)
    assert set(times.values()) <= {1}, times.most_common(3)
    return {
        _identity(row): {name: row[name] for name in row if name not in _HIDDEN}
        for row in rows
        if row["_event_time_ms" if "_event_time_ms" in row else "end"] < CLOSED_MS
    }


def _identity(row: dict[str, Any]) -> Any:
    return row["_id"] if "_id" in row else (row["room"], row["start"], row["revision"])


def on_kafka(stack: Stack) -> Found:
    found = {}
    for plan in stack.plan.operators:
        if plan.results.topic:
            avro = encoder_of(plan.results).avro
            rows = (
                stack.results(plan.name)
                if avro is None
                else [
                    avro.decode(value) for _, value in stack.committed(plan.results.topic) if value
                ]
            )
            found[plan.name] = decided(rows)
    return found


def await_equal(stack: Stack, expected: Found) -> None:
    assert all(expected.values())
    wait_until(lambda: on_kafka(stack) == expected, f"the results of {stack.name}")
