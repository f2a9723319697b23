"""The aggregates that cases name, and values of rows and panes in the form of cases."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidemark.conformance.case import Case, ConformanceError, Fields
from tidemark.core.aggregates import constructors as words
from tidemark.core.aggregates.aggregate import AggregateFunction
from tidemark.language.custom import apply_frame

MakeAggregate = Callable[[str], AggregateFunction]

_by_arrival: MakeAggregate = partial(words.collect, order="arrival")


def _sum_distinct(column: str) -> AggregateFunction:
    return apply_frame(lambda rows: sum(rows[column].unique().to_list()), column, int)


NAMED: dict[str, MakeAggregate] = {
    "assign": words.count,
    "collect": _by_arrival,
    "collect_by_ts": words.collect,
    "collect_sorted": _by_arrival,
    "count": words.count,
    "count_distinct": words.count_distinct,
    "earliest": words.first,
    "first": partial(words.first, order="arrival"),
    "last": partial(words.last, order="arrival"),
    "latest": words.last,
    "max": words.max,
    "max_by_ts": partial(words.max_by, by="ts"),
    "mean": words.mean,
    "median": words.median,
    "merge_windows": words.count,
    "min": words.min,
    "min_by_ts": partial(words.min_by, by="ts"),
    "set": _by_arrival,
    "stddev_pop": partial(words.stddev, sample=False),
    "stddev_samp": words.stddev,
    "sum": words.sum,
    "sum_distinct": _sum_distinct,
    "var_pop": partial(words.variance, sample=False),
    "var_samp": words.variance,
}
"""Aggregate functions of the value column, by the names that cases use."""


TIMES = "times"
"""Column of panes with the event times of their rows by arrival, if a case needs them."""


@dataclass(frozen=True)
class CaseAggregates:
    """The aggregates of a case by pane column, and the function from a pane to the case's value."""

    aggregates: Mapping[str, AggregateFunction]
    value: Callable[[Fields], Any]


def aggregates_of(case: Case) -> CaseAggregates:
    """Return the aggregates of a case: one value, named values, or a list of values."""
    shown = _shown(case.spec.get("aggregate"))
    if not any("first_ts" in result for result in case.expected):
        return shown
    return CaseAggregates({**shown.aggregates, TIMES: _by_arrival("ts")}, shown.value)


def _shown(aggregate: object) -> CaseAggregates:
    if isinstance(aggregate, str):
        return CaseAggregates({"value": _named(aggregate, "value")}, lambda pane: pane["value"])
    if not isinstance(aggregate, list):
        raise ConformanceError(f"aggregate {aggregate!r} is unknown")
    if all(isinstance(each, str) for each in aggregate):
        named = {name: _named(name, "value") for name in aggregate}
        return CaseAggregates(named, lambda pane: {name: pane[name] for name in named})
    columns = [next(iter(each.items())) for each in aggregate]
    listed = {f"value{n}": _named(name, f"value{at}") for n, (name, at) in enumerate(columns)}
    return CaseAggregates(listed, lambda pane: [pane[name] for name in listed])


def _named(name: str, column: str) -> AggregateFunction:
    if name not in NAMED:
        raise ConformanceError(f"aggregate {name!r} is unknown")
    return NAMED[name](column)


def type_of(values: Iterable[Any]) -> type:
    """Return the type of a column of values; text if they have several types."""
    kinds = {type(value) for value in values if value is not None} or {int}
    if kinds == {int, float}:
        return float
    return kinds.pop() if len(kinds) == 1 and kinds <= {int, float, str, bool} else str


def as_type(kind: type, value: Any) -> Any:
    """Return a value of a column of this type."""
    if value is None or isinstance(value, kind):
        return value
    return float(value) if kind is float else json.dumps(value)
