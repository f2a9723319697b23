"""A snapshot is the state at the moment it was asked for, in pieces that have nothing in common."""

import random
from collections.abc import Iterable
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tidemark import (
    Pipeline,
    bounded,
    count,
    count_window,
    every,
    on_close,
    session,
    sliding,
    tumbling,
)
from tidemark import sum as total
from tidemark.core.operators.operator import Changes
from tidemark.core.state import blocks, line_table
from tidemark.core.time.segment import (
    ARRIVAL,
    EVENT_TIME,
    OFFSET,
    ROW_COLUMNS,
    SOURCE,
    SUB_ROW,
    WATERMARK,
)

KEYS = 40
WINDOWS: dict[str, tuple[Any, dict[str, Any]]] = {
    "tumbling": (tumbling("20ms"), {}),
    "early": (tumbling("20ms"), {"trigger": on_close(early=every(rows=2))}),
    "gaps": (tumbling("20ms"), {"empty": True}),
    "sessions": (session("5ms"), {}),
    "early sessions": (session("5ms"), {"trigger": on_close(early=every(rows=2))}),
    "sliding": (sliding("9ms"), {}),
    "arrival": (count_window(7), {}),
}


def body_of(kind):
    windows, options = WINDOWS[kind]
    pipeline = Pipeline("game")
    rows = pipeline.source(
        "moves", schema={"key": str, "at": int, "v": int}, event_time="at", watermark=bounded("1s")
    )
    lateness: dict[str, Any] = {} if kind == "arrival" else {"allowed_lateness": "10ms"}
    stream = rows.key_by("key").window(windows, **lateness, **options)
    stream.aggregate(n=count(), v=total("v")).to("out")
    (plan,) = pipeline.plan().operators
    return plan.operator


def rows_at(begin_ms: int, columns, draw: random.Random) -> pl.DataFrame:
    """Return rows of many keys within some windows, a tenth of them behind their watermark."""
    at = [begin_ms + draw.randrange(40) for _ in range(3 * KEYS)]
    made = {
        SOURCE: ["moves/0"] * len(at),
        OFFSET: range(begin_ms * 1_000, begin_ms * 1_000 + len(at)),
        SUB_ROW: [0] * len(at),
        EVENT_TIME: at,
        WATERMARK: [ms + draw.choice((0,) * 9 + (25,)) for ms in at],
        ARRIVAL: range(begin_ms * 1_000, begin_ms * 1_000 + len(at)),
        "key": [f"k{draw.randrange(KEYS)}" for _ in at],
        "at": at,
        "v": [draw.randrange(100) for _ in at],
    }
    schema = {**ROW_COLUMNS, SOURCE: pl.String(), ARRIVAL: pl.Int64(), **columns}
    return pl.DataFrame({name: made[name] for name in schema}, schema=schema)


def content(pieces: Iterable[Changes]) -> dict[str, pl.DataFrame]:
    """Return all lines of a snapshot by the names of frames, in one order."""
    found: dict[str, list[pl.DataFrame]] = {}
    for piece in pieces:
        for name, frame in piece.items():
            found.setdefault(name, []).append(frame)
    joined = {name: pl.concat(frames, how="diagonal") for name, frames in found.items()}
    return {name: frame.select(sorted(frame.columns)) for name, frame in joined.items()}


@pytest.mark.parametrize("kind", WINDOWS)
def test_a_snapshot_stays_as_it_was_and_its_pieces_apply_in_any_order(kind, monkeypatch):
    monkeypatch.setattr(blocks, "PIECE_BYTES", 500)
    monkeypatch.setattr(line_table, "PIECE_LINES", 9)
    draw = random.Random(kind)
    operator = body_of(kind)
    body, state = operator.body, operator.body.fresh()

    def segment(begin_ms: int, before_ms: int, clock_ms: int) -> None:
        body.fold(rows_at(begin_ms, operator.columns, draw), state)
        body.publish(state, before_ms, clock_ms)
        state.purge(clock_ms)

    segment(0, 0, 5)
    segment(10, 5, 30)
    assert state.size_bytes() > 0
    at_once, later = list(state.snapshot()), state.snapshot()
    segment(30, 30, 55)
    segment(60, 55, 200)

    pieces = list(later)
    assert len(pieces) > 2
    draw.shuffle(pieces)
    restored = body.fresh()
    for piece in pieces:
        restored.apply(piece)
    restored.validate()
    wanted, got = content(at_once), content(restored.snapshot())
    assert wanted.keys() == got.keys()
    for name, lines in wanted.items():
        assert_frame_equal(got[name].select(lines.columns), lines, check_row_order=False)
