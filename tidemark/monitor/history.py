"""The past of a pipeline in rings of coarser and coarser steps.  Pure, and bounded in size.

A ring has a fixed number of slots.  A point fills the slot of its step, and replaces the point that
the slot had one turn of the ring before.  See docs/monitor.md, "History".
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

SAMPLE_MS = 5_000
"""The time between two samples."""

MEANS = "rate:"
"""Series of these names show the mean of a step; others show its highest value."""


class Ring(NamedTuple):
    """``slots`` slots of ``step_ms`` each; ``name``: the time that they cover."""

    name: str
    step_ms: int
    slots: int


RINGS = (Ring("15m", SAMPLE_MS, 180), Ring("6h", 120_000, 180), Ring("7d", 3_600_000, 168))


class Point(msgspec.Struct, frozen=True):
    """The samples of one step.

    ``at_ms``: the beginning of the step.  ``values``: number, sum and highest value of the samples,
    by series.
    """

    at_ms: int
    values: dict[str, tuple[int, float, float]]


def slot(ring: Ring, at_ms: int) -> str:
    """Return the key of the slot that holds a time."""
    return f"{ring.name}/{at_ms // ring.step_ms % ring.slots}"


def with_sample(point: Point | None, ring: Ring, at_ms: int, sample: Mapping[str, float]) -> Point:
    """Return the point of a slot with a sample added; ``point``: what the slot holds."""
    step_ms = at_ms // ring.step_ms * ring.step_ms
    values = dict(point.values) if point is not None and point.at_ms == step_ms else {}
    for name, value in sample.items():
        number, total, highest = values.get(name, (0, 0.0, value))
        values[name] = number + 1, total + value, max(highest, value)
    return Point(step_ms, values)


def chart(ring: Ring, points: Iterable[Point], now_ms: int) -> dict[str, Any]:
    """Return the series of a ring up to now as JSON values; null where there was no sample.

    ``begin_ms`` and ``step_ms`` give the time of each value.
    """
    last_ms = now_ms // ring.step_ms * ring.step_ms
    begin_ms = last_ms - (ring.slots - 1) * ring.step_ms
    series: dict[str, list[float | None]] = {}
    for point in points:
        if not begin_ms <= point.at_ms <= last_ms:
            continue
        for name, (number, total, highest) in point.values.items():
            values = series.setdefault(name, [None] * ring.slots)
            shown = total / number if name.startswith(MEANS) else highest
            values[(point.at_ms - begin_ms) // ring.step_ms] = shown
    return {
        "ring": ring.name,
        "begin_ms": begin_ms,
        "step_ms": ring.step_ms,
        "series": dict(sorted(series.items())),
    }
