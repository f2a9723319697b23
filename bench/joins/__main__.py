"""Run joins as services on a broker, beside Flink SQL, and check every row of their results.

python -m bench.joins [--n 2000000] [--partitions 4] [--flink] [within table]

Half of the n events are orders, half payments; none is late.  Results are compared with SQL over
all events.  Rates count the events of both topics, per second from the first commit to the end of
all input, and per CPU second of all services or of Flink.  Status 1 if any row differs.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench.cpu import used_s
from bench.joins.queries import FLINK, JOINS, events
from bench.nexmark import on_kafka
from bench.nexmark.flink.runner import Flink, flink_folder
from bench.nexmark.reference import Reference
from tidemark.embedded.broker import Broker


def main() -> int:
    """Print a table; return 1 if any row differs."""
    parser = argparse.ArgumentParser(prog="python -m bench.joins", description=__doc__)
    parser.add_argument("joins", nargs="*", default=[*JOINS], help="by default all")
    parser.add_argument("--n", type=int, default=2_000_000, help="events")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--partitions", type=int, default=4, help="of each topic")
    parser.add_argument("--flink", action="store_true", help="run Flink SQL too, where it can")
    asked = parser.parse_args()
    for name in asked.joins:
        if name not in JOINS:
            parser.error(f"unknown join {name!r}; choose from {', '.join(JOINS)}")
    with tempfile.TemporaryDirectory() as folder:
        wrong = [not is_equal for is_equal in _runs(asked, Path(folder))]
    return int(any(wrong))


def _runs(asked: argparse.Namespace, folder: Path) -> Iterator[bool]:
    """Run joins on a broker of their own; yield for each whether its results are right."""
    made = events(asked.n, asked.partitions, asked.seed)
    reference = Reference(made, folder)
    flink = Flink(flink_folder()) if asked.flink else None
    with Broker(folder / "broker") as broker:
        source = on_kafka.Input(broker.address, made, asked.partitions)
        print("| join | rows | difference | events/s | events/CPU s | broker CPU s | load |")
        print("|---|--:|---|--:|--:|--:|--:|")
        for name in asked.joins:
            query = JOINS[name]
            ours = partial(on_kafka.run, name, query, source, reference, "bench.joins.job")
            yield _reported(name, ours, asked.n, broker.pid or 0)
            if flink is not None and name in FLINK:
                of_flink = partial(flink.run, name, query, FLINK[name], source, reference)
                yield _reported(f"{name}, Flink", of_flink, asked.n, broker.pid or 0)


def _reported(name: str, run: Callable[[], on_kafka.KafkaRun], count: int, broker: int) -> bool:
    """Run a join and print its row; return whether its results are right."""
    before_s = used_s(broker)
    made = run()
    found = made.comparison
    said = "none" if found.is_equal else "; ".join(found.examples)
    rates = f"{count / made.read_s:,.0f} | {count / made.cpu_s:,.0f}"
    broker_s, load = used_s(broker) - before_s, os.getloadavg()[0]
    print(
        f"| {name} | {found.rows:,} | {said} | {rates} | {broker_s:.1f} | {load:.1f} |", flush=True
    )
    return found.is_equal


if __name__ == "__main__":
    sys.exit(main())
