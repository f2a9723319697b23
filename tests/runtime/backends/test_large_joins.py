"""Joins with a state many times their budget of memory: the same results, and little memory."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.patience import PATIENCE_S
from tests.runtime.backends.disks import KB
from tests.support.joins import large_state
from tidemark.core.operators.joins.side import Side
from tidemark.core.operators.joins.stream_join import StreamJoin
from tidemark.core.operators.joins.table_join import TableJoin
from tidemark.core.operators.operator import Frames
from tidemark.core.state.block_store import IN_MEMORY
from tidemark.core.time.row_watermarks import ORDER
from tidemark.core.time.segment import (
    EVENT_TIME,
    NEVER_MS,
    OFFSET,
    ROW_COLUMNS,
    SOURCE,
    SUB_ROW,
    WATERMARK,
)
from tidemark.runtime.backends.spill import SpillingBlocks

COLUMNS: dict[str, pl.DataType] = {"key": pl.Int64(), "text": pl.String()}
LEFT, RIGHT = Side("left", COLUMNS, {"text": "text"}), Side("right", COLUMNS, {"text": "other"})
BUDGET = 200 * KB
REACH_MS = 15_000

BODIES: dict[str, Any] = {
    "inner": StreamJoin(("key",), LEFT, RIGHT, "inner", -REACH_MS, REACH_MS),
    "full": StreamJoin(("key",), LEFT, RIGHT, "full", -REACH_MS, 0, 100, on_close=True),
    "table": TableJoin(("key",), LEFT, RIGHT, "left", 2 * REACH_MS),
}


def segments() -> Iterator[tuple[Frames, int]]:
    """Yield 20 segments of 500 rows of each side with the clock after each; no row is late."""
    draw = np.random.default_rng(1)
    for first in range(0, 20_000, 1_000):
        now_ms = np.arange(first, first + 1_000, 2)
        sides = {}
        for number, name in enumerate(("left", "right")):
            at_ms = now_ms - draw.integers(0, 1_000, now_ms.size)
            rows = {
                SOURCE: pl.repeat(f"{name}/0", now_ms.size, eager=True),
                OFFSET: now_ms // 2,
                SUB_ROW: np.zeros(now_ms.size, np.int32),
                EVENT_TIME: at_ms,
                WATERMARK: np.full(now_ms.size, first - 1_000),
                "key": draw.integers(0, 3_000, now_ms.size),
                "text": [f"{name}{n:0>200}" for n in now_ms],
                ORDER: np.arange(now_ms.size) * 2 + number,
            }
            schema = {**ROW_COLUMNS, SOURCE: pl.String(), **COLUMNS, ORDER: pl.Int64()}
            sides[name] = pl.DataFrame(rows, schema=schema)
        yield sides, first


@pytest.mark.parametrize("kind", BODIES)
def test_results_are_those_of_memory_also_after_a_restore(kind, tmp_path):
    body = BODIES[kind]
    store = SpillingBlocks(tmp_path / "blocks", BUDGET, 25 * KB)
    states = [body.open(IN_MEMORY), body.open(store)]
    before_ms, results, largest = NEVER_MS, 0, 0
    for number, (sides, clock_ms) in enumerate(segments()):
        made = [
            (body.process(sides, state), body.advance(state, before_ms, clock_ms))
            for state in states
        ]
        for ours, theirs in zip(*made, strict=True):
            assert ours.keys() == theirs.keys()
            assert all(frame.equals(theirs[port]) for port, frame in ours.items())
            results += ours["rows"].height if "rows" in ours else 0
        before_ms = clock_ms
        for state in states:
            state.changes()
            state.purge(clock_ms)
        assert store.resident_bytes <= BUDGET
        largest = max(largest, states[0].size_bytes())
        if number == 15:
            restored = body.open(store)
            for piece in states[1].snapshot():
                restored.apply(piece)
            states[1] = restored
    assert largest > 5 * BUDGET
    assert results > 3_000
    store.close()


def test_partners_all_over_a_large_state_need_little_memory():
    """The partners of one segment lie in all of the hundreds of blocks of the state."""
    ran = subprocess.run(
        [sys.executable, "-m", large_state.__name__],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )

    assert ran.returncode == 0, ran.stderr[-2_000:]
    found = json.loads(ran.stdout)
    assert found["pairs"] == 1_000
    assert found["state"] > 70 * 2**20
    assert found["grown"] < 30 * 2**20
