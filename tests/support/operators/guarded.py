"""Operators of any kind whose aggregates call a user's code that fails now and then."""

from dataclasses import replace
from typing import Any

from tests.support.logs import COLUMNS
from tests.support.running import AGGREGATION
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.guard import Guard
from tidemark.core.operators.operator import Body, Operator
from tidemark.core.operators.replacing.withdrawing import Withdrawing
from tidemark.language.custom import custom


class Total:
    """A sum that refuses null and multiples of 7, and has no result where it is one of 5."""

    def init(self) -> Any:
        return 0

    def add(self, state: Any, row: Any, /) -> Any:
        if row["value"] % 7 == 0:
            raise ValueError(f"{row['value']} is a multiple of 7")
        return state + row["value"]

    def merge(self, state: Any, other: Any, /) -> Any:
        return state + other

    def result(self, state: Any, /) -> Any:
        if state % 5 == 0:
            raise ArithmeticError(f"{state} is a multiple of 5")
        return state


def refused(value: int | None) -> bool:
    """Whether ``Total`` refuses a row with this value."""
    return value is None or value % 7 == 0


def fails(total: int | None) -> bool:
    """Whether ``Total`` has no result for rows with this sum."""
    return (total or 0) % 5 == 0


MADE = "made"
"""The name of the aggregate that calls ``Total``."""

GUARDED = Aggregation({**AGGREGATION.aggregates, MADE: custom(Total(), "value", int)}, COLUMNS)


def guarded(operator: Operator) -> Operator:
    """Return an operator with one more aggregate, a user's, and the guard that it needs."""
    return with_aggregation(operator, GUARDED)


def with_aggregation(operator: Operator, aggregation: Aggregation) -> Operator:
    """Return an operator with other aggregates, and the guard that they need."""
    columns, body = dict(operator.inputs[0].columns), operator.body
    if isinstance(body, Withdrawing):  # it withdraws what the guard lets through
        guarded_body: Body = replace(body, inner=_guard(body.inner, aggregation, columns))
    else:
        guarded_body = _guard(body, aggregation, columns)
    return replace(operator, body=guarded_body, by_arrival=aggregation.by_arrival)


def _guard(body: Any, aggregation: Aggregation, columns: dict[str, Any]) -> Body:
    return Guard(_with_aggregation(body, aggregation), aggregation, ("key",), columns, "w")


def _with_aggregation(body: Any, aggregation: Aggregation) -> Any:
    if hasattr(body, "inner"):
        return replace(body, inner=_with_aggregation(body.inner, aggregation))
    return replace(body, aggregation=aggregation)
