"""Run a pattern as services on a broker, beside Flink SQL, and check every match.

python -m bench.patterns [--n 2000000] [--sensors 10000] [--opened] [--partitions 4] [--flink]

The pattern is a high temperature, then smoke within ten minutes: 3 % of the n readings are one of
the two, and none is late.  With --opened, each sensor first has a high temperature, so each key has
a partial match all the time.  Matches are compared with SQL over all readings.  Rates count all
readings, per second from the first commit to the end of all input, and per CPU second of all
services or of Flink.  MiB is the most memory of each service.  Status 1 if any match differs.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from bench.nexmark.beside import beside
from bench.patterns.queries import FLINK, PATTERNS, readings


def main() -> int:
    """Print a table; return 1 if any match differs."""
    parser = argparse.ArgumentParser(prog="python -m bench.patterns", description=__doc__)
    parser.add_argument("--n", type=int, default=2_000_000, help="readings")
    parser.add_argument("--sensors", type=int, default=10_000)
    parser.add_argument("--opened", action="store_true", help="each sensor is hot before")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--partitions", type=int, default=4, help="of the topic")
    parser.add_argument("--flink", action="store_true", help="run Flink SQL too")
    asked = parser.parse_args()
    events = readings(asked.n, asked.sensors, asked.partitions, asked.seed, is_opened=asked.opened)
    flink = FLINK if asked.flink else {}
    with tempfile.TemporaryDirectory() as folder:
        declared_in = "bench.patterns.queries:PATTERNS"
        runs = beside(PATTERNS, declared_in, flink, events, asked.partitions, Path(folder))
        return int(not all([*runs]))


if __name__ == "__main__":
    sys.exit(main())
