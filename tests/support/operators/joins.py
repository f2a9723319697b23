"""Joins of two streams with drawn settings, over the topics ``t`` and ``u`` of a drawn log."""

from typing import get_args

import polars as pl
from hypothesis import strategies as st

from tests.support.logs import COLUMNS
from tidemark.core.operators.joins.side import Kind, Side
from tidemark.core.operators.joins.stream_join import StreamJoin
from tidemark.core.operators.operator import Operator
from tidemark.core.operators.ports import Input

KINDS: tuple[Kind, ...] = get_args(Kind)
BOUNDS_MS = ((0, 0), (-5, 5), (0, 12), (-20, -3), (2, 9), (-40, 40))
LEFT = Side("left", COLUMNS, {"value": "value"})
RIGHT = Side("right", COLUMNS, {"value": "value_right"})
CONDITIONS = (None, None, pl.col("value") <= pl.col("value_right"))


def over_topics(join: StreamJoin, left: str = "t", right: str = "u") -> Operator:
    """Return a join of two topics, whose streams have their names."""
    inputs = tuple(
        Input((topic,), join.key, side.columns, frozenset({topic}), side.name)
        for side, topic in ((join.left, left), (join.right, right))
    )
    reach_ms = max(join.upper_ms, -join.lower_ms, 0)
    return Operator("join", inputs, join, horizon_ms=reach_ms + join.allowed_lateness_ms)


@st.composite
def joins(draw: st.DrawFn) -> StreamJoin:
    """Draw a join of every kind."""
    lower_ms, upper_ms = draw(st.sampled_from(BOUNDS_MS))
    upper = None
    if draw(st.integers(0, 3)) == 0:
        upper = pl.lit(lower_ms, pl.Int64) + pl.col("value") // 4
    return StreamJoin(
        ("key",),
        LEFT,
        RIGHT,
        draw(st.sampled_from(KINDS)),
        lower_ms,
        upper_ms,
        allowed_lateness_ms=draw(st.sampled_from((0, 0, 3, 15))),
        on_close=draw(st.booleans()),
        condition=draw(st.sampled_from(CONDITIONS)),
        upper=upper,
        max_pairs=draw(st.sampled_from((1, 2, 100, 100))),
    )
