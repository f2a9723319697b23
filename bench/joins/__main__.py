"""Run joins as services on a broker, beside Flink SQL, and check every row of their results.

python -m bench.joins [--n 2000000] [--partitions 4] [--flink] [within table]

Half of the n events are orders, half payments; none is late.  Results are compared with SQL over
all events.  Rates count the events of both topics, per second from the first commit to the end of
all input, and per CPU second of all services or of Flink.  Status 1 if any row differs.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from bench.joins.queries import FLINK, JOINS, events
from bench.nexmark.beside import beside


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
    made = events(asked.n, asked.partitions, asked.seed)
    queries = {name: JOINS[name] for name in asked.joins}
    flink = FLINK if asked.flink else {}
    with tempfile.TemporaryDirectory() as folder:
        declared_in = "bench.joins.queries:JOINS"
        runs = beside(queries, declared_in, flink, made, asked.partitions, Path(folder))
        return int(not all([*runs]))


if __name__ == "__main__":
    sys.exit(main())
