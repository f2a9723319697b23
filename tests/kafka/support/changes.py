"""Deployments of a pipeline that changes, and what each operator must publish."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka.admin import AdminClient

from tests.kafka.pipelines import changing
from tests.kafka.support.stack import Stack, wait_until
from tidemark.core.operators.task import OperatorTask
from tidemark.partition import Partition
from tidemark.plan.names import generations_topic
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.generations import newest_generations
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.encoders import encoders, messages
from tidemark.serde.segments import segment_at

T = 1_700_000_000_000
WEIGHT = 2
Outputs = Mapping[str, Mapping[str, Any]]
Values = dict[int, list[bytes]]


def deployed(
    broker: str, name: str, outputs: Outputs, *, first: bool = False, **options: Any
) -> Stack:
    """Return a stack of the pipeline with these outputs; ``first``: its topics do not exist."""
    return Stack(broker, name, int(first), module=changing, options={"outputs": outputs, **options})


def published(stack: Stack, operator: str) -> Values:
    """Return the results of an operator's present generation, by partition."""
    return present(stack.config, stack.admin, stack.name, operator)


def present(config: Config, admin: AdminClient, pipeline: str, operator: str) -> Values:
    """Return the results of an operator's present generation in a pipeline, by partition."""
    found = newest_generations(config, admin, generations_topic(pipeline))
    topic = f"{pipeline}.{operator}"
    begins = {
        Partition(topic, n): each.begins.get(topic, 0)
        for (name, n), each in found.items()
        if name == operator
    }
    return _values(config, admin, begins)


def expected(stack: Stack, operator: str) -> Values:
    """Return what an operator publishes if it reads its log from the beginning."""
    plan = next(each for each in stack.plan.operators if each.name == operator)
    encoding = encoders(stack.config, [plan])
    logs = offsets(stack.admin, [Partition(plan.log, n) for n in (0, 1)], EARLIEST)
    found: Values = {}
    for number, values in _values(stack.config, stack.admin, logs).items():
        task, out = OperatorTask(plan.operator), found.setdefault(number, [])
        for offset, value in enumerate(values):
            output = task.step(segment_at(Partition(plan.log, number), offset, value))
            rows = output.frames.get(plan.results.port.name)
            if rows is not None and rows.height:
                made = messages(encoding, plan.name, plan.results, number, rows)
                out += [value for value in made.published[1] if value is not None]
    return found


def _values(config: Config, admin: AdminClient, begins: Mapping[Partition, int]) -> Values:
    ends = offsets(admin, begins, LATEST)
    found: Values = {at.number: [] for at in begins}
    for message in read(config, {at: (begins[at], ends[at]) for at in begins}):
        found[message.partition() or 0].append(message.value() or b"")
    return found


def await_expected(stack: Stack, *operators: str) -> None:
    """Wait until operators have published exactly what they must, and something."""

    def equal() -> bool:
        return all(
            any(wanted := expected(stack, each).values())
            and {n: _parsed(v) for n, v in published(stack, each).items()}
            == {n: _parsed(v) for n, v in enumerate(wanted)}
            for each in operators
        )

    wait_until(equal, f"{operators} of {stack.name}")


def from_raw(options: Mapping[str, Any], count: int) -> dict[tuple[Any, int], int]:
    """Return the rows of each key and closed window of an output over ``count`` moves.

    ``options``: of the output; its window is tumbling.
    """
    (key,) = options.get("key", ["player"])
    size_ms = int(options.get("size", "10s").removesuffix("s")) * 1_000
    found: Counter[tuple[Any, int]] = Counter()
    for n in range(count):
        at = T + n * 1_000
        end = at - at % size_ms + size_ms
        closed = end <= T + (count - 1) * 1_000 - 2_000
        if closed and n >= (options.get("least") or 0):
            found[n if key == "score" else f"p{n % 3}", end - size_ms] += 1
    return dict(found)


def await_whole(stack: Stack, count: int, outputs: Outputs) -> None:
    """Wait until outputs have published each window over ``count`` moves, once and whole.

    Each move must have WEIGHT in the columns that outputs sum.
    """

    def equal(output: str, options: Mapping[str, Any]) -> bool:
        (key,) = options.get("key", ["player"])
        panes = [p for values in published(stack, output).values() for p in _parsed(values)]
        found = {(pane[key], pane["start"]): pane["n"] for pane in panes}
        sums = [f"sum_{column}" for column in options.get("sums", ())]
        whole = all(pane[each] == WEIGHT * pane["n"] for pane in panes for each in sums)
        return whole and len(found) == len(panes) and found == from_raw(options, count)

    wait_until(
        lambda: all(equal(*each) for each in outputs.items()), f"{[*outputs]} of {stack.name}"
    )


def _parsed(values: list[bytes]) -> list[Any]:
    return [json.loads(value) for value in values]


def moves(stack: Stack, begin: int, end: int, **others: Any) -> None:
    """Produce a record a second of event time, by three players."""
    stack.produce(_records(begin, end, others))


def _records(begin: int, end: int, others: Mapping[str, Any]) -> Iterator[tuple[int, None, bytes]]:
    for n in range(begin, end):
        record = {"player": f"p{n % 3}", "at": T + n * 1_000, "score": n, **others}
        yield 0, None, json.dumps(record).encode()
