"""Joins with a state many times their budget of memory: the same results, and little memory."""

import json
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest

from tests.patience import PATIENCE_S
from tests.runtime.backends.disks import KB
from tests.support.joins import large_state
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
LEFT, RIGHT = Side("left", COLUMNS, {"text": "text"}), Side("right", COLUMNS, {"text": "other"})
BUDGET = 200 * KB
REACH_MS, HOUR_MS = 15_000, 3_600_000
SEGMENTS, SEGMENT_MS, RESTORED_AFTER = 20, 1_000, 15

DROPPING: dict[str, Body] = {
    "inner": StreamJoin(("key",), LEFT, RIGHT, "inner", -REACH_MS, REACH_MS),
    "full": StreamJoin(("key",), LEFT, RIGHT, "full", -REACH_MS, 0, 100, on_close=True),
    "table": TableJoin(("key",), LEFT, RIGHT, "left", 2 * REACH_MS),
}
"""Joins whose rows all join, or are dropped, before the end of input."""

KEEPING: dict[str, Body] = {
    "time": StreamJoin(("key",), LEFT, RIGHT, "full", -HOUR_MS, HOUR_MS),
    "withdrawing": StreamJoin(("key",), LEFT, RIGHT, "left", 0, 100, HOUR_MS, on_close=True),
    "first": GatheringJoin.of(StreamJoin(("key",), LEFT, RIGHT, "left", 0, HOUR_MS), First()),
    "window": StreamJoin(("key",), LEFT, RIGHT, "anti", 0, 0, windows=Hopping(HOUR_MS, HOUR_MS)),
    "sessions": SessionJoin(("key",), LEFT, RIGHT, "inner", Session(HOUR_MS)),
    "late table": TableJoin(("key",), LEFT, RIGHT, "left", HOUR_MS, HOUR_MS),
}
"""Joins that have results at the end of input, of rows that they have kept since the beginning."""


def segments() -> Iterator[Segment]:
    """Yield segments of 500 rows of each side, out of order; no row is late."""
    draw = np.random.default_rng(1)
    for first in range(0, SEGMENTS * SEGMENT_MS, SEGMENT_MS):
        offsets = first // 2, (first + SEGMENT_MS) // 2
        yield Segment(
            1,
            0,
            tuple(
                SourceMark(f"{side}/0", *offsets, first - SEGMENT_MS, first)
                for side in ("left", "right")
            ),
            {"left": 1, "right": 1},
            0,
            {side: _rows(draw, number, first) for number, side in enumerate(("left", "right"))},
        )


def _rows(draw: np.random.Generator, source: int, first: int) -> pl.DataFrame:
    now_ms = np.arange(first, first + SEGMENT_MS, 2)
    return pl.DataFrame(
        {
            SOURCE: source,
            OFFSET: now_ms // 2,
            SUB_ROW: 0,
            EVENT_TIME: now_ms - draw.integers(0, SEGMENT_MS, now_ms.size),
            WATERMARK: first - SEGMENT_MS,
            "key": draw.integers(0, 3_000, now_ms.size),
            "text": [f"{source}{n:0>200}" for n in now_ms],
        },
        schema={**ROW_COLUMNS, **COLUMNS},
    )


def _operator(body: Body) -> Operator:
    inputs = (
        Input((side,), ("key",), COLUMNS, frozenset({side}), side) for side in ("left", "right")
    )
    return Operator("j", tuple(inputs), body)


@pytest.mark.parametrize("kind", [*DROPPING, *KEEPING])
def test_results_are_those_of_memory_also_after_a_restore(kind, tmp_path):
    operator = _operator((DROPPING | KEEPING)[kind])
    store = SpillingBlocks(tmp_path / "blocks", BUDGET, 25 * KB)
    held, spilled = OperatorTask(operator), OperatorTask(operator, store)
    results, largest = 0, 0
    for number, segment in enumerate(segments(), 1):
        wanted, found = (task.step(segment).frames for task in (held, spilled))
        assert wanted.keys() == found.keys()
        assert all(frame.equals(found[port]) for port, frame in wanted.items())
        assert all(frame.is_empty() for port, frame in wanted.items() if port != ROWS)
        results += wanted[ROWS].height
        for task in (held, spilled):
            task.checkpoint()
            task.state.purge(task.clock_ms)
        assert store.resident_bytes <= BUDGET
        largest = max(largest, held.state.size_bytes())
        if number == RESTORED_AFTER:
            restored = OperatorTask(operator, store)
            for piece in spilled.snapshot():
                restored.state.apply(piece)
                assert store.resident_bytes <= BUDGET
            restored.resume(*spilled.position())
            spilled = restored
    assert largest > 5 * BUDGET
    assert results > 3_000 or kind in KEEPING

    wanted, found = (task.finish().frames for task in (held, spilled))
    assert wanted[ROWS].height > 0 or kind in DROPPING
    assert wanted[ROWS].equals(found[ROWS])
    store.close()


@pytest.mark.parametrize(("kind", "most_mb"), [("pairs", 30), ("table", 40)])
def test_a_large_state_needs_little_memory(kind, most_mb):
    """Partners of one segment lie in all of its hundreds of blocks; a table merges its runs."""
    command = [sys.executable, "-m", large_state.__name__, kind]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)

    assert ran.returncode == 0, ran.stderr[-2_000:]
    found = json.loads(ran.stdout)
    assert found["pairs"] == 1_000
    assert found["state"] > 70 * 2**20
    assert found["grown"] < most_mb * 2**20
