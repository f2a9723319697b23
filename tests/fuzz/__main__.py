"""Fuzz ingest: python -m tests.fuzz [--records 1000000] [--seed 1] [--kafka RECORDS]."""

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.in_process import InProcess, Outcome
from tests.fuzz.on_kafka import LARGEST_BYTES, OnKafka
from tidemark.embedded.broker import Broker

_SHOWN = 20


def main() -> int:
    """Fuzz in process, in two cuts, and then through the service; return the exit status."""
    asked = _arguments()
    good = True
    if asked.records:
        begin_s = time.monotonic()
        outcome = InProcess(asked.seed, LARGEST_BYTES).run(asked.records, (1, 2))
        good &= report("in process, cut twice", outcome, time.monotonic() - begin_s)
    if asked.kafka:
        begin_s = time.monotonic()
        with TemporaryDirectory() as folder, Broker(Path(folder)) as broker:
            outcome = OnKafka(broker.address, "fuzz", asked.seed).run(asked.kafka)
        good &= report("through the service", outcome, time.monotonic() - begin_s)
    return 0 if good else 1


def report(what: str, outcome: Outcome, took_s: float) -> bool:
    """Print what a fuzz found; tell whether all is well."""
    for fault in outcome.faults[:_SHOWN]:
        print(f"FAULT {fault}")
    parts = " + ".join(f"{count:,} {name}" for name, count in outcome.counts.items())
    print(f"{what}: {outcome.records:,} records = {parts}")
    peak = f", at most {outcome.peak_bytes / 2**20:,.0f} MiB" if outcome.peak_bytes else ""
    print(f"  ingest took {outcome.ingest_s:,.0f} s{peak}; all of it {took_s:,.0f} s")
    print(f"  {len(outcome.faults)} faults", flush=True)
    return not outcome.faults


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="in process")
    parser.add_argument("--kafka", type=int, default=1_000_000, help="through the service")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
