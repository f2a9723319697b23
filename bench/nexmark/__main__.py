"""Run the queries of Nexmark and check every row of their results.

python -m bench.nexmark [--n 30000] [--seed 1] [--late 0.01] [--kafka] [q11 q15 ...]

Each query runs over n events, of which some arrive late, and its results are compared with SQL over
all events.  It runs in this process, or with --kafka as services on a broker, exactly once.  Rates
are events per CPU second of the process or of all services.  The CPU time of the broker includes
that of the topics and of reading the results.  Status 1 if any row differs.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from bench.cpu import used_s
from bench.nexmark import in_process, on_kafka
from bench.nexmark.arrival import all_arrivals, values
from bench.nexmark.flink.queries import FLINK
from bench.nexmark.flink.runner import Flink, flink_folder
from bench.nexmark.generator import Settings
from bench.nexmark.queries import QUERIES
from bench.nexmark.query import Query
from bench.nexmark.reference import Comparison, Reference
from tidemark.embedded.broker import Broker


def main() -> int:
    """Print a table; return 1 if any row differs."""
    asked = _arguments()
    queries = asked.queries or [*QUERIES]
    with tempfile.TemporaryDirectory() as folder:
        rows = _on_kafka if asked.kafka else _in_process
        wrong = [not each for each in rows(asked, queries, Path(folder))]
    return int(any(wrong))


def _in_process(asked: argparse.Namespace, queries: Sequence[str], folder: Path) -> Iterator[bool]:
    """Run queries in this process; yield for each whether its results are right."""
    events = all_arrivals(asked.n, _settings(asked, partitions=1))
    records = {kind: values(frame) for kind, frame in events.items()}
    reference = Reference(events, folder)
    print("| query | rows | late | difference | events/CPU s |\n|---|--:|--:|---|--:|")
    for name in queries:
        query = QUERIES[name]
        made = in_process.run(name, query, records)
        found = reference.compare(query.sql, query.results, made.results)
        rate = _read(query, events) / made.cpu_s
        print(f"{_row(name, found, made.late)} {rate:,.0f} |", flush=True)
        yield found.is_equal


def _on_kafka(asked: argparse.Namespace, queries: Sequence[str], folder: Path) -> Iterator[bool]:
    """Run queries on a broker of their own; yield for each whether its results are right."""
    events = all_arrivals(asked.n, _settings(asked, asked.partitions))
    reference = Reference(events, folder)
    flink = Flink(flink_folder()) if asked.flink else None
    with Broker(folder / "broker") as broker:
        source = on_kafka.Input(broker.address, events, asked.partitions)
        print(
            "| query | rows | late | difference | events/CPU s | events/s | broker CPU s |\n"
            "|---|--:|--:|---|--:|--:|--:|"
        )
        for name in queries:
            query = QUERIES[name]
            runs = {name: partial(on_kafka.run, name, query, source, reference)}
            if flink is not None and name in FLINK:
                of_flink = partial(flink.run, name, query, FLINK[name], source, reference)
                runs[f"{name} Flink"] = of_flink
            for shown, run in runs.items():
                yield _reported(shown, run, _read(query, events), broker.pid or 0)


def _reported(name: str, run: Callable[[], on_kafka.KafkaRun], read: int, broker: int) -> bool:
    """Run a query and print its row; return whether its results are right.

    ``read``: the number of events that it reads.  ``broker``: the process of the broker.
    """
    before_s = used_s(broker)
    made = run()
    rates = f"{read / made.cpu_s:,.0f} | {read / made.read_s:,.0f}"
    row = _row(name, made.comparison, made.late)
    print(f"{row} {rates} | {used_s(broker) - before_s:.1f} |", flush=True)
    return made.comparison.is_equal


def _settings(asked: argparse.Namespace, partitions: int) -> Settings:
    return Settings(asked.seed, asked.rate, late_share=asked.late, partitions=partitions)


def _read(query: Query, events: Mapping[str, pl.DataFrame]) -> int:
    return sum(events[kind].height for kind in query.reads)


def _row(name: str, found: Comparison, late: int) -> str:
    said = "none" if found.is_equal else "; ".join(found.examples)
    return f"| {name} | {found.rows:,} | {late:,} | {said} |"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.nexmark", description=__doc__)
    parser.add_argument("queries", nargs="*", metavar="q", help="; by default all")
    parser.add_argument("--n", type=int, default=30_000, help="events")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=500, help="events per second of event time")
    parser.add_argument("--late", type=float, default=0.01, help="share of events that are late")
    parser.add_argument("--kafka", action="store_true", help="run services on a broker")
    parser.add_argument("--flink", action="store_true", help="run Flink SQL too, with --kafka")
    parser.add_argument("--partitions", type=int, default=4, help="of each topic, with --kafka")
    asked = parser.parse_args()
    unknown = sorted({*asked.queries} - {*QUERIES})
    if unknown:
        parser.error(f"unknown query {unknown[0]!r}; choose from {', '.join(QUERIES)}")
    return asked


if __name__ == "__main__":
    sys.exit(main())
