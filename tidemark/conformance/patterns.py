"""Run cases of patterns, written in the language: one stream, whose rows have an id and a type.

A step's ``where`` is a type, or ``*`` for every row.  A step with the contiguity
``not_followed_by`` is a ``never`` before the step after it, or at the end.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from tidemark.conformance.case import Case, ConformanceError, Fields
from tidemark.conformance.feed import TOPIC, Feed
from tidemark.conformance.feed import Step as FeedStep
from tidemark.conformance.run import RunResult, outputs
from tidemark.core.operators.operator import Operator
from tidemark.core.operators.output import Output
from tidemark.core.operators.patterns import pattern
from tidemark.core.operators.patterns.operator import TIMEOUTS, PatternMatch
from tidemark.core.operators.patterns.results import MATCHED
from tidemark.core.operators.ports import ROWS, Input
from tidemark.core.operators.rows import EVENT_TIME_MS
from tidemark.core.windows.window import LONGEST_WINDOW_MS
from tidemark.language.patterns.sequence import sequence
from tidemark.language.patterns.step import Never, Step, never, step

NEVER, NOT_NEXT = "not_followed_by", "not_next"

_COLUMNS: Mapping[str, pl.DataType] = dict.fromkeys(("key", "id", "type"), pl.String())
_CONTIGUITIES: Mapping[str, pattern.Contiguity] = {
    "next": "next",
    "followed_by": "followed_by",
    "followed_by_any": "followed_by_any",
}
_QUANTIFIERS: Mapping[str, tuple[int, int | None]] = {
    "one_or_more": (1, None),
    "zero_or_more": (0, None),
}
_SKIPS: Mapping[str, pattern.Skip] = {
    "no_skip": pattern.Skip("none"),
    "past_last": pattern.Skip("past_last"),
    "to_next": pattern.Skip("to_next"),
}


def run_pattern(case: Case, *, restart_often: bool = False) -> RunResult:
    """Run a case to the end of its input; ``restart_often``: restart after each step.

    Raises:
        ConformanceError: a parameter is unknown.
    """
    feed = Feed(case, TOPIC, _COLUMNS, lambda element: element)
    ids = [element["id"] for element in case.elements()]
    collected = RunResult()
    steps = (*feed.steps(), FeedStep(len(case.input), finish=True))
    for _, output, _ in outputs(_operator(case), steps, restart_often=restart_often):
        collected.results += _results(output, ids)
        collected.late += output.late
    return collected


def rows_of(step: Fields) -> tuple[int, int | None]:
    """Return the least and the most rows of a step."""
    if "times" in step:
        return step["times"], step["times"]
    if "quantifier" not in step:
        return 1, 1
    rows: tuple[int, int | None] = _known(_QUANTIFIERS, "quantifier", step["quantifier"])
    return rows


def _operator(case: Case) -> Operator:
    body = PatternMatch(_pattern(case), ("key",), _COLUMNS, {}, with_timeouts=True)
    return Operator("pattern", (Input((TOPIC,), ("key",), _COLUMNS, frozenset({TOPIC})),), body)


def _pattern(case: Case) -> pattern.Pattern:
    """Return the pattern of a case, written as users write it."""
    stated = case.spec["pattern"]
    parts = {each["name"]: _part(each) for each in stated["steps"]}
    skip = _known(_SKIPS, "skip", stated["skip"])
    within_ms = stated.get("within_ms", LONGEST_WINDOW_MS)
    return sequence(**parts).within(f"{within_ms}ms").in_core(skip)


def _part(stated: Fields) -> Step | Never:
    how, condition = stated.get("contiguity", "followed_by"), _condition(stated)
    if how == NEVER:
        return never(condition)
    part = step(condition, contiguity=_known(_CONTIGUITIES, "contiguity", how))
    least, most = rows_of(stated)
    if most is None:
        part = part.one_or_more()
    elif most > 1:
        part = part.times(least, most)
    return part.optional() if least == 0 else part


def _condition(step: Fields) -> pl.Expr:
    where = step["where"]
    return pl.lit(value=True) if where == "*" else pl.col("type") == where


def _known(names: Mapping[str, Any], what: str, name: str) -> Any:
    if name not in names:
        raise ConformanceError(f"{what} {name!r} is unknown")
    return names[name]


def _results(output: Output, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield matches, and timeouts with the clock from which they are due."""
    for row in output[ROWS].iter_rows(named=True):
        yield {"match": [ids[each["offset"]] for each in row[MATCHED]], "kind": "match"}
    for row in output[TIMEOUTS].iter_rows(named=True):
        rows = [ids[each["offset"]] for each in row[MATCHED]]
        yield {"timeout": rows, "ts": row[EVENT_TIME_MS] + 1, "kind": "timeout"}
