"""The parts of a condition: what must hold for it to hold."""

import operator
from collections.abc import Callable, Iterator

import polars as pl

Made = Callable[[pl.Expr, pl.Expr], pl.Expr]
"""Makes an expression of two operands."""


def conjuncts(condition: pl.Expr) -> Iterator[pl.Expr]:
    """Yield the conditions that ``&`` combines to this one; without ``&``, the condition itself."""
    return _parts(condition, operator.and_)


def alternatives(condition: pl.Expr) -> Iterator[pl.Expr]:
    """Yield the conditions that ``|`` combines to this one; without ``|``, the condition itself."""
    return _parts(condition, operator.or_)


def _parts(condition: pl.Expr, made: Made) -> Iterator[pl.Expr]:
    found = operands(condition, made)
    if found is None:
        yield condition
        return
    for part in found:
        yield from _parts(part, made)


def operands(expression: pl.Expr, made: Made) -> tuple[pl.Expr, pl.Expr] | None:
    """Return the operands of an expression that ``made`` makes; None of any other expression."""
    parts = expression.meta.pop()
    if len(parts) != 2:
        return None
    right, left = parts
    return (left, right) if expression.meta.eq(made(left, right)) else None
