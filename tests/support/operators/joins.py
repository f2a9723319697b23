"""Joins of two streams with drawn settings, over the topics ``t`` and ``u`` of a drawn log."""

from dataclasses import replace
from typing import get_args

import polars as pl
from hypothesis import strategies as st

from tests.support.logs import COLUMNS
from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.joins.gathering_join import First, Gathering, GatheringJoin
from tidemark.core.operators.joins.sessions.operator import SessionJoin
from tidemark.core.operators.joins.side import Kind, Side
from tidemark.core.operators.joins.stream_join import StreamJoin
from tidemark.core.operators.operator import Operator
from tidemark.core.operators.ports import Input
from tidemark.core.windows.window import Hopping, Session

KINDS: tuple[Kind, ...] = get_args(Kind)
BOUNDS_MS = ((0, 0), (-5, 5), (0, 12), (-20, -3), (2, 9), (-40, 40))
LEFT = Side("left", COLUMNS, {"value": "value"})
RIGHT = Side("right", COLUMNS, {"value": "value_right"})
GATHERINGS: tuple[Gathering, ...] = (
    First(),
    First(pl.col("value_right")),
    Aggregation(
        {"n": aggregates.count(), "all": aggregates.collect("value_right")},
        {"value_right": pl.Int64()},
    ),
)
CONDITIONS = (None, None, pl.col("value") <= pl.col("value_right"))


def over_topics(join: StreamJoin | SessionJoin, left: str = "t", right: str = "u") -> Operator:
    """Return a join of two topics, whose streams have their names."""
    inputs = tuple(
        Input((topic,), join.key, side.columns, frozenset({topic}), side.name)
        for side, topic in ((join.left, left), (join.right, right))
    )
    return Operator("join", inputs, join, horizon_ms=_reach_ms(join) + join.allowed_lateness_ms)


def _reach_ms(join: StreamJoin | SessionJoin) -> int:
    if join.windows is not None:
        return join.windows.longest_ms
    assert isinstance(join, StreamJoin)
    before_ms, after_ms = max(-join.lower_ms, 0), max(join.upper_ms, 0)
    return before_ms + after_ms if isinstance(join, GatheringJoin) else max(before_ms, after_ms)


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


@st.composite
def gathering_joins(draw: st.DrawFn) -> GatheringJoin:
    """Draw a join with one row for each left row."""
    plain = replace(draw(joins()), how=draw(st.sampled_from(("left", "inner"))), on_close=False)
    return GatheringJoin.of(plain, draw(st.sampled_from(GATHERINGS)))


@st.composite
def window_joins(draw: st.DrawFn) -> StreamJoin:
    """Draw a window join of every kind."""
    size_ms, slide_ms = draw(st.sampled_from(((7, 7), (10, 5), (9, 2))))
    plain = draw(joins())
    return replace(plain, lower_ms=0, upper_ms=0, upper=None, windows=Hopping(size_ms, slide_ms))


@st.composite
def session_joins(draw: st.DrawFn) -> SessionJoin:
    """Draw a session join of every kind."""
    plain = draw(joins())
    return SessionJoin(
        plain.key,
        plain.left,
        plain.right,
        plain.how,
        Session(draw(st.sampled_from((2, 5, 9)))),
        plain.allowed_lateness_ms,
        plain.condition,
        plain.max_pairs,
    )
