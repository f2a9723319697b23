"""Joins on Kafka: killed, moved, restored and changed; the results are those of one process."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from tests.kafka.pipelines.chains import joined
from tests.kafka.support.stack import Stack, wait_until
from tidemark.core.operators.ports import PANES, ROWS
from tidemark.local.run import LocalRun
from tidemark.runtime.keyed.fresh_start import Scope
from tidemark.runtime.keyed.reset import Reset

START_MS = 1_700_000_000_000 // 60_000 * 60_000
CLOSED_MS = START_MS + 120_000
SIDES = ("orders", "payments")
VALUES = ("order", "price", "paid", "_event_time_ms")
Records = list[tuple[str, bytes]]
"""Records of the raw topics, each with the name of its side."""


def records(seed: int, number: int = 400) -> Records:
    """Return orders and payments of two minutes, some without a partner, some late, and the end."""
    draw = random.Random(seed)
    made = []
    for index in range(number):
        order = draw.randrange(number // 4)
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


def in_parts(values: Records, parts: int) -> Iterator[Records]:
    for part in range(parts):
        yield values[part * len(values) // parts : (part + 1) * len(values) // parts]


def standing(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """Return the rows that stand at the end, and end before CLOSED_MS; none is there twice."""
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
    rows = {name: every[name](ROWS).to_dicts() for name in ("all", "hour") if name in every}
    found = {"sums": sums(every["sums"](PANES).to_dicts())}
    return found | {name: standing(each) for name, each in rows.items()}


def on_kafka(stack: Stack) -> dict[str, Counter[tuple[Any, ...]]]:
    names = {each.name for each in stack.plan.operators}
    shown = [name for name in ("all", "hour") if name in names]
    found = {"sums": sums(stack.results("sums"))}
    return found | {name: standing(stack.results(name)) for name in shown}


def await_equal(stack: Stack, expected: Mapping[str, Counter[tuple[Any, ...]]]) -> None:
    assert all(expected.values())
    wait_until(lambda: on_kafka(stack) == expected, f"the results of {stack.name}")


def test_joins_are_killed_and_their_tasks_move(broker):
    """Late rows are published once, too; each side has a topic of its own."""
    values = records(seed=1)
    with Stack(broker, "joined", module=joined) as stack:
        stack.start()
        stack.start("joins", slot="1")
        parts = in_parts(values, 6)
        produced(stack, next(parts))
        stack.await_partitions()
        for victim in ("joins", "ingest", "joins", "windowing"):
            produced(stack, next(parts))
            stack.kill(victim, slot="0")
            stack.start(victim, slot="0")
        stack.stop("joins", slot="1")
        produced(stack, next(parts))
        await_equal(stack, in_process(values))
        late = [row for side in SIDES for row in late_rows(stack, side)]
        assert 0 < len(late) == len({(row["topic"], row["offset"]) for row in late})
        assert {row["topic"] for row in late} <= {"joined-orders", "joined-payments"}


def late_rows(stack: Stack, side: str) -> list[dict[str, Any]]:
    return stack.results(f"all.late-{'left' if side == 'orders' else 'right'}")


def test_a_join_is_restored_from_its_changelog_and_one_that_changes_is_reset(broker):
    """A new join is built from the log; the others go on (docs/operations.md)."""
    values = records(seed=2, number=200)
    first, second = values[:100], values[100:]
    with Stack(broker, "rejoined", module=joined) as stack:
        stack.start()
        produced(stack, first)
        wait_until(lambda: len(stack.results("all")) > 20, "first results")
        assert set(stack.stop().values()) == {0}
    changed = {"seconds": 5, "hour": True}
    with Stack(broker, "rejoined", 0, joined, changed) as stack:
        stack.start()
        wait_until(lambda: "--operator all " in stack.log("joins"), "the command for the join")
        assert "operator hour has stopped" not in stack.log("joins")
    with Stack(broker, "rejoined", 0, joined, {"hour": True}) as stack:
        stack.start()
        produced(stack, second)
        await_equal(stack, in_process(values, hour=True))
        assert set(stack.stop().values()) == {0}
        scope = Scope(stack.plan, only=("all",), delete_results=True)
        Reset(stack.config, stack.admin, scope).run()
        stack.start()
        await_equal(stack, in_process(values, hour=True))
