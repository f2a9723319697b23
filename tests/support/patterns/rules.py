"""Rules as data: rows of one topic matched by patterns that rows of a topic say."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl
from hypothesis import strategies as st

from tests.support.logs import COLUMNS
from tests.support.patterns.steps import NAMES, PatternSpec, Range, StepSpec, specs
from tidemark.core.aggregates.constructors import count
from tidemark.core.operators.operator import Operator
from tidemark.core.operators.patterns.pattern import Pattern
from tidemark.core.operators.patterns.rules.operator import RuleMatch, Rules
from tidemark.core.operators.patterns.step_values import OfRows, StepValue, Value
from tidemark.core.operators.ports import Input
from tidemark.core.rows.copies import COPY
from tidemark.core.time.segment import ROW_COLUMNS, Segment
from tidemark.serde.rules.document import pattern_of

TABLE_COLUMNS: dict[str, pl.DataType] = {"name": pl.String(), "text": pl.String()}
DELETED, BAD = "deleted", '{"version": 2}'
MAX_WITHIN_MS = 25

VALUES: dict[str, StepValue] = {
    "first": Value(None, "value", first=True),
    "last": Value(None, "value"),
    "n": OfRows(0, count("a")),
    "b": Value(1, "value"),
    "rows": OfRows(None, count()),
}


class RulesSpec(NamedTuple):
    """Topics of rows and rules, and the patterns that the values of a rule's row choose."""

    left: str
    right: str
    patterns: tuple[PatternSpec, ...]
    keep_ms: int
    wait: str
    max_partial: int

    @property
    def texts(self) -> tuple[str, ...]:
        """What a rule may say; its value chooses."""
        return (*(rule_text(each) for each in self.patterns), DELETED, BAD)

    def text(self, value: int | None) -> str | None:
        """Return what a rule says by its value."""
        return None if value is None else self.texts[value % len(self.texts)]


def rule_text(spec: PatternSpec) -> str:
    """Return a pattern as a user writes it in a rule."""
    parts: list[dict[str, Any]] = []
    for name, each in zip(NAMES, spec.steps, strict=False):
        parts += [{"never": condition(ban)} for ban in each.never]
        parts.append(_step(name, each))
    parts += [{"never": condition(ban)} for ban in spec.never]
    skip: Any = {spec.skip.to: spec.skip.step} if spec.skip.step else spec.skip.to
    rule = {"version": 1, "within": f"{spec.within_ms}ms", "skip": skip, "steps": parts}
    return json.dumps(rule)


def _step(name: str, spec: StepSpec) -> dict[str, Any]:
    step: dict[str, Any] = {
        "name": name,
        "where": condition(spec.fits),
        "times": [spec.least, spec.most],
        "contiguity": spec.after,
        "between": spec.between,
        "greedy": spec.greedy,
    }
    if spec.until is not None:
        step["until"] = condition(spec.until)
    if spec.above is not None:
        step["on"] = f"value > {spec.above}.value"
    return step


def condition(values: Range) -> str:
    return f"{values[0]} <= value and value < {values[1]}"


def _names_known_steps(spec: PatternSpec) -> bool:
    """Whether conditions on earlier rows name only steps that have come: others are refused."""
    return all(
        each.above is None or NAMES.index(each.above) <= number
        for number, each in enumerate(spec.steps)
    )


def _begun(spec: PatternSpec) -> PatternSpec:
    """Return a pattern without a ``never`` before the first step, where no row is."""
    first, *others = spec.steps
    return spec._replace(steps=(first._replace(never=()), *others))


@st.composite
def rules_specs(
    draw: st.DrawFn, waits: Sequence[str] = ("event_time", "event_time", "arrival")
) -> RulesSpec:
    """Draw settings."""
    left, right = draw(st.sampled_from((("t", "u"), ("t", "u"), ("t", "t"))))
    most = draw(st.sampled_from((1000, 1000, 2)))
    drawn = draw(st.lists(specs().filter(_names_known_steps), min_size=1, max_size=3))
    patterns = tuple(_begun(each)._replace(max_partial=most) for each in drawn)
    keep_ms = draw(st.sampled_from((1_000, 1_000, 20, 3)))
    return RulesSpec(left, right, patterns, keep_ms, draw(st.sampled_from(waits)), most)


def operator(spec: RulesSpec, *, timeouts: bool = False, copied: bool = False) -> Operator:
    columns: dict[str, Any] = {**TABLE_COLUMNS, **({COPY: pl.Boolean()} if copied else {})}
    deleted, wait = pl.col("text") == DELETED, spec.wait
    table = Rules(columns, "name", "text", spec.keep_ms, _pattern, wait, deleted)  # type: ignore[arg-type]
    body = RuleMatch(
        ("rows", "rules"),
        table,
        ("key",),
        COLUMNS,
        ("a", "b"),
        VALUES,
        spec.max_partial,
        timeouts=timeouts,
        operator="found",
    )
    inputs = (
        Input((spec.left,), ("key",), COLUMNS, frozenset({spec.left}), "rows"),
        Input((f"{spec.right}#rules",), ("name",), columns, frozenset({spec.right}), "rules"),
    )
    return Operator("found", inputs, body, horizon_ms=MAX_WITHIN_MS)


def _pattern(text: str) -> Pattern:
    return pattern_of(text, COLUMNS, MAX_WITHIN_MS)


def with_rules(segment: Segment, spec: RulesSpec) -> Segment:
    """Add the stream of rules to a segment of a drawn log."""
    if spec.right not in segment.streams:
        return segment
    frame = segment.streams[spec.right]
    texts = pl.Series("text", [spec.text(each) for each in frame["value"]], pl.String)
    rules = frame.select(*ROW_COLUMNS, pl.col("key").alias("name")).with_columns(texts)
    return replace(segment, streams={**segment.streams, f"{spec.right}#rules": rules})
