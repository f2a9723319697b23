"""Compare the state backends: rows per second, size of the state, and memory.

python -m bench.backends [--rows 1000000] [--memory-mb 16]

One operator gets the same segments with blocks in memory, and with RocksDB and a memory budget.
Each run is a process of its own, so that its peak of memory is its own.  The ratio is of CPU
seconds.  The windows with lists stay open for their allowed lateness, so their state is several
times the budget.
"""

import argparse
import multiprocessing
import resource
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from bench.meter import Meter, rows_of, segments
from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.operator import WindowBody
from tidemark.core.operators.sessions.operator import SessionAggregate
from tidemark.core.state.block_store import IN_MEMORY
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.windows.window import Hopping, Session
from tidemark.runtime.backends.backend import RocksBackend

COLUMNS: dict[str, pl.DataType] = {"key": pl.Int64(), "price": pl.Float64()}
KEY = ("key",)
_SEGMENT = 20_000
_HOUR_MS = 3_600_000
_MB = 2**20


@dataclass(frozen=True)
class Figures:
    """The cost of a run: CPU seconds, MB of state, and peak MB of the process."""

    cpu_s: float
    state_mb: float
    peak_mb: float


def _sessions() -> WindowBody:
    aggregation = Aggregation({"n": aggregates.count(), "sum": aggregates.sum("price")}, COLUMNS)
    return SessionAggregate(Session(_HOUR_MS), aggregation, KEY, COLUMNS)


def _lists() -> WindowBody:
    aggregation = Aggregation({"all": aggregates.collect("price")}, COLUMNS)
    return WindowAggregate(Hopping(1_000, 1_000), aggregation, KEY, COLUMNS, _HOUR_MS)


CASES: dict[str, Callable[[], WindowBody]] = {
    "sessions of 1,000,000 keys": _sessions,
    "tumbling, lists of all values": _lists,
}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.backends", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--memory-mb", type=int, default=16)
    asked = parser.parse_args()
    print("| state | MB | rows/s memory | rows/s rocksdb | ratio | peak MB memory | rocksdb |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for name in CASES:
            memory = pool.apply(_measured, (name, asked.rows, None))
            rocks = pool.apply(_measured, (name, asked.rows, asked.memory_mb))
            print(
                f"| {name} | {memory.state_mb:,.0f} | {asked.rows / memory.cpu_s:,.0f} "
                f"| {asked.rows / rocks.cpu_s:,.0f} | {memory.cpu_s / rocks.cpu_s:.2f} "
                f"| {memory.peak_mb:,.0f} | {rocks.peak_mb:,.0f} |",
                flush=True,
            )


def _measured(name: str, count: int, memory_mb: int | None) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        backend = None if memory_mb is None else RocksBackend(Path(folder), memory_mb * _MB)
        body = CASES[name]()
        meter = Meter(body, body.open(IN_MEMORY if backend is None else backend.store))
        for rows in _segments(count):
            meter.fold(rows)
            meter.publish(int(rows["@watermark"].to_numpy()[-1]))
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        figures = Figures(
            meter.folded_s + meter.published_s, meter.state.size_bytes() / _MB, peak_mb
        )
        if backend is not None:
            backend.close()
    return figures


def _segments(count: int) -> Iterator[pl.DataFrame]:
    """Yield segments of rows with random keys, 10,000 per second, in order of time."""
    draw = np.random.default_rng(1)
    for first in range(0, count, _SEGMENT):
        at_ms = np.arange(first, min(first + _SEGMENT, count)) // 10
        columns = {
            "key": draw.integers(0, 1_000_000, at_ms.size),
            "price": draw.random(at_ms.size),
        }
        watermark_ms = np.maximum(at_ms - 1, NEVER_MS)
        yield from segments(rows_of(at_ms, watermark_ms, columns, COLUMNS), _SEGMENT)


if __name__ == "__main__":
    main()
