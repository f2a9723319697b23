"""Measure windows, joins, patterns and rules: rows and panes per second, and bytes of state.

python -m bench.operators [--rows 1000000] [--segment 20000] [--only sessions]

One core folds rows into count and sum, segment by segment, as a task does.  The clock moves with
each segment, 2 s behind.  Sessions and tumbling windows that must be open are opened before; all
open windows are published after.  Bytes are those of a snapshot before the publication.  Seconds
are CPU time of the process, which other work on the machine distorts less than wall time.
joins/kernel.py, patterns/kernel.py and patterns/rules.py say how those are measured.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from bench.joins import kernel as joins
from bench.meter import Meter, Numbers, rows_of, segments
from bench.patterns import kernel as patterns
from bench.patterns import rules
from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.arrival.operator import ArrivalAggregate
from tidemark.core.operators.operator import WindowBody
from tidemark.core.operators.sessions.early import EarlySessionAggregate
from tidemark.core.operators.sessions.operator import SessionAggregate
from tidemark.core.operators.sliding.operator import SlidingAggregate
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.windows.arrival import GlobalWindow
from tidemark.core.windows.trigger import EveryRows, OnClose
from tidemark.core.windows.window import Hopping, Session, Sliding

COLUMNS: dict[str, pl.DataType] = {"key": pl.Int64(), "price": pl.Float64()}
KEY = ("key",)
SUMS = Aggregation({"count": aggregates.count(), "sum": aggregates.sum("price")}, COLUMNS)

_DISORDER_MS = 2_000
_ROWS_PER_S = 10_000
_PUBLISHED_AT_ONCE = 20_000
_HOT_GAP_MS = 50
_DISORDERED = 20_000
"""Rows of the hot key that come in random order before time moves on."""


@dataclass(frozen=True)
class Case:
    """An operator, the rows that open its windows, the measured rows, and the number of keys.

    ``closing``: the clock's values, in order, until all windows have closed.
    """

    name: str
    body: WindowBody
    keys: int
    opening: pl.DataFrame
    timed: pl.DataFrame
    closing: Numbers


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.operators", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--segment", type=int, default=20_000, help="rows of a segment")
    parser.add_argument("--only", default="", help="how the names of operators begin")
    asked = parser.parse_args()
    print(
        "| operator | keys | rows/s | ms a segment: median, most "
        "| panes | panes/s | state, bytes per open key |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name, case in _cases(asked.rows):
        if name.startswith(asked.only):
            print(_measured(case(), asked.segment), flush=True)
    print("\n| join | keys | rows/s | ms a segment: median, most | results | state, bytes |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, join in joins.cases():
        if name.startswith(asked.only):
            print(joins.measured(join(), asked.rows, asked.segment), flush=True)
    print(
        "\n| pattern | keys | rows that fit | µs a row | µs a row that fits "
        "| ms a segment: median, most | results | state, bytes |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for name, pattern in patterns.cases():
        if name.startswith(asked.only):
            print(patterns.measured(pattern(), asked.rows, asked.segment), flush=True)
    print("\n| rules | number | µs a row | ms a segment: median, most | results |")
    print("|---|--:|--:|--:|--:|")
    for name, case_of_rules in rules.cases():
        if name.startswith(asked.only):
            print(rules.measured(case_of_rules(), asked.rows, asked.segment), flush=True)


def _cases(count: int) -> Iterator[tuple[str, Callable[[], Case]]]:
    hopping = WindowAggregate(Hopping(10_000, 1_000), SUMS, KEY, COLUMNS)
    yield "hopping", partial(_moving, "hopping, 10 s by 1 s", hopping, count)
    sliding = SlidingAggregate(Sliding(10_000), SUMS, KEY, COLUMNS)
    yield "sliding", partial(_moving, "sliding, 10 s", sliding, count)
    rolling = ArrivalAggregate(GlobalWindow(), SUMS, KEY, COLUMNS, EveryRows(1))
    yield "rolling", partial(_moving, "rolling, a pane for each row", rolling, count)
    for keys in (10_000, 100_000, 1_000_000):
        yield "sessions", partial(_sessions, keys, count)
    yield "sessions", partial(_sessions, 1_000_000, count, busy=10_000)
    yield "sessions", partial(_hot, count)
    for opened in (1, 1_000):
        yield "tumbling", partial(_open, Hopping(10_000, 10_000), opened, count, spread=False)
    for windows in (Hopping(10_000, 10_000), Hopping(10_000, 1_000)):
        name = "tumbling" if windows.slide_ms == windows.size_ms else "hopping"
        yield name, partial(_open, windows, 1_000, count, spread=True)


def _measured(case: Case, segment: int) -> str:
    opening = Meter(case.body, case.body.open())
    for part in segments(case.opening, segment):
        opening.fold(part)
    meter = Meter(case.body, opening.state)
    for part in segments(case.timed, segment):
        meter.fold(part)
        meter.publish(int(part["@watermark"].to_numpy()[-1]))
    size = meter.state_bytes()
    for clock_ms in case.closing.tolist():
        meter.publish(clock_ms)
    steps_ms = np.array(meter.steps_s) * 1_000
    folds_panes = isinstance(case.body, ArrivalAggregate)  # and publish only returns them
    panes_per_s = "-" if folds_panes else f"{meter.panes / meter.published_s:,.0f}"
    return (
        f"| {case.name} | {case.keys:,} | {meter.rows / meter.folded_s:,.0f} "
        f"| {np.median(steps_ms):,.0f}, {steps_ms.max():,.0f} | {meter.panes:,} "
        f"| {panes_per_s} | {size / case.keys:,.0f} |"
    )


def _moving(name: str, body: WindowBody, count: int) -> Case:
    """Return a case whose time moves on, so each window is open only for its size."""
    timed = _stream(count, 10_000, start_ms=0)
    last_ms = _lasts_ms(count)
    return Case(name, body, 10_000, timed.clear(), timed, _steps(last_ms, last_ms + 10_001, 1))


def _sessions(keys: int, count: int, busy: int | None = None) -> Case:
    """Return a case with a session open per key; rows extend those of all or of ``busy`` keys."""
    opening = _stream(keys, keys, start_ms=0).with_columns(pl.Series("key", np.arange(keys)))
    opened_ms = _lasts_ms(keys)
    timed = _stream(count, busy or keys, start_ms=opened_ms)
    last_ms = opened_ms + _lasts_ms(count)
    gap_ms = last_ms + 1
    closing = _steps(gap_ms - _DISORDER_MS, last_ms + gap_ms, keys // _PUBLISHED_AT_ONCE)
    body = SessionAggregate(Session(gap_ms), SUMS, KEY, COLUMNS)
    where = f", rows of {busy:,}" if busy else ""
    return Case(f"sessions, {keys:,} open{where}", body, keys, opening, timed, closing)


def _hot(count: int) -> Case:
    """Return a case in which one key jumps between sessions, with an early pane per row."""
    draw = np.random.default_rng(1)
    now_ms = np.arange(count) // _DISORDERED * _DISORDERED * _HOT_GAP_MS
    at_ms = now_ms + draw.integers(0, _DISORDERED * _HOT_GAP_MS, count)
    timed = _rows(at_ms, np.zeros(count, np.int64), now_ms - 1)
    sessions = SessionAggregate(
        Session(_HOT_GAP_MS), SUMS, KEY, COLUMNS, trigger=OnClose(EveryRows(1))
    )
    closing = np.array([count * _HOT_GAP_MS * 2])
    body = EarlySessionAggregate(sessions)
    return Case("sessions, early, of one hot key", body, 1, timed.clear(), timed, closing)


def _open(windows: Hopping, opened: int, count: int, *, spread: bool) -> Case:
    """Return a case with windows open for all keys; rows fall into the last window or into all."""
    slide_ms, keys = windows.slide_ms, 1_000
    draw = np.random.default_rng(1)
    number = np.repeat(np.arange(opened), keys)
    opening = _rows(number * slide_ms, np.tile(np.arange(keys), opened), NEVER_MS)
    number = draw.integers(0, opened, count) if spread else np.full(count, opened - 1)
    at_ms = number * slide_ms + np.arange(count) * slide_ms // count
    timed = _rows(at_ms, draw.integers(0, keys, count), NEVER_MS)
    kind = "tumbling" if slide_ms == windows.size_ms else "hopping, 10 s by 1 s"
    where = ", rows in all of them" if spread else ", rows in the last" if opened > 1 else ""
    return Case(
        f"{kind}, {opened:,} open{where}",
        WindowAggregate(windows, SUMS, KEY, COLUMNS),
        keys,
        opening,
        timed,
        _steps(0, opened * slide_ms + windows.size_ms, opened * keys // _PUBLISHED_AT_ONCE),
    )


def _stream(count: int, keys: int, start_ms: int) -> pl.DataFrame:
    """Return rows of random keys, out of order but never late."""
    draw = np.random.default_rng(1)
    now_ms = start_ms + np.arange(count) * 1_000 // _ROWS_PER_S
    at_ms = now_ms - draw.integers(0, _DISORDER_MS, count)
    return _rows(at_ms, draw.integers(0, keys, count), now_ms - _DISORDER_MS)


def _rows(at_ms: Numbers, keys: Numbers, watermark_ms: Numbers | int) -> pl.DataFrame:
    prices = np.round(np.exp(np.random.default_rng(2).normal(4, 1, at_ms.size)), 2)
    watermarks = np.broadcast_to(np.int64(watermark_ms), at_ms.shape)
    return rows_of(at_ms, watermarks, {"key": keys, "price": prices}, COLUMNS)


def _lasts_ms(count: int) -> int:
    return count * 1_000 // _ROWS_PER_S


def _steps(after_ms: int, until_ms: int, count: int) -> Numbers:
    return np.linspace(after_ms, until_ms, max(1, count) + 1).astype(np.int64)[1:]


if __name__ == "__main__":
    main()
