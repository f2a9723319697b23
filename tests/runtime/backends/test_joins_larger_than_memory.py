"""Joins with state many times its budget of memory: it stays within it, results are the same."""

from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest

from tests.runtime.backends.disks import KB
from tidemark.core.operators.joins.gathering_join import First, GatheringJoin
from tidemark.core.operators.joins.sessions.operator import SessionJoin
from tidemark.core.operators.joins.side import Side
from tidemark.core.operators.joins.stream_join import StreamJoin
from tidemark.core.operators.joins.table_join import TableJoin
from tidemark.core.operators.operator import Body, Operator
from tidemark.core.operators.ports import ROWS, Input
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.segment import (
    EVENT_TIME,
    OFFSET,
    ROW_COLUMNS,
    SOURCE,
    SUB_ROW,
    WATERMARK,
    Segment,
    SourceMark,
)
from tidemark.core.windows.window import Hopping, Session
from tidemark.runtime.backends.spill import SpillingBlocks

COLUMNS: dict[str, pl.DataType] = {"key": pl.Int64(), "text": pl.String()}
LEFT = Side("left", COLUMNS, {"text": "text"})
RIGHT = Side("right", COLUMNS, {"text": "text_right"})
HOUR_MS = 3_600_000
BUDGET = 100 * KB
ROWS_EACH, SEGMENTS = 200, 16

BY_TIME = StreamJoin(("key",), LEFT, RIGHT, "full", -HOUR_MS, HOUR_MS)
BODIES: dict[str, Body] = {
    "time": BY_TIME,
    "withdrawing": StreamJoin(("key",), LEFT, RIGHT, "left", 0, 100, HOUR_MS, on_close=True),
    "first": GatheringJoin.of(StreamJoin(("key",), LEFT, RIGHT, "left", 0, HOUR_MS), First()),
    "window": StreamJoin(("key",), LEFT, RIGHT, "anti", 0, 0, windows=Hopping(HOUR_MS, HOUR_MS)),
    "sessions": SessionJoin(("key",), LEFT, RIGHT, "inner", Session(HOUR_MS)),
    "table": TableJoin(("key",), LEFT, RIGHT, "left", HOUR_MS, HOUR_MS),
}


def segments() -> Iterator[Segment]:
    """Yield segments of rows of both sides, a row a millisecond, each with a text of its own."""
    draw = np.random.default_rng(1)
    for first in range(0, ROWS_EACH * SEGMENTS, ROWS_EACH):
        end = first + ROWS_EACH
        yield Segment(
            1,
            0,
            tuple(SourceMark(f"{side}/0", first, end, first, end) for side in ("left", "right")),
            {"left": 1, "right": 1},
            0,
            {side: _rows(draw, number, first) for number, side in enumerate(("left", "right"))},
        )


def _rows(draw: np.random.Generator, source: int, first: int) -> pl.DataFrame:
    at_ms = np.arange(first, first + ROWS_EACH)
    return pl.DataFrame(
        {
            SOURCE: source,
            OFFSET: at_ms,
            SUB_ROW: 0,
            EVENT_TIME: at_ms,
            WATERMARK: at_ms,
            "key": draw.integers(0, ROWS_EACH * SEGMENTS, at_ms.size),
            "text": [f"{source}{n:0>100}" for n in at_ms],
        },
        schema={**ROW_COLUMNS, **COLUMNS},
    )


def _operator(body: Body) -> Operator:
    inputs = (
        Input((side,), ("key",), COLUMNS, frozenset({side}), side) for side in ("left", "right")
    )
    return Operator("j", tuple(inputs), body)


@pytest.mark.parametrize("kind", BODIES)
def test_the_state_of_a_join_many_times_the_budget_stays_within_it(kind, tmp_path):
    operator = _operator(BODIES[kind])
    store = SpillingBlocks(tmp_path / "blocks", BUDGET, 12 * KB)
    held, spilled = OperatorTask(operator), OperatorTask(operator, store)
    for segment in segments():
        one, other = (task.step(segment).frames for task in (held, spilled))
        assert one[ROWS].equals(other[ROWS])
        spilled.checkpoint()
        spilled.state.purge(spilled.clock_ms)
        assert store.resident_bytes <= BUDGET

    assert held.state.size_bytes() > 5 * BUDGET
    restored = operator.body.open(store)
    for piece in spilled.state.snapshot():
        restored.apply(piece)
        assert store.resident_bytes <= BUDGET
    now_ms, last_ms = held.clock_ms, held.clock_ms + 3 * HOUR_MS
    ends = [operator.body.advance(state, now_ms, last_ms)[ROWS] for state in (held.state, restored)]
    assert ends[0].height > 0
    assert ends[0].equals(ends[1])
    store.close()
