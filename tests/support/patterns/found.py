"""Results of patterns as the oracle has them, and the steps in which they are published."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tests.oracles.pattern import Result

Each = TypeVar("Each")


def result_of(row: Mapping[str, Any]) -> Result:
    """Return a published match or timeout."""
    rows = tuple(
        (f"{r['topic']}/{r['partition']}", r["offset"], r["sub_row"], r["step"])
        for r in row["_rows"]
    )
    return Result(row["key"], rows, row["_event_time_ms"])


def in_any_order(steps: Iterable[Iterable[Each]]) -> list[list[Each]]:
    return [sorted(step, key=repr) for step in steps]


def by_step(
    expected: Iterable[Each], clocks: Sequence[int], at_ms: Callable[[Each], int]
) -> list[list[Each]]:
    """Return results, in any order, by the first step after which the clock is later.

    ``clocks``: after each step.  ``at_ms``: the time of a result.
    """
    steps: list[list[Each]] = [[] for _ in clocks]
    for each in expected:
        steps[next(n for n, clock in enumerate(clocks) if at_ms(each) < clock)].append(each)
    return in_any_order(steps)
