"""Readings and rules for the pipeline ``ruled``, and what its outputs hold by then."""

import json
import random
from collections import Counter
from typing import Any

from tests.kafka.pipelines.chains import ruled
from tests.kafka.support.stack import Stack
from tidemark.core.operators.ports import ROWS
from tidemark.local.run import LocalRun

START_MS, LONG_MS = 1_700_000_000_000, 120_000
SPLIT = 2
"""Partitions of each raw topic."""

_KINDS = ("heat", "noise")
_VALUES = ("machine", "value", "rule", "above", "_event_time_ms")
Found = dict[str, Counter[tuple[Any, ...]]]


def read_values(seed: int, number: int = 300) -> list[bytes]:
    """Return readings of two minutes, in the order of time."""
    draw = random.Random(seed)
    return [
        reading(f"m{draw.randrange(12)}", at_ms, draw.choice(_KINDS), draw.randrange(100))
        for at_ms in range(0, LONG_MS, LONG_MS // number)
    ]


def reading(machine: str, at_ms: int, kind: str = "heat", value: int = 0) -> bytes:
    return _record(machine=machine, at=START_MS + at_ms, kind=kind, value=value)


def rule_values(seed: int, number: int = 40) -> list[bytes]:
    """Return rules of two minutes in the order of time; some replace or end earlier ones."""
    draw = random.Random(seed)
    return [
        rule(
            f"r{draw.randrange(6)}",
            at_ms,
            draw.choice(_KINDS),
            draw.randrange(100),
            draw.choice("uuuud"),
        )
        for at_ms in range(0, LONG_MS, LONG_MS // number)
    ]


def rule(name: str, at_ms: int, kind: str = "none", above: int = 0, op: str = "u") -> bytes:
    return _record(rule=name, at=START_MS + at_ms, kind=kind, above=above, op=op)


def _record(**values: Any) -> bytes:
    return json.dumps(values).encode()


READINGS_END, RULES_END = reading("end", 400_000), rule("end", 400_000)
"""What lets the clock pass all others; in each raw partition."""

LATE_RULE = rule("late", -3_600_000)
"""A rule that is older than the table keeps versions, once the watermark counts."""


def produced(stack: Stack, topic: str, values: list[bytes]) -> None:
    """Write records to the raw partitions in turn; the two ends go to one each."""
    stack.produce(
        [(index % SPLIT, None, value) for index, value in enumerate(values)],
        f"{stack.name}-{topic}",
    )


def in_process(readings: list[bytes], rules: list[bytes], keep: str = "10m") -> Found:
    """Return what one process makes of readings and rules."""
    run = LocalRun(ruled.build("ruled", keep=keep).plan())
    list(run.run({"ruled-readings": readings, "ruled-rules": rules}))
    names = ("alarms", "quiet")
    return {name: shown(run.published[name].every(ROWS).to_dicts()) for name in names}


def on_kafka(stack: Stack) -> Found:
    return {name: shown(stack.results(name)) for name in ("alarms", "quiet")}


def shown(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """Return the values of results; each is there once."""
    assert len({row["_id"] for row in rows}) == len(rows)
    return Counter(
        tuple(row.get(name) for name in _VALUES) for row in rows if row["machine"] != "end"
    )
