"""Orders and payments for the pipeline ``joined``, and what its outputs hold by then."""

import json
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.kafka.pipelines.chains import joined
from tests.kafka.support.stack import Stack, wait_until
from tidemark.core.operators.ports import PANES, ROWS
from tidemark.local.run import LocalRun

START_MS = 1_700_000_000_000 // 60_000 * 60_000
CLOSED_MS = START_MS + 120_000
SIDES = ("orders", "payments")
JOINS = ("all", "semi", "hopping", "visits", "each", "least", "right", "unpaid")
VALUES = ("order", "price", "paid", "_event_time_ms")
Records = list[tuple[str, bytes]]
"""Records of the raw topics, each with the name of its side."""


def records(seed: int, number: int = 400) -> Records:
    """Return orders and payments of two minutes, some without a partner, some late, and the end."""
    draw = random.Random(seed)
    made = []
    for index in range(number):
        order = index // 6 + draw.randrange(3)
        late_ms = 60_000 if draw.random() < 0.03 else draw.randrange(12_000)
        at_ms = index * 120_000 // number - late_ms
        made.append(record(draw.choice(SIDES), f"o{order}", at_ms, draw.randrange(9)))
    ends = (record(side, "end", at_ms, 1) for at_ms in (400_000, 800_000) for side in SIDES)
    return [*made, *ends]


def record(side: str, order: str, at_ms: int, amount: int) -> tuple[str, bytes]:
    key, value = ("id", "price") if side == "orders" else ("order", "paid")
    return side, json.dumps({key: order, "at": START_MS + at_ms, value: amount}).encode()


def produced(stack: Stack, values: Records) -> None:
    for side in SIDES:
        mine = [(0, None, value) for name, value in values if name == side]
        stack.produce(mine, f"{stack.name}-{side}")


def standing(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """Return the rows that stand, and end before CLOSED_MS; each version is there once."""
    versions = Counter((row["_id"], row.get("revision"), row.get("retracted")) for row in rows)
    assert max(versions.values(), default=1) == 1
    last = {row["_id"]: row for row in rows}
    return Counter(
        tuple(row.get(name) for name in VALUES)
        for row in last.values()
        if not row.get("retracted") and row["_event_time_ms"] < CLOSED_MS
    )


def sums(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(
        (row["order"], row["start"], row["n"], row["paid"])
        for row in rows
        if row["end"] <= CLOSED_MS
    )


def in_process(values: Records, **options: Any) -> dict[str, Counter[tuple[Any, ...]]]:
    """Return what stands at the end in one process."""
    run = LocalRun(joined.build("joined", **options).plan())
    list(run.run({f"joined-{side}": [v for name, v in values if name == side] for side in SIDES}))
    every = {name: results.every for name, results in run.published.items()}
    rows = {name: every[name](ROWS).to_dicts() for name in JOINS if name in every}
    found = {"sums": sums(every["sums"](PANES).to_dicts())}
    return found | {name: standing(each) for name, each in rows.items()}


def on_kafka(stack: Stack) -> dict[str, Counter[tuple[Any, ...]]]:
    names = {each.name for each in stack.plan.operators}
    shown = [name for name in JOINS if name in names]
    found = {"sums": sums(stack.results("sums"))}
    return found | {name: standing(stack.results(name)) for name in shown}


def await_equal(stack: Stack, expected: Mapping[str, Counter[tuple[Any, ...]]]) -> None:
    assert all(expected.values())
    wait_until(lambda: on_kafka(stack) == expected, f"the results of {stack.name}")
