"""Moves for the pipeline ``chained``, and what its outputs hold by then."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from tests.kafka.pipelines.chains import chained
from tests.kafka.support.stack import Stack, wait_until
from tidemark.core.operators.ports import PANES
from tidemark.core.windows.pane import END_OF_INPUT, RETRACTED
from tidemark.local.run import LocalRun
from tidemark.partition import Partition
from tidemark.plan.names import progress_topic
from tidemark.runtime.client.consumer import LATEST, offsets
from tidemark.runtime.keyed.fresh_start import partitions_of

START_MS = 1_700_000_000_000 // 60_000 * 60_000
CLOSED_MS = START_MS + 240_000
"""Windows that end before this are closed by the last moves."""

COUNT = 600
PLAYERS = 7
OUTPUTS = ("counts", "sums", "runs", "totals", "mixed")
Panes = dict[tuple[Any, int], dict[str, Any]]
Value = TypeVar("Value")
_SHOWN = ("player", "start", "end", "n", "windows", "runs")


def moves(seed: int = 1, count: int = COUNT) -> list[bytes]:
    """Return moves out of order, some of them late, then moves that close all windows before."""
    draw = random.Random(seed)
    made = []
    for number in range(count):
        late_ms = 40_000 if draw.random() < 0.02 else draw.randrange(1_800)
        at_ms = number * 250_000 // count - late_ms
        made.append(_move(draw.randrange(PLAYERS), at_ms, draw.randrange(10)))
    ends = [_move(player, at_ms, 0) for at_ms in (400_000, 800_000) for player in range(PLAYERS)]
    return [*made, *ends]


def _move(player: int, at_ms: int, score: int) -> bytes:
    return json.dumps({"player": f"p{player}", "at": START_MS + at_ms, "score": score}).encode()


def in_process(options: Mapping[str, Any], values: list[bytes]) -> dict[str, Panes]:
    """Return the panes of each output that one process publishes of the same moves."""
    local = LocalRun(chained.build("chained", **options).plan())
    list(local.run({"chained-moves": values}))
    return {
        name: panes(local.published[name].every(PANES).to_dicts())
        for name in OUTPUTS
        if name in local.published
    }


def on_kafka(stack: Stack, *, once: bool = True) -> dict[str, Panes]:
    """Return the panes of each output that are in its topic; ``once``: each is there once."""
    found = {}
    for name in (each for each in OUTPUTS if each in {it.name for it in stack.plan.operators}):
        rows = stack.results(name)
        seen = Counter((row.get("player"), row["start"], row["revision"]) for row in rows)
        assert not once or all(times == 1 for times in seen.values()), name
        found[name] = panes(rows)
    return found


def panes(rows: list[dict[str, Any]]) -> Panes:
    """Return the last pane of each key and window that is closed."""
    last = {
        (row.get("player"), row["start"]): row
        for row in rows
        if row["end"] < CLOSED_MS and not row.get(END_OF_INPUT)
    }
    return {
        window: {name: row[name] for name in _SHOWN if name in row}
        for window, row in last.items()
        if not row.get(RETRACTED)
    }


def await_equal(stack: Stack, expected: Mapping[str, Panes], *, once: bool = True) -> None:
    """Wait until the topics hold what one process publishes; later stages have no late rows."""
    assert all(expected.values())
    wait_until(lambda: on_kafka(stack, once=once) == expected, f"the results of {stack.name}")
    for name in expected:
        if name not in ("counts", "mixed"):  # these read raw rows
            assert stack.results(f"{name}.late") == []


def produced(stack: Stack, values: list[bytes]) -> None:
    """Write moves to the raw topic."""
    stack.produce((0, None, value) for value in values)


def ends_of(stack: Stack) -> dict[Partition, int]:
    """Return the ends of all logs and progress topics."""
    names = [log.topic for log in stack.plan.logs]
    names += [progress_topic(stack.name, each.operator) for each in stack.plan.derived]
    return offsets(stack.admin, partitions_of(stack.admin, names), LATEST)


def in_parts(values: list[Value], parts: int) -> Iterator[list[Value]]:
    """Yield values in parts of about the same size."""
    size = -(-len(values) // parts)
    return (values[at : at + size] for at in range(0, len(values), size))


def produced_among_kills(
    stack: Stack,
    values: list[Value],
    produce: Callable[[Stack, list[Value]], None],
    service: str,
) -> None:
    """Write values in parts to a stack that runs; kill its processes in between.

    A second process of ``service`` comes, takes over what the killed ones leave, and goes.
    """
    stack.start(service, slot="1")
    parts = in_parts(values, 6)
    produce(stack, next(parts))
    stack.await_partitions()
    for victim in (service, "ingest", service, "windowing"):
        produce(stack, next(parts))
        stack.kill(victim, slot="0")
        stack.start(victim, slot="0")
    stack.stop(service, slot="1")
    produce(stack, next(parts))
