"""State many times its budget of memory: what is resident stays within it, results are the same."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.runtime.backends.disks import KB
from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.sessions.operator import SessionAggregate
from tidemark.core.operators.sliding.operator import SlidingAggregate
from tidemark.core.state.block_store import IN_MEMORY
from tidemark.core.time.segment import EVENT_TIME, OFFSET, ROW_COLUMNS, SOURCE, SUB_ROW, WATERMARK
from tidemark.core.windows.window import Hopping, Session, Sliding
from tidemark.runtime.backends.spill import SpillingBlocks

COLUMNS: dict[str, pl.DataType] = {"key": pl.Int64(), "text": pl.String()}
LISTS = Aggregation({"all": aggregates.collect("text")}, COLUMNS)
HOUR_MS = 3_600_000
BUDGET = 400 * KB

BODIES: dict[str, Any] = {
    "tumbling": WindowAggregate(Hopping(100, 100), LISTS, ("key",), COLUMNS, HOUR_MS),
    "sessions": SessionAggregate(Session(200), LISTS, ("key",), COLUMNS, HOUR_MS),
    "sliding": SlidingAggregate(Sliding(20), LISTS, ("key",), COLUMNS, HOUR_MS),
}


def segments() -> Iterator[pl.DataFrame]:
    """Yield 40 segments of 500 rows, a row a millisecond, each with a text of its own."""
    draw = np.random.default_rng(1)
    for first in range(0, 20_000, 500):
        at_ms = np.arange(first, first + 500)
        yield pl.DataFrame(
            {
                SOURCE: "raw/0",
                OFFSET: at_ms,
                SUB_ROW: 0,
                EVENT_TIME: at_ms,
                WATERMARK: np.maximum(at_ms - 1, 0),
                "key": draw.integers(0, 2_000, at_ms.size),
                "text": [f"{n:0>100}" for n in at_ms],
            },
            schema={**ROW_COLUMNS, SOURCE: pl.String(), **COLUMNS},
        )


@pytest.mark.parametrize("kind", BODIES)
def test_a_state_many_times_the_budget_stays_within_it(kind, tmp_path):
    body = BODIES[kind]
    store = SpillingBlocks(tmp_path / "blocks", BUDGET, 50 * KB)
    states = body.fresh(IN_MEMORY), body.fresh(store)
    before_ms = 0
    for rows in segments():
        clock_ms = rows[WATERMARK].to_numpy()[-1]
        panes = []
        for state in states:
            assert body.fold(rows, state).is_empty()
            panes.append(body.publish(state, before_ms, int(clock_ms)))
            state.changes()
            assert store.resident_bytes <= BUDGET
        assert panes[0].equals(panes[1])
        before_ms = int(clock_ms)

    assert states[0].size_bytes() > 5 * BUDGET
    restored = body.fresh(store)
    for piece in states[1].snapshot():
        restored.apply(piece)
        assert store.resident_bytes <= BUDGET
    last_ms = before_ms + 2 * HOUR_MS
    ends = [body.publish(state, before_ms, last_ms) for state in (states[0], restored)]
    assert ends[0].height > 0
    assert ends[0].equals(ends[1])
    store.close()
