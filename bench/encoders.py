"""Measure encoding results as JSON messages: CPU time per row, with the native library and without.

python -m bench.encoders [--rows 20000] [--rounds 15]

Each round encodes each shape both ways, in turn, so other work on the machine hardly changes the
ratio.  Rows are bids of Nexmark as q1 publishes them; panes are those of windows with a count and a
sum.
"""

import argparse
import time
from collections.abc import Mapping
from statistics import median
from unittest.mock import patch

import numpy as np
import polars as pl

from bench.nexmark.generator import BIDS, Settings, events
from tidemark.core.operators.ports import Port, pane_port
from tidemark.core.operators.rows import rows_port
from tidemark.core.windows.pane import END, RETRACTED, REVISION, START, TIMING
from tidemark.serde import json_rows
from tidemark.serde.json_results import JsonEncoder

Shape = tuple[Port, pl.DataFrame]

_KEY = {"user": pl.Int64()}
_BIDS_EACH = 0.9  # of all events


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.encoders", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000, help="rows that are encoded at once")
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    print("| shape | bytes a row | µs a row: native | without | ratio |")
    print("|---|--:|--:|--:|--:|")
    for name, (port, rows) in _shapes(asked.rows).items():
        encoder = JsonEncoder(port)
        taken = [_turn(encoder, rows) for _ in range(asked.rounds)]
        _, values = encoder.encode(rows)
        native_us, other_us = (median(each) for each in zip(*taken, strict=True))
        ratio = median(native / other for native, other in taken)
        size = values.size_bytes / rows.height
        print(f"| {name} | {size:,.0f} | {native_us:.2f} | {other_us:.2f} | {ratio:.2f} |")


def _turn(encoder: JsonEncoder, rows: pl.DataFrame) -> tuple[float, float]:
    """Return µs a row with the native library and without."""
    native_us = _each_us(encoder, rows)
    with patch.object(json_rows, "library", None):
        return native_us, _each_us(encoder, rows)


def _each_us(encoder: JsonEncoder, rows: pl.DataFrame) -> float:
    start_s = time.process_time()
    encoder.encode(rows)
    return (time.process_time() - start_s) / rows.height * 1e6


def _shapes(count: int) -> Mapping[str, Shape]:
    bids = events(0, int(count / _BIDS_EACH) + 1, Settings())[BIDS][:count].drop("n")
    bids = bids.with_columns(price=pl.col("price") * 0.908)
    by_place = rows_port((), bids.schema)
    by_key = rows_port(("auction",), bids.schema)
    placed = bids.with_columns(
        pl.lit("nexmark-bids").alias("_topic"),
        pl.lit(0, pl.Int32).alias("_partition"),
        pl.int_range(pl.len(), dtype=pl.Int64).alias("_offset"),
        pl.lit(0, pl.Int32).alias("_sub_row"),
        pl.col("at").alias("_event_time_ms"),
    )
    panes = pane_port(tuple(_KEY), _KEY, {"count": pl.Int64(), "sum": pl.Float64()})
    return {
        "rows without a key": (by_place, placed.select([*by_place.columns]).rechunk()),
        "rows of a key": (by_key, placed.select([*by_key.columns]).rechunk()),
        "panes": (panes, _panes(count).select([*panes.columns]).rechunk()),
        "100 panes": (panes, _panes(100).select([*panes.columns]).rechunk()),
    }


def _panes(count: int) -> pl.DataFrame:
    draw = np.random.default_rng(1)
    start_ms = draw.integers(0, 100, count) * 10_000 + 1_700_000_000_000
    return pl.DataFrame(
        {
            "user": draw.integers(0, 1_000_000, count),
            START: start_ms,
            END: start_ms + 10_000,
            REVISION: np.ones(count, np.int64),
            TIMING: ["on_time"] * count,
            "final": np.ones(count, np.bool_),
            RETRACTED: np.zeros(count, np.bool_),
            "count": draw.integers(1, 20, count),
            "sum": draw.random(count) * 1_000,
        }
    )


if __name__ == "__main__":
    main()
