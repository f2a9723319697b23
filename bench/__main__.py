"""Measure Tidemark beside other stream processors.

python -m bench [--n 2000000] [--users 10000] [--write FILE] [peer ...]

A peer is a name of the harness or a prefix of names; by default Tidemark and Flink, exactly once.
BENCH_HARNESS is the harness's folder.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from bench.peers import brokers, report
from bench.peers.harness import FOLDER, Harness

_TIMEOUT_S = 600


def main() -> int:
    """Run the peers one after another and print their results; status 1 if one is wrong."""
    asked = _arguments()
    folder = Path(os.environ.get("BENCH_HARNESS", FOLDER)).resolve()
    if not (folder / "run.py").is_file():
        print(f"no harness in {folder}: set BENCH_HARNESS to its folder", file=sys.stderr)
        return 2
    harness = Harness(folder)
    with _broker(folder, harness) as address:
        harness.use(address)
        rows = _measured(harness, asked)
    medians = report.medians(rows)
    table = harness.table(medians)
    lines = report.ratios(medians)
    print("\n" + table + "".join(f"\n{line}" for line in lines))
    if asked.write:
        report.replace_section(asked.write, "\n".join([table, *(f"* {line}" for line in lines)]))
    return 0 if all(map(_is_right, rows)) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument("peers", nargs="*", default=["tidemark-eos", "flink-eos"])
    parser.add_argument("--n", type=int, default=2_000_000, help="records")
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--repeat", type=int, default=1, help="runs of each peer, in turns; the medians count"
    )
    parser.add_argument("--write", type=Path, help="Markdown file whose results to replace")
    return parser.parse_args()


def _broker(folder: Path, harness: Harness) -> AbstractContextManager[str]:
    if brokers.is_set_up(harness.work):
        return brokers.harness_broker(folder, harness.work, harness.address)
    print(f"The harness's broker is not set up ({folder}/setup.sh does it): Tidemark runs alone.")
    return brokers.embedded_broker(harness.work)


def _measured(harness: Harness, asked: argparse.Namespace) -> list[dict[str, Any]]:
    topic = harness.fill(asked.n, asked.users, asked.seed)
    reference = harness.run.reference(asked.n, asked.users, asked.seed)
    peers = harness.peers()
    chosen = _chosen(asked.peers, list(peers))
    rows = []
    for _ in range(asked.repeat):
        for name in chosen:
            row = harness.measure(name, peers[name], asked.n, reference, topic, _TIMEOUT_S)
            rows.append(row)
            print(harness.table([row]).splitlines()[-1], flush=True)
            if not _is_right(row):
                print("   ", {k: v for k, v in row.items() if k in _WHY}, flush=True)
    return rows


_WHY = (
    "wrong",
    "wrong_example",
    "missing",
    "missing_back_ms",
    "dup",
    "expected_closed",
    "rc",
    "log",
)


def _is_right(row: Mapping[str, Any]) -> bool:
    """Return whether the results are right; peers that only show a limit have none."""
    return row["job"] is None or bool(row.get("correct"))


def _chosen(asked: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the peers that the words name, in full or by prefix; print missing ones."""
    chosen = []
    for word in asked:
        found = [name for name in names if name == word or name.startswith(f"{word}-")]
        if not found:
            print(f"{word}: no such peer, or not set up by the harness's setup.sh")
        chosen += found
    return chosen


if __name__ == "__main__":
    sys.exit(main())
