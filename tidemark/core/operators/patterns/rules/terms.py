"""Terms: the comparisons of a column with values that must hold for a condition to hold.

``kind == "smoke" and celsius > 80`` has two terms, and they are the whole condition.  Of other
conditions, terms tell only which rows cannot fulfil them.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import polars as pl

from tidemark.core.rows.conjuncts import alternatives, conjuncts, operands

Comparison = Literal["in", "<", "<=", ">", ">="]

COMPARED: Mapping[Comparison, Callable[[Any, Any], Any]] = {
    "in": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""Compares a column with a value, as expressions or as arrays; ``in``: with each of several."""

_TURNED: Mapping[Comparison, Comparison] = {"in": "in", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Term(NamedTuple):
    """A column of texts or numbers compared with a value, or, with ``in``, with several values."""

    column: str
    comparison: Comparison
    values: tuple[Any, ...]


class Terms(NamedTuple):
    """The terms of a condition; ``is_whole``: it holds wherever all of them hold."""

    terms: tuple[Term, ...]
    is_whole: bool


def terms_of(conditions: Sequence[pl.Expr], columns: Mapping[str, pl.DataType]) -> Sequence[Terms]:
    """Return the terms of each condition over rows with these columns.

    Only texts, 64-bit integers and 64-bit floats have terms: numpy and polars compare them in the
    same way.
    """
    found = [[_term(part, columns) for part in conjuncts(each)] for each in conditions]
    literals = [value for parts in found for part in parts if part for value in part.values]
    named = [each.alias(str(number)) for number, each in enumerate(literals)]
    values = iter(pl.select(named).row(0) if named else ())
    return [Terms(*_known(parts, values, columns)) for parts in found]


def _known(
    parts: Sequence[Term | None], values: Iterator[Any], columns: Mapping[str, pl.DataType]
) -> tuple[tuple[Term, ...], bool]:
    """Return terms with the values of their literals, and whether they are all parts."""
    known = [
        part._replace(values=tuple(next(values) for _ in part.values)) for part in parts if part
    ]
    terms = tuple(each for each in known if _suits(each, columns[each.column]))
    return terms, len(terms) == len(parts)


def _suits(term: Term, dtype: pl.DataType) -> bool:
    """Whether a column has the type of the values that it is compared with."""
    if dtype == pl.String:
        return term.comparison == "in" and all(isinstance(each, str) for each in term.values)
    return all(type(each) in (int, float) for each in term.values)


def _term(part: pl.Expr, columns: Mapping[str, pl.DataType]) -> Term | None:
    """Return a part of a condition as a term of literals; None if it is no term."""
    compared = [_compared(each) for each in alternatives(part)]
    first = compared[0]
    if first is None or columns.get(first.column) not in (pl.String, pl.Int64, pl.Float64):
        return None
    if len(compared) == 1:
        return first
    values: list[Any] = []
    for each in compared:
        if each is None or (each.column, each.comparison) != (first.column, "in"):
            return None
        values += each.values
    return first._replace(values=tuple(values))


def _compared(part: pl.Expr) -> Term | None:
    for comparison, compared in COMPARED.items():
        sides = operands(part, compared)
        if sides is None:
            continue
        left, right = sides
        if left.meta.is_column() and right.meta.is_literal():
            return Term(left.meta.output_name(), comparison, (right,))
        if right.meta.is_column() and left.meta.is_literal():
            return Term(right.meta.output_name(), _TURNED[comparison], (left,))
    return None
