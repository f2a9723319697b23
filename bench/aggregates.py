"""Measure aggregates that hold values: rows per second, and bytes of state per open key.

python -m bench.aggregates [--rows 1000000] [--keys 10000] [--segment 20000]

One core folds the rows of one tumbling window segment by segment, as a task does; then the window
is published.  Bytes are those of a snapshot.
"""

import argparse

import numpy as np
import polars as pl

from bench.meter import Meter, rows_of, segments
from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import AggregateFunction, Aggregation
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.windows.window import Hopping

COLUMNS: dict[str, pl.DataType] = {"key": pl.Int64(), "user": pl.Int64(), "price": pl.Float64()}
KINDS: dict[str, AggregateFunction] = {
    "count()": aggregates.count(),
    "variance": aggregates.variance("price"),
    "count_distinct": aggregates.count_distinct("user"),
    "count_distinct, approximate": aggregates.count_distinct("user", approximate=True),
    "median": aggregates.median("price"),
    "quantile, approximate": aggregates.quantile("price", 0.5, approximate=True),
    "top_k": aggregates.top_k("user", 10),
}
_SIZE_MS = 60_000


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.aggregates", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--segment", type=int, default=20_000, help="rows of a segment")
    asked = parser.parse_args()
    print("| aggregate | rows/s | publish, s | state, bytes per key |\n|---|--:|--:|--:|")
    for name, kind in KINDS.items():
        rows = _rows(asked.rows, asked.keys)
        print(f"| {name} | {_measured(kind, rows, asked.segment)} |", flush=True)


def _measured(kind: AggregateFunction, rows: pl.DataFrame, segment: int) -> str:
    body = WindowAggregate(
        Hopping(_SIZE_MS, _SIZE_MS, 0), Aggregation({"value": kind}, COLUMNS), ("key",), COLUMNS
    )
    meter = Meter(body, body.open())
    for part in segments(rows, segment):
        meter.fold(part)
    size = meter.state_bytes()
    meter.publish(_SIZE_MS)
    rate = meter.rows / meter.folded_s
    return f"{rate:,.0f} | {meter.published_s:.2f} | {size / meter.panes:,.0f}"


def _rows(count: int, keys: int) -> pl.DataFrame:
    """Return rows of one window: users as in hits of a site, prices as on an exchange."""
    draw = np.random.default_rng(1)
    values = {
        "key": draw.integers(0, keys, count),
        "user": draw.zipf(1.3, count) % 1_000_000,
        "price": np.round(np.exp(draw.normal(4, 1, count)), 2),
    }
    at_ms = np.arange(count) * _SIZE_MS // count
    return rows_of(at_ms, np.full(count, NEVER_MS), values, COLUMNS)


if __name__ == "__main__":
    main()
