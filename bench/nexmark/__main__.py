"""Run the queries of Nexmark and check every row of their results.

python -m bench.nexmark [--n 30000] [--seed 1] [--late 0.01] [--kafka] [q11 q15 ...]

Each query runs over n events, of which some arrive late, and its results are compared with SQL over
all events.  It runs in this process, or with --kafka as services on a broker, exactly once.  Rates
are events per CPU second of the process or of all services.  On a broker, MiB is the most memory of
each service.  The CPU time of the broker includes that of the topics and of reading the results.
Status 1 if any row differs.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.nexmark import in_process
from bench.nexmark.arrival import all_arrivals, values
from bench.nexmark.beside import beside
from bench.nexmark.flink.queries import FLINK
from bench.nexmark.generator import Settings
from bench.nexmark.queries import QUERIES
from bench.nexmark.query import Query
from bench.nexmark.reference import Reference


def main() -> int:
    """Print a table; return 1 if any row differs."""
    asked = _arguments()
    queries = {name: QUERIES[name] for name in asked.queries or QUERIES}
    with tempfile.TemporaryDirectory() as folder:
        rows = _on_kafka if asked.kafka else _in_process
        return int(not all([*rows(asked, queries, Path(folder))]))


def _in_process(
    asked: argparse.Namespace, queries: Mapping[str, Query], folder: Path
) -> Iterator[bool]:
    """Run queries in this process; yield for each whether its results are right."""
    events = all_arrivals(asked.n, _settings(asked, partitions=1))
    records = {kind: values(frame) for kind, frame in events.items()}
    reference = Reference(events, folder)
    print("| query | rows | late | difference | events/CPU s |\n|---|--:|--:|---|--:|")
    for name, query in queries.items():
        made = in_process.run(name, query, records)
        found = reference.compare(query.sql, query.results, made.results)
        rate = sum(events[kind].height for kind in query.reads) / made.cpu_s
        print(f"| {name} | {found.rows:,} | {made.late:,} | {found} | {rate:,.0f} |", flush=True)
        yield found.is_equal


def _on_kafka(
    asked: argparse.Namespace, queries: Mapping[str, Query], folder: Path
) -> Iterator[bool]:
    """Run queries on a broker of their own; yield for each run whether its results are right."""
    events = all_arrivals(asked.n, _settings(asked, asked.partitions))
    flink = FLINK if asked.flink else {}
    declared_in = "bench.nexmark.queries:QUERIES"
    return beside(queries, declared_in, flink, events, asked.partitions, folder)


def _settings(asked: argparse.Namespace, partitions: int) -> Settings:
    return Settings(asked.seed, asked.rate, late_share=asked.late, partitions=partitions)


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
