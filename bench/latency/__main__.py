"""Measure the latency from a record to its row, exactly once, with default settings.

python -m bench.latency [--rate 20000] [--seconds 30] [--warmup 10]

Each record makes one row, a running count per user.  Latency is the time from the moment when the
record was due until a reader of committed records gets its row.  It includes producer, raw topic,
ingest, log, operator, result topic and both transactions.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
from confluent_kafka import Consumer, Message, TopicPartition

from bench.latency.load import PARTITIONS, started
from bench.latency.log_histogram import LogHistogram
from tidemark.embedded.broker import Broker
from tidemark.runtime.client import clients
from tidemark.runtime.config import Config
from tidemark.testing import OnBroker

_JOB, _TOPIC, _ROWS = "bench.latency.job", "latency-events", "latency.rows"
_PATIENCE_S = 60.0
_BATCH = 20_000
_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


def main() -> int:
    """Run the load, read the rows, print a table; status 1 if rows are missing or too many."""
    asked = _arguments()
    with (
        TemporaryDirectory() as folder,
        Broker(Path(folder)) as broker,
        OnBroker(_JOB, broker.address, raw_partitions=PARTITIONS) as run,
    ):
        run.published("rows")  # returns once every service has its partitions
        reader = RowReader(broker.address, asked.warmup)
        records = int(asked.rate * (asked.warmup + asked.seconds))
        load = started(broker.address, _TOPIC, asked.rate, asked.warmup + asked.seconds)
        reader.until(records)
        status = load.wait()
    print(reader.table(asked.rate))
    if reader.rows != records or status:
        print(f"{reader.rows:,} rows of {records:,} records", file=sys.stderr)
        return 1
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.latency", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rate", type=int, default=20_000, help="records per second")
    parser.add_argument("--seconds", type=float, default=30.0, help="duration of the measurement")
    parser.add_argument("--warmup", type=float, default=10.0, help="seconds before the measurement")
    return parser.parse_args()


class RowReader:
    """Reads rows as they become visible; does not measure those of the warm-up."""

    def __init__(self, broker: str, warmup_s: float) -> None:
        """Begin at the start of the result topic."""
        self._consumer: Consumer = clients.plain_consumer(Config(bootstrap_servers=broker))
        self._consumer.assign([TopicPartition(_ROWS, n, 0) for n in range(PARTITIONS)])
        self._warmup_us = int(warmup_s * 1_000_000)
        self._first_us: int | None = None
        self.rows = 0
        self.histogram = LogHistogram()

    def until(self, records: int) -> None:
        """Read this number of rows and check for surplus ones; stop after a minute without rows."""
        heard_s = time.monotonic()
        while time.monotonic() - heard_s < (1.0 if self.rows >= records else _PATIENCE_S):
            messages = self._consumer.consume(1, 0.1)
            if messages:
                messages += self._consumer.consume(_BATCH, 0)
                self._take(messages, time.time_ns() // 1000)
                heard_s = time.monotonic()
        self._consumer.close()

    def _take(self, messages: Sequence[Message], now_us: int) -> None:
        values = [message.value() or b"" for message in messages if message.error() is None]
        rows = pl.read_ndjson(b"\n".join(values), schema={"due_us": pl.Int64()})
        due_us = rows["due_us"].to_numpy()
        self.rows += due_us.size
        if self._first_us is None:
            self._first_us = int(due_us.min())
        measured = due_us[due_us - self._first_us >= self._warmup_us]
        self.histogram.add(np.maximum(now_us - measured, 0))

    def table(self, rate: int) -> str:
        """Return the latencies in ms as a Markdown table."""
        shown = {name: self.histogram.quantile(share) for name, share in _SHARES.items()}
        shown["highest"] = self.histogram.highest
        heads = ["records/s", "rows measured", *(f"{name} ms" for name in shown)]
        cells = [f"{rate:,}", f"{self.histogram.count:,}"]
        cells += [f"{value_us / 1000:.1f}" for value_us in shown.values()]
        lines = [heads, ["--:"] * len(heads), cells]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
