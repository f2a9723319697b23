"""Patterns for ``bench.operators``: microseconds per row and per row that fulfils a condition.

Rows of random keys are out of order but never late, and the clock moves with each segment.  So a
step is all that a task does: evaluate conditions, wait, match, publish, purge, and collect the
changes.  Seconds are CPU time of the process.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from bench.meter import Numbers, rows_of
from tidemark.core.operators.operator import Frames
from tidemark.core.operators.patterns.in_time import InTime
from tidemark.core.operators.patterns.operator import TIMEOUTS, PatternMatch
from tidemark.core.operators.patterns.pattern import Pattern, Skip, Step
from tidemark.core.operators.patterns.step_values import Value
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, WATERMARK
from tidemark.serde.frames import encode_frame

COLUMNS: dict[str, pl.DataType] = {
    "key": pl.Int64(),
    "kind": pl.String(),
    "celsius": pl.Float64(),
}

DISORDER_MS = 2_000
WITHIN_MS = 600_000
_ROWS_PER_S = 1_000
_HOT, _SMOKE = pl.col("celsius") > 80, pl.col("kind") == "smoke"


@dataclass(frozen=True)
class PatternCase:
    """A pattern, its keys, the share of rows that fit a step, and keys that are hot before."""

    name: str
    pattern: Pattern
    keys: int
    share: float
    opening: int = 0
    with_timeouts: bool = False


@dataclass
class StepMeter:
    """The body of a case, its state, and the CPU seconds of each step."""

    body: InTime
    state: Any
    before_ms: int = NEVER_MS
    results: int = 0
    steps_s: list[float] = field(default_factory=list)

    def step(self, sides: Frames, clock_ms: int) -> None:
        """Take the rows of a segment and move the clock."""
        start_s = time.process_time()
        processed = self.body.process(sides, self.state)
        made = self.body.advance(self.state, self.before_ms, clock_ms)
        self.state.changes()
        self.state.purge(clock_ms)
        self.steps_s.append(time.process_time() - start_s)
        assert processed["late"].is_empty(), f"{processed['late'].height} late rows"
        self.results += sum(made[port].height for port in ("rows", TIMEOUTS) if port in made)
        self.before_ms = clock_ms


def cases() -> Iterator[tuple[str, Callable[[], PatternCase]]]:
    """Yield the cases, with the names that ``--only`` takes."""
    hot, smoke = Step("hot", _HOT), Step("smoke", _SMOKE)
    fire = Pattern((hot, smoke), WITHIN_MS)
    for share in (0.0, 0.03, 0.3):
        for keys in (1_000, 1_000_000):
            yield "pattern", partial(PatternCase, "fire", fire, keys, share)
    yield "pattern", partial(PatternCase, "fire, timeouts", fire, 1_000, 0.03, with_timeouts=True)
    opened = partial(PatternCase, "fire, all keys hot before", fire, 1_000_000, 0.03, 1_000_000)
    yield "pattern open", opened
    absence = Pattern((hot,), WITHIN_MS, (_HOT,))
    yield "pattern absence", partial(PatternCase, "absence", absence, 1_000, 0.03)
    higher = pl.col("celsius") > pl.col("hot.celsius")
    for name, steps in (
        ("hot, smoke, hot", (hot, smoke, Step("again", _HOT))),
        ("hot, higher", (hot, Step("higher", _HOT, higher))),
        ("3 hot, smoke", (Step("hot", _HOT, least=3, most=3), smoke)),
        ("hot+, smoke", (Step("hot", _HOT, most=None), smoke)),
        ("hot+ greedy, smoke", (Step("hot", _HOT, most=None, greedy=True), smoke)),
        ("hot, any smoke", (hot, Step("smoke", _SMOKE, after="followed_by_any"))),
        ("hot, next smoke", (hot, Step("smoke", _SMOKE, after="next"))),
    ):
        skip = Skip("none" if "any" in name else "past_last")
        pattern = Pattern(tuple(steps), WITHIN_MS, skip=skip)
        yield "pattern more", partial(PatternCase, name, pattern, 10_000, 0.03)


def measured(case: PatternCase, count: int, segment: int) -> str:
    """Return a line of the table."""
    values = {"hot": Value(0, "celsius")}
    body = PatternMatch(case.pattern, ("key",), COLUMNS, values, with_timeouts=case.with_timeouts)
    draw = np.random.default_rng(1)
    meter = StepMeter(body, body.open())
    for first in range(0, case.opening, segment):
        keys = np.arange(first, min(first + segment, case.opening))
        celsius = np.full(keys.size, 99.0)
        at_ms = np.full(keys.size, -DISORDER_MS)
        hot = rows(at_ms, NEVER_MS, _values(keys, celsius, keys < 0))
        meter.step({"rows": hot}, -DISORDER_MS + 1)
    meter.steps_s.clear()
    for first in range(0, count, segment):
        meter.step({"rows": _segment(draw, first, segment, case)}, clock_ms(first + segment))
    size = sum(len(encode_frame(e)) for piece in meter.state.snapshot() for e in piece.values())
    total_s = sum(meter.steps_s)
    steps_ms = np.array(meter.steps_s) * 1_000
    of_match = f"{total_s / (count * case.share) * 1e6:.2f}" if case.share else "-"
    return (
        f"| {case.name} | {case.keys:,} | {case.share:.0%} | {total_s / count * 1e6:.3f} "
        f"| {of_match} | {np.median(steps_ms):,.0f}, {steps_ms.max():,.0f} "
        f"| {meter.results:,} | {size:,} |"
    )


def clock_ms(count: int) -> int:
    """Return the clock after a number of rows."""
    return count * 1_000 // _ROWS_PER_S - DISORDER_MS


def times(draw: np.random.Generator, first: int, count: int) -> tuple[Numbers, Numbers]:
    """Return the event times of the rows of a segment, and their watermarks."""
    now_ms = (first + np.arange(count)) * 1_000 // _ROWS_PER_S
    return now_ms - draw.integers(0, DISORDER_MS, count), now_ms - DISORDER_MS


def _segment(draw: np.random.Generator, first: int, count: int, case: PatternCase) -> pl.DataFrame:
    """Return the rows of a segment: twice as many are hot as smoke."""
    at_ms, watermark_ms = times(draw, first, count)
    chance = draw.random(count)
    is_smoke = chance < case.share / 3
    celsius = np.where((chance < case.share) & ~is_smoke, 81 + draw.random(count), 20.0)
    values = _values(draw.integers(0, case.keys, count), celsius, is_smoke)
    return rows(at_ms, watermark_ms, values)


def _values(keys: Any, celsius: Any, is_smoke: Any) -> Mapping[str, Any]:
    kind = pl.select(pl.when(pl.Series(is_smoke)).then(pl.lit("smoke")).otherwise(pl.lit("air")))
    return {"key": keys, "kind": kind.to_series(), "celsius": celsius}


def rows(at_ms: Any, watermark_ms: Any, values: Mapping[str, Any]) -> pl.DataFrame:
    """Return rows that are not late; ``watermark_ms``: of each row, or of all."""
    made = rows_of(at_ms, np.broadcast_to(np.int64(watermark_ms), at_ms.shape), values, COLUMNS)
    assert (made[WATERMARK] <= made[EVENT_TIME]).all()
    return made
