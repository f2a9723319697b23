"""Measure how long after the end of a window its row is visible, for one, two and three stages.

python -m bench.latency.stages [--partitions 4] [--rate 2000] [--seconds 30] [--warmup 10]

Records come at a steady rate, each with the time when it is due as its event time.  All stages have
the same windows of 250 ms, so the difference of two stages is what the later one adds.  The run has
default settings, exactly once.  Also prints the CPU of the broker and of the services, and how
often each service commits: a stage should add at most two of these intervals and a commit.
"""

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
from confluent_kafka import Consumer, Message, TopicPartition

from bench.cpu import used_s
from bench.latency.load import PARTITIONS, started
from bench.latency.log_histogram import LogHistogram
from tidemark.embedded.broker import Broker
from tidemark.partition import Partition
from tidemark.plan.names import stats_topic
from tidemark.runtime.client import clients
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.config import Config
from tidemark.runtime.service.command import MODULE
from tidemark.runtime.service.stats import Stats, decode
from tidemark.testing import OnBroker

_JOB, _TOPIC = "bench.latency.stages_job", "stages-events"
STAGES = ("first", "second", "third")
_BATCH = 20_000
_LAST_MS = 2_000  # windows of the end of the load, which no later record may close
_PATIENCE_S = 60.0
_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def main() -> int:
    """Run the load, read the rows, print a table; status 1 if a stage lacks rows."""
    asked = _arguments()
    os.environ["BENCH_PARTITIONS"] = str(asked.partitions)
    with ExitStack() as opened:
        folder = opened.enter_context(TemporaryDirectory())
        broker = opened.enter_context(Broker(Path(folder)))
        run = opened.enter_context(OnBroker(_JOB, broker.address, raw_partitions=PARTITIONS))
        run.published("first")  # returns once every service has its partitions
        load = started(broker.address, _TOPIC, asked.rate, asked.warmup + asked.seconds)
        begin_ms = time.time_ns() // 1_000_000 + int(asked.warmup * 1000)
        end_ms = begin_ms + int(asked.seconds * 1000) - _LAST_MS
        reader = StageReader(broker.address, asked.partitions, begin_ms, end_ms)
        reader.until(begin_ms)
        before_s = _cpu_s(broker.pid or 0)
        reader.until(end_ms)
        after_s = _cpu_s(broker.pid or 0)
        is_whole = reader.rest()
        status = load.wait()
        commits = [*_commits(broker.address, begin_ms, end_ms)]
    print(reader.table(asked.partitions))
    took_s = (end_ms - begin_ms) / 1000
    for name, spent_s in after_s.items():
        print(f"{name}: {(spent_s - before_s[name]) / took_s:.2f} cores")
    print("\n".join(commits))
    return 0 if is_whole and not status else 1


def _commits(address: str, begin_ms: int, end_ms: int) -> Iterator[str]:
    """Yield a line for each service: its commits in a time, from the stats that it wrote."""
    config, at = Config(bootstrap_servers=address), Partition(stats_topic("stages"), 0)
    admin = clients.admin(config)
    bounds = offsets(admin, [at], EARLIEST)[at], offsets(admin, [at], LATEST)[at]
    found = defaultdict[str, list[Stats]](list)
    for message in read(config, {at: bounds}):
        stats = decode(message.value())
        if begin_ms <= stats.at_ms < end_ms:
            found[stats.service].append(stats)
    for service, records in sorted(found.items()):
        first, last = records[0], records[-1]
        count = last.commits.count - first.commits.count
        if count:
            interval_ms = (last.at_ms - first.at_ms) / count
            took_ms = (last.commits.total_ms - first.commits.total_ms) / count
            yield f"{service}: a commit every {interval_ms:.0f} ms, of {took_ms:.0f} ms"


def _cpu_s(broker: int) -> dict[str, float]:
    """Return the CPU seconds that the broker and the services have used."""
    tasks = Path("/proc/self/task").glob("*/children")
    children = [int(child) for each in tasks for child in each.read_text().split()]
    services = [each for each in children if MODULE in Path(f"/proc/{each}/cmdline").read_text()]
    return {"broker": used_s(broker), "services": sum(map(used_s, services))}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.latency.stages", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--partitions", type=int, default=4, help="of logs and results")
    parser.add_argument("--rate", type=int, default=2_000, help="records per second")
    parser.add_argument("--seconds", type=float, default=30.0, help="duration of the measurement")
    parser.add_argument("--warmup", type=float, default=10.0, help="seconds before the measurement")
    return parser.parse_args()


class StageReader:
    """Reads the rows of all stages as they become visible; measures windows that end in a time."""

    def __init__(self, broker: str, partitions: int, begin_ms: int, end_ms: int) -> None:
        """Begin at the start of the result topics."""
        self._consumer: Consumer = clients.plain_consumer(Config(bootstrap_servers=broker))
        self._consumer.assign(
            [TopicPartition(f"stages.{name}", n, 0) for name in STAGES for n in range(partitions)]
        )
        self._begin_ms, self._end_ms = begin_ms, end_ms
        self._histograms = {name: LogHistogram() for name in STAGES}

    def until(self, at_ms: int) -> None:
        """Read until a time of the wall clock."""
        while time.time_ns() // 1_000_000 < at_ms:
            self._read()

    def rest(self) -> bool:
        """Read until all stages have the rows of the first.

        Returns False if a minute passes without rows while a stage lacks some.
        """
        heard_s = time.monotonic()
        while time.monotonic() - heard_s < (1.0 if self._is_whole else _PATIENCE_S):
            if self._read():
                heard_s = time.monotonic()
        self._consumer.close()
        return self._is_whole

    @property
    def _is_whole(self) -> bool:
        counts = {each.count for each in self._histograms.values()}
        return len(counts) == 1 and counts != {0}

    def _read(self) -> bool:
        messages = self._consumer.consume(1, 0.1)
        if messages:
            messages += self._consumer.consume(_BATCH, 0)
            now_us = time.time_ns() // 1000
            for name, each in _by_stage(messages).items():
                self._take(name, each, now_us)
        return bool(messages)

    def _take(self, name: str, values: Sequence[bytes], now_us: int) -> None:
        ends = pl.read_ndjson(b"\n".join(values), schema={"end": pl.Int64()})["end"].to_numpy()
        measured = ends[(ends >= self._begin_ms) & (ends < self._end_ms)]
        self._histograms[name].add(np.maximum(now_us - measured * 1000, 0))

    def table(self, partitions: int) -> str:
        """Return the latencies in ms as a Markdown table, a row for each stage."""
        heads = (*(f"{name} ms" for name in _SHARES), "p99 added ms")
        lines = [["partitions", "stages", "rows", *heads]]
        lines.append(["--:"] * len(lines[0]))
        before_ms = 0.0
        for stages, found in enumerate(self._histograms.values(), 1):
            quantiles_ms = [found.quantile(share) / 1000 for share in _SHARES.values()]
            p99_ms = quantiles_ms[-1]
            figures = (f"{each:.0f}" for each in (*quantiles_ms, p99_ms - before_ms))
            before_ms = p99_ms
            lines.append([str(partitions), str(stages), f"{found.count:,}", *figures])
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _by_stage(messages: Sequence[Message]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for message in messages:
        if message.error() is None:
            name = (message.topic() or "").rpartition(".")[2]
            found.setdefault(name, []).append(message.value() or b"")
    return found


if __name__ == "__main__":
    sys.exit(main())
