"""The aggregates that cases name, and how a pane's values read in a case's words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidemark.conformance.case import Case, ConformanceError, Fields
from tidemark.core import aggregates as words
from tidemark.core.aggregate import Aggregate

Named = Callable[[str], Aggregate]

NAMED: dict[str, Named] = {
    "count": words.count,
    "sum": words.sum,
    "min": words.min,
    "max": words.max,
    "mean": words.mean,
    "first": words.first,
    "last": words.last,
    "earliest": words.first,
    "latest": words.last,
    "assign": words.count,
    "merge_windows": words.count,
}
"""Aggregates of the value column by the names that cases use."""


@dataclass(frozen=True)
class Shown:
    """Aggregates by the columns of a pane, and what of a pane's row is the case's value."""

    aggregates: Mapping[str, Aggregate]
    value: Callable[[Fields], Any]


def aggregates_of(case: Case) -> Shown:
    """Return what a case aggregates: one value, named ones, or a list of them."""
    aggregate = case.spec.get("aggregate")
    if isinstance(aggregate, str):
        return Shown({"value": _named(aggregate, "value")}, lambda pane: pane["value"])
    if not isinstance(aggregate, list):
        raise ConformanceError(f"aggregate {aggregate!r} is unknown")
    if all(isinstance(each, str) for each in aggregate):
        named = {name: _named(name, "value") for name in aggregate}
        return Shown(named, lambda pane: {name: pane[name] for name in named})
    columns = [next(iter(each.items())) for each in aggregate]
    listed = {f"value{n}": _named(name, f"value{at}") for n, (name, at) in enumerate(columns)}
    return Shown(listed, lambda pane: [pane[name] for name in listed])


def _named(name: str, column: str) -> Aggregate:
    if name not in NAMED:
        raise ConformanceError(f"aggregate {name!r} is unknown")
    return NAMED[name](column)
