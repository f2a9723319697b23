"""Measure aggregates that hold values: rows a second, and bytes of state for each open key.

python -m bench.aggregates [--rows 1000000] [--keys 10000] [--segment 20000]

Rows of one tumbling window are folded segment by segment on one core, as a task would; then the
window is published.  Bytes are those of a snapshot.
"""

import argparse
import time
from collections.abc import Iterator

import numpy as np
import polars as pl

from tidemark.core import aggregates
from tidemark.core.aggregate import Aggregation, Kind
from tidemark.core.segment import NEVER_MS, ROW_COLUMNS, SOURCE
from tidemark.core.window import Hopping
from tidemark.core.windowed import WindowAggregate
from tidemark.runtime.serde.frames import encode_frame

COLUMNS: dict[str, pl.DataType] = {"key": pl.Int64(), "user": pl.Int64(), "price": pl.Float64()}
KINDS: dict[str, Kind] = {
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


def _measured(kind: Kind, rows: pl.DataFrame, segment: int) -> str:
    body = WindowAggregate(
        Hopping(_SIZE_MS, _SIZE_MS, 0), Aggregation({"value": kind}, COLUMNS), ("key",), COLUMNS
    )
    state = body.fresh()
    segments = list(_segments(rows, segment))
    start_s = time.perf_counter()
    for part in segments:
        body.fold(part, state)
        state.changes()
    folded_s = time.perf_counter() - start_s
    size = sum(len(encode_frame(frame)) for frame in state.snapshot().values())
    start_s = time.perf_counter()
    panes = body.publish(state, NEVER_MS, _SIZE_MS)
    published_s = time.perf_counter() - start_s
    return f"{rows.height / folded_s:,.0f} | {published_s:.2f} | {size / panes.height:,.0f}"


def _segments(rows: pl.DataFrame, size: int) -> Iterator[pl.DataFrame]:
    for start in range(0, rows.height, size):
        yield rows[start : start + size]


def _rows(count: int, keys: int) -> pl.DataFrame:
    """Make rows of one window: users as hits of a site, prices as an exchange has them."""
    draw = np.random.default_rng(1)
    columns = {
        SOURCE: pl.Series(["trades/0"]).new_from_index(0, count),
        "@offset": np.arange(count),
        "@sub_row": np.zeros(count, np.int32),
        "@event_time": np.arange(count) * _SIZE_MS // count,
        "@watermark": np.full(count, NEVER_MS),
        "key": draw.integers(0, keys, count),
        "user": draw.zipf(1.3, count) % 1_000_000,
        "price": np.round(np.exp(draw.normal(4, 1, count)), 2),
    }
    return pl.DataFrame(columns, schema={**ROW_COLUMNS, SOURCE: pl.String(), **COLUMNS})


if __name__ == "__main__":
    main()
