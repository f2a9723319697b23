"""Measure what the ages of open windows cost: CPU time of one count, as stats take it.

python -m bench.open_ages [--windows 1000000]

The windows began within two hours, each of another key.  The figure is the lowest of five counts.
"""

import argparse
import time
from collections.abc import Iterator

import numpy as np
import polars as pl

from bench.meter import rows_of, segments
from bench.operators import COLUMNS, KEY, SUMS
from tidemark.core.operators.operator import State
from tidemark.core.operators.ordered.distinct import Distinct
from tidemark.core.operators.sessions.operator import SessionAggregate
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.windows.open_bounds import ages_of
from tidemark.core.windows.window import Session
from tidemark.runtime.service.histogram import BOUNDS_MS

_SPAN_MS = 7_200_000
_SEGMENT_ROWS = 20_000


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.open_ages", description=__doc__)
    parser.add_argument("--windows", type=int, default=1_000_000)
    rows = _rows(parser.parse_args().windows)
    print("| open | number | ms a count |\n|---|--:|--:|")
    for name, state in _states(rows):
        took_ms = min(_count_ms(state) for _ in range(5))
        print(f"| {name} | {state.open_windows():,} | {took_ms:.1f} |", flush=True)


def _count_ms(state: State) -> float:
    start_s = time.process_time()
    ages = ages_of(state.open_bounds(), _SPAN_MS, BOUNDS_MS)
    took_ms = (time.process_time() - start_s) * 1_000
    assert sum(ages.counts) == state.open_windows(), "windows without an age"
    return took_ms


def _rows(count: int) -> pl.DataFrame:
    draw = np.random.default_rng(1)
    values = {"key": draw.permutation(count), "price": np.ones(count)}
    at_ms = draw.integers(0, _SPAN_MS, count)
    return rows_of(at_ms, np.full(count, NEVER_MS), values, COLUMNS)


def _states(rows: pl.DataFrame) -> Iterator[tuple[str, State]]:
    body = SessionAggregate(Session(2 * _SPAN_MS), SUMS, KEY, COLUMNS)
    sessions = body.open()
    distinct = Distinct(KEY, 2 * _SPAN_MS)
    kept = distinct.open()
    for part in segments(rows, _SEGMENT_ROWS):
        body.fold(part, sessions)
        distinct.take(part, kept)
    yield "sessions", sessions
    yield "keys of distinct_by", kept


if __name__ == "__main__":
    main()
