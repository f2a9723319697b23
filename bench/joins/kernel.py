"""Joins for ``bench.operators``: rows per second of both inputs together, and bytes of state.

Half of the rows of a segment are of each input, out of order but never late; of a broadcast table,
a few are versions.  The clock moves with each segment.  So a step is all that a task does: search,
publish, purge, and collect the changes.  Seconds are CPU time of the process.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import get_args

import numpy as np
import polars as pl

from bench.meter import rows_of
from tidemark.core.operators.joins.broadcast.operator import BroadcastJoin
from tidemark.core.operators.joins.side import Kind, Side
from tidemark.core.operators.joins.stream_join import StreamJoin
from tidemark.core.operators.joins.table_join import TableJoin, Wait
from tidemark.core.operators.operator import Body, Frames
from tidemark.core.time.row_watermarks import ORDER
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, SOURCE, WATERMARK
from tidemark.serde.frames import encode_frame

COLUMNS: dict[str, pl.DataType] = {"key": pl.Int64(), "price": pl.Float64()}
LEFT, RIGHT = Side("left", COLUMNS, {"price": "price"}), Side("right", COLUMNS, {"price": "quote"})
RULES = Side("right", COLUMNS, {"key": "rule", "price": "quote"})

_DISORDER_MS = 2_000
_ROWS_PER_S = 10_000
_WEEK_MS = 7 * 86_400_000


@dataclass(frozen=True)
class JoinCase:
    """A join, its number of keys, and the rows of the right input that it has before.

    ``versions``: how many rows of a segment are of the right input, of the keys that it has before.
    None: half of the rows, of all keys.
    """

    name: str
    body: Body
    keys: int
    opening: int = 0
    versions: int | None = None


def cases() -> Iterator[tuple[str, Callable[[], JoinCase]]]:
    """Yield the cases, with the names that ``--only`` takes."""
    for how in get_args(Kind):
        yield "join", partial(_join, how, 100_000)
    yield "join", partial(_join, "full", 100_000, on_close=True, lateness_ms=10_000)
    yield "join", partial(_join, "inner", 100)
    for keys, opening in ((10_000, 0), (1, 0), (1_000_000, 1_000_000)):
        yield "table", partial(_table, keys, opening)
    yield "table", partial(_table, 10_000, 0, wait="arrival")
    yield "table", partial(_table, 10_000, 0, on_close=True, lateness_ms=10_000)
    yield "broadcast", partial(_broadcast, 1_000, pl.col("key") == pl.col("rule"), "by key")
    over = pl.col("price") > pl.col("quote") + 0.9
    yield "broadcast", partial(_broadcast, 100, over, "compared with all")


def _join(how: Kind, keys: int, *, on_close: bool = False, lateness_ms: int = 0) -> JoinCase:
    """Return a join within 10 s: of 100,000 keys, a row has one partner on average."""
    reach_ms = 10_000 if keys > 1_000 else 10
    bounds = (-reach_ms, reach_ms)
    body = StreamJoin(
        ("key",), LEFT, RIGHT, how, *bounds, lateness_ms, on_close=on_close, self_join=False
    )
    options = f", within {reach_ms:,} ms" + ", corrected for 10 s" * on_close
    return JoinCase(f"join, {how}{options}", body, keys)


def _table(
    keys: int,
    opening: int,
    *,
    wait: Wait = "event_time",
    on_close: bool = False,
    lateness_ms: int = 0,
) -> JoinCase:
    body = TableJoin(("key",), LEFT, RIGHT, "left", _WEEK_MS, lateness_ms, wait, on_close)
    options = ", on arrival" if wait == "arrival" else ", corrected for 10 s" if on_close else ""
    return JoinCase(f"table{options}", body, keys, opening)


def _broadcast(rules: int, condition: pl.Expr, which: str) -> JoinCase:
    """Return a join with rules; ``which``: of them a row meets."""
    body = BroadcastJoin(("key",), ("key",), LEFT, RULES, "inner", _WEEK_MS, condition)
    return JoinCase(f"broadcast, {rules:,} rules, {which}", body, 10_000, rules, versions=20)


def measured(case: JoinCase, count: int, segment: int) -> str:
    """Return a line of the table."""
    body, state = case.body, case.body.open()
    draw = np.random.default_rng(1)
    for first in range(0, case.opening, segment):
        body.process(_opening(first, min(first + segment, case.opening)), state)
        state.changes()
    before_ms, results, steps_s = NEVER_MS, 0, []
    for first in range(0, count, segment):
        sides = _sides(draw, first, segment, case)
        clock_ms = (first + segment) * 1_000 // _ROWS_PER_S - _DISORDER_MS
        start_s = time.process_time()
        processed = body.process(sides, state)
        advanced = body.advance(state, before_ms, clock_ms)
        state.changes()
        state.purge(clock_ms)
        steps_s.append(time.process_time() - start_s)
        results += sum(made["rows"].height for made in (processed, advanced) if "rows" in made)
        before_ms = clock_ms
    size = sum(len(encode_frame(each)) for piece in state.snapshot() for each in piece.values())
    steps_ms = np.array(steps_s) * 1_000
    return (
        f"| {case.name} | {case.keys:,} | {count / sum(steps_s):,.0f} "
        f"| {np.median(steps_ms):,.0f}, {steps_ms.max():,.0f} | {results:,} | {size:,} |"
    )


def _sides(draw: np.random.Generator, first: int, count: int, case: JoinCase) -> Frames:
    """Return the rows of a segment: those of the right input come first in the log."""
    half = count // 2
    sizes = {RIGHT.name: half, LEFT.name: half}
    keys = dict.fromkeys(sizes, case.keys)
    if case.versions is not None:
        sizes = {RIGHT.name: case.versions, LEFT.name: count - case.versions}
        keys[RIGHT.name] = case.opening
    made, order = {}, 0
    for side, each in sizes.items():
        now_ms = (first + np.arange(each) * count // each) * 1_000 // _ROWS_PER_S
        at_ms = now_ms - draw.integers(0, _DISORDER_MS, each)
        values = {"key": draw.integers(0, keys[side], each), "price": draw.random(each)}
        rows = rows_of(at_ms, now_ms - _DISORDER_MS, values, COLUMNS)
        made[side] = rows.with_columns(
            pl.lit(f"{side}/0").alias(SOURCE), pl.Series(ORDER, order + np.arange(each))
        )
        order += each
    return made


def _opening(first: int, stop: int) -> Frames:
    """Return one row of the right input for each key from first to stop - 1."""
    prices = np.random.default_rng(first).random(stop - first)
    values = {"key": np.arange(first, stop), "price": prices}
    at_ms = np.full(stop - first, -_DISORDER_MS)
    rows = rows_of(at_ms, np.full(stop - first, NEVER_MS), values, COLUMNS)
    rows = rows.with_columns(pl.Series(ORDER, np.arange(stop - first)))
    assert (rows[WATERMARK] < rows[EVENT_TIME]).all()
    return {RIGHT.name: rows, LEFT.name: rows.clear()}
