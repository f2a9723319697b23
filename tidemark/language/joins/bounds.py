"""The bounds of joins of two streams: a distance in time, or windows."""

from typing import NamedTuple

import polars as pl

from tidemark.core.rows.expression import as_written, expression_text
from tidemark.core.time.duration import Duration, duration_ms, duration_text, positive_ms
from tidemark.core.windows.calendar import Calendar
from tidemark.core.windows.window import Hopping, Session, not_too_long
from tidemark.errors import PipelineError
from tidemark.language.joins.sides import types_of
from tidemark.language.windows import DynamicGapSession
from tidemark.plan.logical import Node, Relation

Within = Duration | tuple[Duration, Duration | pl.Expr]
"""How far a right row may lie from a left one: both ways, or from the first time to the second."""

JoinWindow = Hopping | Calendar | Session
"""Windows in which rows join."""


class Bounds(NamedTuple):
    """The bounds of a join in ms; ``upper``: that of each left row, ``upper_ms`` the highest.

    A join in windows has bounds of 0.
    """

    lower_ms: int
    upper_ms: int
    upper: pl.Expr | None
    relation: Relation
    windows: JoinWindow | None = None


def bounds_of(
    left: Node,
    within: Within | None,
    max_within: Duration | None,
    keep: Duration | None,
    window: JoinWindow | DynamicGapSession | None,
) -> Bounds:
    """Return the bounds of a join; see ``KeyedStream.join``."""
    if [each is None for each in (within, keep, window)].count(True) != 2:
        raise PipelineError(
            'join: pass one of within="10m", within=("-10m", "1h"), keep="1d" or '
            'window=tumbling("1h"); it says how long a row waits for the rows of the other stream'
        )
    _require_no_list(within)
    upper = within[1] if isinstance(within, tuple) and len(within) == 2 else None
    by_row = isinstance(upper, pl.Expr)
    if by_row != (max_within is not None):
        raise PipelineError(
            "join(max_within): the upper bound of within is an expression and has no greatest "
            'value; add one, such as max_within="1h"'
            if by_row
            else "join(max_within): it is the greatest value of an expression in within; leave it "
            "out"
        )
    _require_no_expression(within[0] if isinstance(within, tuple) and within else within)
    if window is not None:
        return _in_windows(window)
    if keep is not None:
        kept_ms = not_too_long(positive_ms(keep, "join(keep)"), "join")
        return Bounds(-kept_ms, kept_ms, None, "keep")
    if not isinstance(within, tuple):
        assert within is not None
        both_ms = duration_ms(within, "join(within)")
        if both_ms < 0:
            raise PipelineError(f"join(within): {within!r} is negative; write ({within!r}, '0s')")
        return Bounds(-not_too_long(both_ms, "join"), both_ms, None, "time")
    if len(within) != 2:
        raise PipelineError(f"join(within): {within!r} has not two bounds, such as ('-10m', '1h')")
    lower_ms = not_too_long(duration_ms(within[0], "join(within)"), "join")
    if isinstance(upper, pl.Expr):
        assert max_within is not None
        upper_ms = duration_ms(max_within, "join(max_within)")
        bound: pl.Expr | None = _upper(upper, left)
    else:
        assert upper is not None
        upper_ms, bound = duration_ms(upper, "join(within)"), None
    if upper_ms < lower_ms:
        raise PipelineError(
            f"join(within): the upper bound {duration_text(upper_ms)} is below the lower bound "
            f"{duration_text(lower_ms)}"
        )
    return Bounds(lower_ms, not_too_long(upper_ms, "join"), bound, "time")


def _require_no_list(within: object) -> None:
    if isinstance(within, list):
        text = ", ".join(map(as_written, within))
        raise PipelineError(f"join(within): [{text}] is a list; write a tuple: ({text})")


def _require_no_expression(lower: object) -> None:
    if isinstance(lower, pl.Expr):
        text = as_written(lower)
        raise PipelineError(
            f"join(within): {text} is an expression, which only an upper bound may be; write "
            f"('0s', {text}) with max_within"
        )


def _in_windows(window: JoinWindow | DynamicGapSession) -> Bounds:
    if not isinstance(window, JoinWindow):
        raise PipelineError(
            f"join(window): {as_written(window)} is not one of tumbling(), hopping(), calendar() "
            "and session() with one gap for all rows; write within= to join rows by their distance"
        )
    not_too_long(window.longest_ms, "join")
    return Bounds(0, 0, None, "time", window)


def _upper(expression: pl.Expr, left: Node) -> pl.Expr:
    """Return the upper bound of each left row in ms."""
    what = f"join(within={expression_text(expression)})"
    types = types_of(expression, left.columns, what)
    if len(types) == 1 and isinstance(types[0], pl.Duration):
        return expression.dt.total_milliseconds()
    if types != [pl.Int64()]:
        found = ", ".join(map(str, types))
        raise PipelineError(
            f"{what}: the bound is {found}; it must be the difference of two times, or an Int64 of "
            "milliseconds"
        )
    return expression
