"""Measure how fast sinks take panes: rows per second, of new panes and of corrections.

python -m bench.sinks [--rows 400000] [--batch 20000] [ADDRESS ...]

An ADDRESS has a form of TIDEMARK_SINK, such as postgresql://user:password@host/database; its table
bench_pops is dropped first.  By default, sinks write files in a temporary folder.  Records are JSON
as in topics, and the time includes their decoding, as in the service.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import polars as pl

from tidemark.core.rows.schema import INSTANT
from tidemark.partition import Partition
from tidemark.sinks.open import open_sink
from tidemark.sinks.rows import decode
from tidemark.sinks.sink import Batch, Move, Sink
from tidemark.sinks.table import Table

TABLE = Table(
    topic="bench.pops",
    name="bench_pops",
    columns={
        "player": pl.String(),
        "window_start": INSTANT,
        "window_end": INSTANT,
        "revision": pl.Int64(),
        "timing": pl.String(),
        "final": pl.Boolean(),
        "pops": pl.Int64(),
        "score": pl.Int64(),
        "mean": pl.Float64(),
    },
    key=("window_start", "player"),
    comment="Panes of a benchmark",
    window=("window_start", "player"),
    record_key=("player",),
    members={"window_start": "start", "window_end": "end"},
    instants=frozenset({"window_start", "window_end"}),
)
AT = Partition(TABLE.topic, 0)
PLAYERS = 10_000
_WINDOW_MS = 60_000
_START_MS = 1_772_438_400_000


def main() -> None:
    """Print a line for each sink and round."""
    asked = _arguments()
    rounds = [_records(asked.rows, revision) for revision in (1, 2)]
    print(f"{asked.rows:,} rows a round, {asked.batch:,} a transaction")
    with tempfile.TemporaryDirectory() as folder:
        for address in asked.addresses or _files(Path(folder)):
            _measure(address, rounds, asked.batch)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.sinks")
    parser.add_argument("addresses", nargs="*", metavar="ADDRESS")
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--batch", type=int, default=20_000)
    return parser.parse_args()


def _files(folder: Path) -> list[str]:
    paths = {
        "sqlite": "results.db",
        "duckdb": "results.duckdb",
        "parquet": "files",
        "jsonl": "lines",
    }
    return [f"{kind}:{folder / name}" for kind, name in paths.items()]


def _records(rows: int, revision: int) -> list[bytes]:
    encode = msgspec.json.Encoder().encode
    return [
        encode(
            {
                "player": f"player{n % PLAYERS}",
                "start": (start_ms := _START_MS + n // PLAYERS * _WINDOW_MS),
                "end": start_ms + _WINDOW_MS,
                "revision": revision,
                "timing": "on_time",
                "final": False,
                "pops": n,
                "score": n * revision,
                "mean": n / 7,
            }
        )
        for n in range(rows)
    ]


def _measure(address: str, rounds: Sequence[Sequence[bytes]], size: int) -> None:
    sink = open_sink(address)
    try:
        _forget(sink)
        sink.prepare([TABLE])
        end = 0
        for name, records in zip(("new", "corrections"), rounds, strict=True):
            wall_s, cpu_s = time.perf_counter(), time.process_time()
            for batch in _batches(records, end, size):
                sink.write([batch])
            end += len(records)
            wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
            rate = f"{len(records) / wall_s:>9,.0f} rows/s"
            print(
                f"{address.partition(':')[0]:12} {name:12} {rate}  {cpu_s:.1f} CPU s here",
                flush=True,
            )
    finally:
        sink.close()


def _forget(sink: Sink) -> None:
    """Drop the tables of an earlier run, if the sink is a database."""
    run = getattr(sink, "run", None)
    if run is None:
        return
    for view in ("latest", "final"):
        run(f"DROP VIEW IF EXISTS {TABLE.name}_{view}")
    run(f"DROP TABLE IF EXISTS {TABLE.name}")
    sink.prepare([])
    run(f"DELETE FROM tidemark_positions WHERE topic = '{TABLE.topic}'")


def _batches(records: Sequence[bytes], first: int, size: int) -> Iterator[Batch]:
    bounds = [*range(0, len(records), size), len(records)]
    for begin, end in pairwise(bounds):
        values = records[begin:end]
        offsets = range(first + begin, first + end)
        move = Move(offsets.start or None, offsets.stop, "bench")
        decoded = decode(TABLE, values)
        if decoded.bad:
            raise ValueError(f"a record is refused: {decoded.bad[0]}")
        yield Batch(TABLE, AT, move, decoded.rows, offsets, [b"[]"] * len(values), values)


if __name__ == "__main__":
    main()
