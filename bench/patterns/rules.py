"""Rules for ``bench.operators``: microseconds per row, and milliseconds of a segment.

Rows are of 10,000 keys and a thousand kinds, out of order but never late.  All rules count before
the first row, and each is "a row of a kind above a bound, then a cold one, in ten minutes".  A step
is all that a task does: wait, match, publish, purge, and collect the changes.  Seconds are CPU time
of the process.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from bench.meter import rows_of
from bench.patterns.kernel import COLUMNS, DISORDER_MS, WITHIN_MS, StepMeter, clock_ms, rows, times
from tidemark.core.operators.patterns.pattern import Pattern
from tidemark.core.operators.patterns.rules.operator import RuleMatch, Rules
from tidemark.core.operators.patterns.step_values import Value
from tidemark.core.time.row_watermarks import ORDER
from tidemark.core.time.segment import NEVER_MS
from tidemark.serde.rules.document import pattern_of

_TABLE: dict[str, pl.DataType] = {"name": pl.String(), "text": pl.String()}
_KEYS, _KINDS = 10_000, 1_000

_WITHIN = "10m"
_KEEP_MS = 365 * 86_400_000


@dataclass(frozen=True)
class RulesCase:
    """The number of rules, and the conditions of their two steps, by the number of the rule."""

    name: str
    rules: int
    first: Callable[[int], str]
    then: str


def cases() -> Iterator[tuple[str, Callable[[], RulesCase]]]:
    """Yield the cases, with the names that ``--only`` takes."""
    cold = "celsius < 10"
    for rules in (10, 100, 1_000):
        own = "kind == 'k{}' and celsius > 90".format
        yield "rules", partial(RulesCase, "of one kind each", rules, own, cold)
    none = "kind == 'no{}'".format
    yield "rules", partial(RulesCase, "of kinds that no row has", 1_000, none, cold)
    yield "rules", partial(RulesCase, "above what rows have", 1_000, "celsius > 10{}".format, cold)
    above = "celsius * 1 > 99.9{}".format
    yield "rules", partial(RulesCase, "without a term, of all rows", 100, above, cold)


def measured(case: RulesCase, count: int, segment: int) -> str:
    """Return a line of the table."""
    body = _body(case)
    meter = StepMeter(body, body.open())
    table = _rules(case)
    draw = np.random.default_rng(1)
    body.process({"rows": _segment(draw, 0, 0), "rules": table}, meter.state)
    for first in range(0, count, segment):
        sides = {"rows": _segment(draw, first, segment), "rules": table.clear()}
        meter.step(sides, clock_ms(first + segment))
    steps_ms = np.array(meter.steps_s[1:]) * 1_000  # all rules begin in the first
    per_row = steps_ms.sum() * 1_000 / (steps_ms.size * segment)
    return (
        f"| {case.name} | {case.rules:,} | {per_row:.2f} "
        f"| {np.median(steps_ms):,.0f}, {steps_ms.max():,.0f} | {meter.results:,} |"
    )


def _body(case: RulesCase) -> RuleMatch:
    def pattern(text: str) -> Pattern:
        return pattern_of(text, COLUMNS, WITHIN_MS)

    rules = Rules(_TABLE, "name", "text", _KEEP_MS, pattern, max_rows=case.rules)
    values = {"hot": Value(0, "celsius")}
    return RuleMatch(("rows", "rules"), rules, ("key",), COLUMNS, ("a",), values)


def _rules(case: RulesCase) -> pl.DataFrame:
    texts = [_text(case.first(number), case.then) for number in range(case.rules)]
    at_ms = np.full(case.rules, -DISORDER_MS)
    values = {"name": [f"r{number:04}" for number in range(case.rules)], "text": texts}
    return _placed(rows_of(at_ms, np.full(case.rules, NEVER_MS), values, _TABLE))


def _text(first: str, then: str) -> str:
    steps = [{"name": "a", "where": first}, {"name": "b", "where": then}]
    return json.dumps({"version": 1, "within": _WITHIN, "steps": steps})


def _segment(draw: np.random.Generator, first: int, count: int) -> pl.DataFrame:
    at_ms, watermark_ms = times(draw, first, count)
    kinds = pl.Series([f"k{number}" for number in range(_KINDS)])
    values = {
        "key": draw.integers(0, _KEYS, count),
        "kind": kinds.gather(draw.integers(0, _KINDS, count)),
        "celsius": draw.random(count) * 100,
    }
    return _placed(rows(at_ms, watermark_ms, values))


def _placed(made: pl.DataFrame) -> pl.DataFrame:
    return made.with_columns(pl.Series(ORDER, np.arange(made.height)))
