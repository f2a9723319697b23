"""Joins of two streams: bounds in time, conditions, and the rows without a partner."""

from typing import NamedTuple, get_args

import polars as pl

from tidemark.core.operators.joins.side import Kind
from tidemark.core.rows.expression import as_written, expression_text
from tidemark.core.time.duration import Duration, duration_ms, duration_text, positive_ms
from tidemark.core.windows.trigger import Trigger
from tidemark.errors import PipelineError
from tidemark.language.joins.joined_stream import JoinedStream, require_no_field
from tidemark.language.joins.sides import (
    is_on_close,
    lateness_of,
    not_too_long,
    require_condition,
    shown_of,
    sides_of,
    types_of,
)
from tidemark.language.keyed import KeyedStream
from tidemark.plan.logical import JoinStage, Node, Relation
from tidemark.plan.operators.late import require_not_late
from tidemark.plan.operators.replacing import require_rows_that_stay

Within = Duration | tuple[Duration, Duration | pl.Expr]
"""How far a right row may lie from a left one: both ways, or from the first time to the second."""


class _Bounds(NamedTuple):
    """The bounds of a join in ms; ``upper``: that of each left row, ``upper_ms`` the highest."""

    lower_ms: int
    upper_ms: int
    upper: pl.Expr | None
    relation: Relation


def joined(
    left_stream: KeyedStream,
    right_stream: KeyedStream,
    *,
    within: Within | None,
    max_within: Duration | None,
    keep: Duration | None,
    how: Kind,
    on: pl.Expr | None,
    allowed_lateness: Duration,
    trigger: Trigger | None,
    suffix: str,
    max_pairs: int,
) -> JoinedStream:
    """Return the stream of the pairs of two keyed streams; see ``KeyedStream.join``."""
    left, right = sides_of(left_stream, right_stream)
    for node, _ in (left, right):
        require_rows_that_stay([node], "join")
        require_not_late(node, "join")
    if how not in get_args(Kind):
        raise PipelineError(f"join(how): {how!r} is not one of {get_args(Kind)}")
    if isinstance(max_pairs, bool) or not isinstance(max_pairs, int) or max_pairs < 1:
        raise PipelineError(f"join(max_pairs): {max_pairs!r} is not a positive integer")
    bounds = _bounds(left.node, within, max_within, keep)
    lateness_ms = lateness_of(allowed_lateness)
    on_close = is_on_close(trigger) and lateness_ms > 0
    left_shown, right_shown = shown_of(left, right, suffix)
    key = {name: left.node.columns[name] for name in left.key}
    left_types = {name: left.node.columns[column] for column, name in left_shown.items()}
    right_types = {name: right.node.columns[column] for column, name in right_shown.items()}
    if on is not None:
        require_condition(on, {**key, **left_types, **right_types})
    if how in ("semi", "anti"):
        named = [] if on is None else on.meta.root_names()
        right_shown = {column: name for column, name in right_shown.items() if name in named}
        right_types = {}
    columns = {**key, **left_types, **right_types}
    require_no_field(columns, on_close=on_close)
    stage = JoinStage(
        (left, right),
        (left_shown, right_shown),
        how,
        bounds.lower_ms,
        bounds.upper_ms,
        lateness_ms,
        on_close,
        on,
        bounds.upper,
        max_pairs,
        bounds.relation,
    )
    return JoinedStream(left_stream.dataflow, Node(columns, stage=stage), stage)


def _bounds(
    left: Node, within: Within | None, max_within: Duration | None, keep: Duration | None
) -> _Bounds:
    if (within is None) == (keep is None):
        raise PipelineError(
            'join: pass one of within="10m", within=("-10m", "1h") or keep="1d"; it says how long '
            "a row waits for the rows of the other stream"
        )
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
    lower = within[0] if isinstance(within, tuple) and within else within
    if isinstance(lower, pl.Expr):
        text = as_written(lower)
        raise PipelineError(
            f"join(within): {text} is an expression, which only an upper bound may be; write "
            f"('0s', {text}) with max_within"
        )
    if keep is not None:
        kept_ms = not_too_long(positive_ms(keep, "join(keep)"))
        return _Bounds(-kept_ms, kept_ms, None, "keep")
    if not isinstance(within, tuple):
        assert within is not None
        both_ms = duration_ms(within, "join(within)")
        if both_ms < 0:
            raise PipelineError(f"join(within): {within!r} is negative; write ({within!r}, '0s')")
        return _Bounds(-not_too_long(both_ms), both_ms, None, "time")
    if len(within) != 2:
        raise PipelineError(f"join(within): {within!r} has not two bounds, such as ('-10m', '1h')")
    lower_ms = not_too_long(duration_ms(within[0], "join(within)"))
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
    return _Bounds(lower_ms, not_too_long(upper_ms), bound, "time")


def _upper(expression: pl.Expr, left: Node) -> pl.Expr:
    """Return the upper bound of each left row in ms."""
    what = f"join(within={expression_text(expression)})"
    types = list(types_of(expression, left.columns, what).values())
    if len(types) == 1 and isinstance(types[0], pl.Duration):
        return expression.dt.total_milliseconds()
    if types != [pl.Int64()]:
        found = ", ".join(map(str, types))
        raise PipelineError(
            f"{what}: the bound is {found}; it must be the difference of two times, or an Int64 of "
            "milliseconds"
        )
    return expression
