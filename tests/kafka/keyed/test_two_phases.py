"""Aggregates of all rows in two phases on Kafka: docs/semantics.md, "One key in two phases"."""

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.kafka.pipelines.chains import all_rows
from tests.kafka.support.chains import in_parts
from tests.kafka.support.stack import Stack, wait_until
from tidemark.core.operators.ports import PANES
from tidemark.local.run import LocalRun
from tidemark.runtime.keyed.fresh_start import Scope
from tidemark.runtime.keyed.reset import Reset

START_MS = 1_700_000_000_000 // 60_000 * 60_000
CLOSED_MS = START_MS + 120_000
VALUES = {"sums": ("n", "score", "spread", "players", "best"), "most": ("n", "most")}
"""The values of each output that do not depend on the raw partition of a row."""

RAW_PARTITIONS = 3


def moves(seed: int, number: int = 600) -> list[bytes]:
    """Return moves of two minutes out of order, none of them late."""
    draw = random.Random(seed)
    return [
        move(draw.randrange(9), index * 120_000 // number - draw.randrange(9_000), draw.random())
        for index in range(number)
    ]


def move(player: int, at_ms: int, score: float) -> bytes:
    return json.dumps({"player": f"p{player}", "at": START_MS + at_ms, "score": score}).encode()


END = [move(0, 400_000, 0.0)] * RAW_PARTITIONS
"""Moves that close all windows before CLOSED_MS, one for each raw partition."""


def produced(stack: Stack, values: Sequence[bytes]) -> None:
    stack.produce((number % RAW_PARTITIONS, None, value) for number, value in enumerate(values))


def shown(rows: Sequence[Mapping[str, Any]], output: str) -> list[dict[str, Any]]:
    """Return the closed panes of an output, by their starts, with revision and values."""
    names = ("start", "end", "revision", "timing", *VALUES[output])
    panes = [{name: each[name] for name in names} for each in rows if each["end"] <= CLOSED_MS]
    return sorted(panes, key=lambda pane: pane["start"])


def in_process(values: Sequence[bytes]) -> dict[str, list[dict[str, Any]]]:
    """Return the panes of each output that one process with one task publishes."""
    run = LocalRun(all_rows.build("all-rows", partitions=1).plan())
    list(run.run({"all-rows-moves": values}))
    return {name: shown(run.published[name].every(PANES).to_dicts(), name) for name in VALUES}


def await_equal(stack: Stack, expected: Mapping[str, list[dict[str, Any]]]) -> None:
    def found() -> dict[str, list[dict[str, Any]]]:
        return {name: shown(stack.results(name), name) for name in expected}

    assert all(expected.values())
    wait_until(lambda: found() == expected, f"the results of {stack.name}")
    for name in expected:
        assert max(Counter(each["start"] for each in stack.results(name)).values()) == 1
        assert stack.results(f"{name}.late") == []


def test_partials_are_merged_once_when_their_tasks_are_killed_and_moved(broker):
    values = moves(seed=1)
    with Stack(broker, "two-phases", RAW_PARTITIONS, all_rows) as stack:
        stack.start()
        stack.start("windowing", slot="1")
        parts = in_parts(values, 5)
        produced(stack, next(parts))
        stack.await_partitions()
        for victim in ("windowing", "ingest", "windowing"):
            produced(stack, next(parts))
            stack.kill(victim, slot="0")
            stack.start(victim, slot="0")
        produced(stack, next(parts))
        produced(stack, END)
        await_equal(stack, in_process([*values, *END]))


def test_an_output_of_one_task_goes_on_in_two_phases_once_it_is_reset(broker):
    values = [*moves(seed=2, number=200), *END]
    name, options = "two-phases-later", {"most": False}
    with Stack(broker, name, RAW_PARTITIONS, all_rows, {**options, "exact": True}) as stack:
        assert len(stack.plan.operators) == 1
        stack.start()
        produced(stack, values)
        wait_until(lambda: len(shown(stack.results("sums"), "sums")) > 20, "first results")
        assert set(stack.stop().values()) == {0}
    with Stack(broker, name, 0, all_rows, options) as stack:
        stack.start()
        wait_until(lambda: "--operator sums " in stack.log("windowing"), "the command")
        assert "reset PIPELINE" not in stack.log("windowing")
        stack.kill()
        Reset(
            stack.config, stack.admin, Scope(stack.plan, only=("sums",), delete_results=True)
        ).run()
        stack.start()
        await_equal(stack, {"sums": in_process(values)["sums"]})
