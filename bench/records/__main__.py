"""Measure reading records of several shapes, from bytes to rows, on one core without Kafka.

python -m bench.records [--records 20000] [--rounds 15] [--beside CHECKOUT] [SHAPE ...]

Each round reads a batch of each shape in turn.  The columns of ratios are medians of the ratios
within a round, so other work on the machine hardly changes them.  With ``--beside``, each batch is
also read by the code of another checkout, which may lack some shapes.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.records.shapes import SHAPES

_ROOT = Path(__file__).parents[2]
_START = """
import sys
sys.path.insert(0, {root!r})
import bench
del sys.path[0]
from bench.records.worker import main
main()
"""
"""Of a worker: the benchmark from this checkout, the package from the current folder."""


class Worker:
    """A process that reads records with the code of a checkout."""

    def __init__(self, checkout: Path, records: int, stack: ExitStack) -> None:
        """Start it; ``stack`` ends it."""
        environment = {**os.environ, "POLARS_MAX_THREADS": "1", "PYTHONPATH": ""}
        self._process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", _START.format(root=str(_ROOT)), str(records)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                cwd=checkout,
                text=True,
            )
        )

    def cpu_s(self, shape: str) -> float:
        """Return the CPU seconds of one batch."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{shape}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.records", description=__doc__)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=", ".join(SHAPES))
    parser.add_argument("--records", type=int, default=20_000, help="records of a batch")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--beside", type=Path, help="the folder of another checkout")
    asked = parser.parse_args()
    shapes = ["flat", *(name for name in asked.shapes or SHAPES if name != "flat")]
    if unknown := [name for name in shapes if name not in SHAPES]:
        parser.error(f"no such shape: {', '.join(unknown)}; choose from {', '.join(SHAPES)}")
    checkouts = [_ROOT, *filter(None, [asked.beside])]
    with ExitStack() as stack:
        workers = [Worker(checkout, asked.records, stack) for checkout in checkouts]
        rounds = [
            [[worker.cpu_s(name) for worker in workers] for name in shapes]
            for _ in range(asked.rounds)
        ]
    beside = len(workers) > 1
    print(f"| shape | records/s | µs a record | times flat |{' times beside |' if beside else ''}")
    print(f"|---|--:|--:|--:|{'--:|' if beside else ''}")
    for number, name in enumerate(shapes):
        cells = [name, *_cells(asked.records, [(row[0][0], row[number]) for row in rounds])]
        print(f"| {' | '.join(cells)} |")
    return 0


def _cells(records: int, rounds: Sequence[tuple[float, Sequence[float]]]) -> list[str]:
    """Return the figures of a shape; ``rounds``: seconds of flat records, and of each checkout."""
    took_s = median(own_s for _, (own_s, *_) in rounds)
    ratios = [median(own_s / flat_s for flat_s, (own_s, *_) in rounds)]
    if len(rounds[0][1]) > 1:
        ratios.append(median(own_s / other_s for _, (own_s, other_s) in rounds))
    rate, each_us = records / took_s, took_s / records * 1e6
    return [f"{rate:,.0f}", f"{each_us:.2f}", *(f"{ratio:.3f}" for ratio in ratios)]


if __name__ == "__main__":
    sys.exit(main())
