"""Calls of a user's code: what it returned, or what it raised."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from tidemark.core.rows.expression import error_text, evaluate
from tidemark.core.rows.probe import FAILURES


@dataclass(frozen=True, slots=True)
class Failure:
    """What a user's code raised.  ``reason``: what was called, the exception's type and text."""

    reason: str


def attempt(what: str, call: Callable[[], Any]) -> Any | Failure:
    """Call a user's code; return what it returns, or what it raised.

    Raises:
        MemoryError: the process has no memory left, which says nothing about the rows.
    """
    try:
        return call()
    except MemoryError:
        raise
    except FAILURES as error:  # whatever a user's function may raise
        return Failure(f"{what}: {error_text(error)}")


def good_for_all(wheres: Mapping[str, pl.Expr], rows: pl.DataFrame) -> frozenset[str]:
    """Return the names of expressions that are Boolean for all rows; none if any of them fails.

    One look at all expressions takes far less time than a look at each.
    """
    named = [where.alias(name) for name, where in wheres.items()]
    found = attempt("where", lambda: evaluate(named, [*wheres], rows))
    if isinstance(found, Failure):
        return frozenset()
    return frozenset(name for name, dtype in found.schema.items() if dtype == pl.Boolean)
