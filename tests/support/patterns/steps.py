"""Patterns with drawn steps, as the operator takes them and as the oracle does."""

from typing import Any, NamedTuple

import polars as pl
from hypothesis import strategies as st

from tests.oracles.clock import Judged
from tests.oracles.pattern import Earlier, Holds, PatternRules, StepRules, never_true
from tests.support.logs import COLUMNS
from tests.support.running import over
from tidemark.core.aggregates.constructors import collect, count
from tidemark.core.operators.patterns.operator import PatternMatch
from tidemark.core.operators.patterns.pattern import Contiguity, Pattern, Skip, Step
from tidemark.core.operators.patterns.step_values import OfRows, StepValue, Value

NAMES = ("a", "b", "c", "d")
CONTIGUITIES: tuple[Contiguity, ...] = ("followed_by", "followed_by", "followed_by_any", "next")
QUANTIFIERS = ((1, 1), (1, 1), (1, 1), (0, 1), (2, 2), (1, None), (0, None), (1, 2), (2, 3))

Range = tuple[int, int]
RANGES: tuple[Range, ...] = ((-101, 102), (-101, 0), (0, 102), (-40, 40), (30, 102), (-101, -30))
"""Conditions are ranges of values.  Some overlap, so rows fulfil the conditions of two steps."""


class StepSpec(NamedTuple):
    fits: Range
    after: Contiguity = "followed_by"
    least: int = 1
    most: int | None = 1
    between: Contiguity = "followed_by"
    greedy: bool = False
    until: Range | None = None
    above: str | None = None
    never: tuple[Range, ...] = ()


class PatternSpec(NamedTuple):
    """A pattern; ``above``: a step whose last value is lower; ``to``: step to skip to."""

    steps: tuple[StepSpec, ...]
    within_ms: int
    never: tuple[Range, ...] = ()
    skip: Skip = Skip()
    max_partial: int = 1000

    @property
    def pattern(self) -> Pattern:
        """The pattern of the operator."""
        steps = (self._step(name, each) for name, each in zip(NAMES, self.steps, strict=False))
        never = tuple(map(expression, self.never))
        return Pattern(tuple(steps), self.within_ms, never, self.skip)

    @staticmethod
    def _step(name: str, spec: StepSpec) -> Step:
        return Step(
            name,
            expression(spec.fits),
            None if spec.above is None else pl.col("value") > pl.col(f"{spec.above}.value"),
            spec.after,
            spec.least,
            spec.most,
            spec.between,
            spec.greedy,
            None if spec.until is None else expression(spec.until),
            tuple(map(expression, spec.never)),
        )

    @property
    def rules(self) -> PatternRules:
        """The pattern of the oracle."""
        steps = tuple(
            StepRules(
                name,
                holds(each.fits),
                each.after,
                each.least,
                each.most,
                each.between,
                each.greedy,
                never_true if each.until is None else holds(each.until),
                above(each.above),
                tuple(map(holds, each.never)),
            )
            for name, each in zip(NAMES, self.steps, strict=False)
        )
        never = tuple(map(holds, self.never))
        to = NAMES.index(self.skip.step) if self.skip.step else 0
        return PatternRules(steps, self.within_ms, never, self.skip.to, to, self.max_partial)


def expression(values: Range) -> pl.Expr:
    return pl.col("value").is_between(*values, closed="left")


def holds(values: Range) -> Holds:
    return lambda row: row.value is not None and values[0] <= row.value < values[1]


def above(name: str | None):
    def is_above(row: Judged, earlier: Earlier) -> bool:
        if name is None:
            return True
        other = earlier[name].value if name in earlier else None
        return None not in (row.value, other) and row.value > other  # type: ignore[operator]

    return is_above


@st.composite
def steps(draw: st.DrawFn) -> StepSpec:
    ranges = st.sampled_from(RANGES[1:])
    least, most = draw(st.sampled_from(QUANTIFIERS))
    return StepSpec(
        draw(st.sampled_from(RANGES)),
        draw(st.sampled_from(CONTIGUITIES)),
        least,
        most,
        draw(st.sampled_from(CONTIGUITIES)),
        draw(st.integers(0, 3)) == 3,
        draw(st.none() | st.none() | ranges),
        draw(st.sampled_from((None, None, None, "a", "b"))),
        draw(st.sampled_from(((), ()))) or draw(st.lists(ranges, max_size=1).map(tuple)),
    )


@st.composite
def specs(draw: st.DrawFn) -> PatternSpec:
    """Draw a pattern that is accepted."""
    drawn = draw(st.lists(steps(), min_size=1, max_size=3))
    if all(each.least == 0 for each in drawn):
        drawn[-1] = drawn[-1]._replace(least=1)
    ranges = st.sampled_from(RANGES[1:])
    to: Any = draw(st.sampled_from(("past_last", "none", "none", "to_next", "to_first", "to_last")))
    first = next(number for number, each in enumerate(drawn) if each.least)
    later = [number for number, each in enumerate(drawn) if each.least and number > first]
    skip = Skip("past_last")
    if to in ("to_first", "to_last") and later:
        skip = Skip(to, NAMES[draw(st.sampled_from(later))])
    elif to in ("past_last", "none", "to_next"):
        skip = Skip(to)
    never = draw(st.just(()) | st.lists(ranges, max_size=2).map(tuple))
    within_ms = draw(st.sampled_from((1, 4, 10, 25)))
    return PatternSpec(
        tuple(drawn), within_ms, never, skip, draw(st.sampled_from((1000, 1000, 3, 1)))
    )


@st.composite
def one_row_specs(draw: st.DrawFn) -> PatternSpec:
    """Draw a pattern of which each partial match has one row: see one_row.py."""
    within_ms, most = draw(st.sampled_from((4, 10, 25))), draw(st.sampled_from((1000, 3, 1)))
    first, other, ban = (draw(st.sampled_from(RANGES[:-1])) for _ in range(3))
    nevers = draw(st.sampled_from(((), (), (ban,))))
    form = draw(st.sampled_from(("pair", "pair", "pair", "absence", "twice")))
    if form == "absence":
        never = draw(st.sampled_from(((first,), (ban,), (first, ban))))
        return PatternSpec((StepSpec(first),), within_ms, never, max_partial=most)
    if form == "twice":
        steps: tuple[StepSpec, ...] = (StepSpec(first, least=2, most=2),)
        skip = draw(st.sampled_from((Skip("past_last"), Skip("none"), Skip("to_next"))))
        return PatternSpec(steps, within_ms, (), skip, most)
    to_b = (Skip("to_first", "b"), Skip("to_last", "b"))
    skips = (Skip("past_last"), Skip("past_last"), Skip("none"), Skip("to_next"), *to_b)
    skip = draw(st.sampled_from(skips))
    is_any = skip.to not in ("none", "to_next") and draw(st.booleans())
    second = StepSpec(other, "followed_by_any" if is_any else "followed_by", never=nevers)
    return PatternSpec((StepSpec(first), second), within_ms, (), skip, most)


VALUES: dict[str, StepValue] = {
    "first": Value(0, "value", first=True),
    "last": Value(0, "value"),
    "n": OfRows(0, count("a")),
    "rows": OfRows(None, count()),
    "values": OfRows(0, collect("a.value")),
}


def operator(spec, topics):
    body = PatternMatch(
        spec.pattern, ("key",), COLUMNS, VALUES, spec.max_partial, with_timeouts=True
    )
    return over(topics, body)
