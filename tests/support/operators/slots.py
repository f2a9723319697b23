"""Windows of results that replace each other, on a drawn log whose rows become changes."""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from tests.support.logs import COLUMNS
from tests.support.running import AGGREGATION
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.operator import Operator
from tidemark.core.operators.ports import Input
from tidemark.core.operators.replacing.slot_windows import SlotWindows
from tidemark.core.operators.sessions.operator import SessionAggregate
from tidemark.core.operators.sliding.operator import SlidingAggregate
from tidemark.core.time.segment import (
    CHANGE_COLUMNS,
    CHANGE_REVISION,
    EVENT_TIME,
    NEVER_MS,
    OFFSET,
    TIE,
    WITHDRAWN,
    Segment,
)
from tidemark.core.windows.trigger import OnFinal, Trigger
from tidemark.core.windows.window import Hopping, Session, Sliding

_GRID_MS = 4
"""Event times are on a grid, so that a row often withdraws one before it."""


def operator(
    windows: Hopping | Sliding | Session,
    lateness_ms: int,
    trigger: Trigger,
    topics: Sequence[str],
) -> Operator:
    """Return windows by ``key`` over the changes of ``segment_of_changes``."""
    columns = {**COLUMNS, TIE: pl.Int64(), **CHANGE_COLUMNS}
    body = SlotWindows(_inner(windows), lateness_ms, trigger)
    side = Input(tuple(topics), ("key",), columns, frozenset(topics))
    horizon_ms = windows.longest_ms + lateness_ms
    return Operator("slots", (side,), body, horizon_ms)


def _inner(
    windows: Hopping | Sliding | Session,
) -> WindowAggregate | SlidingAggregate | SessionAggregate:
    common = (AGGREGATION, ("key",), COLUMNS, 0, OnFinal())
    if isinstance(windows, Session):
        return SessionAggregate(windows, *common)
    if isinstance(windows, Sliding):
        return SlidingAggregate(windows, *common)
    return WindowAggregate(windows, *common)


def segment_of_changes(segment: Segment) -> Segment:
    """Return a segment whose rows add slots and take them away; few slots have the same key."""
    at = pl.col(EVENT_TIME)
    changes = (
        pl.when(at == NEVER_MS).then(at).otherwise(at // _GRID_MS * _GRID_MS).alias(EVENT_TIME),
        pl.lit(0, pl.Int64).alias(TIE),
        (pl.col(OFFSET) + 1).alias(CHANGE_REVISION),
        (pl.col("value").fill_null(0) % 3 == 0).alias(WITHDRAWN),
    )
    streams = {name: frame.with_columns(changes) for name, frame in segment.streams.items()}
    return replace(segment, streams=streams)
