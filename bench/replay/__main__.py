"""Measure replay on Spark beside Spark's own windows: one session, one broker, the same records.

python -m bench.replay [--n 2000000] [--users 10000] [--repeat 2] [--rate 20000]

First, ingest writes the log: as fast as it can, or at a steady rate, which makes many small
segments as in live logs.  Then two jobs take turns, both with output to Parquet: a replay of each
operator from the log, and Spark's groupBy(window) or groupBy(session_window) over the raw JSON
records.  Spark's batch windows know no lateness, so they include the late rows.

CPU seconds are those of Spark's JVM and its Python workers, and of ingest's process.  If other work
shares the machine, they say more than wall time.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.peers import brokers
from bench.peers.harness import FOLDER, Harness
from tidemark.language.load import load_pipeline
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.plan.topics import own_topics
from tidemark.runtime.client import clients
from tidemark.runtime.client.consumer import LATEST, offsets
from tidemark.runtime.client.topics import ensure, require
from tidemark.runtime.config import Config
from tidemark.spark.read.live_position import committed_offsets
from tidemark.spark.read.ranges import Ranges, resolve
from tidemark.spark.read.source import kafka_records
from tidemark.spark.replay.replay import Replay, slices_for, with_operators
from tidemark.spark.session import spark_session
from tidemark.spark.targets.files import Files

_PIPELINE = "bench.replay.job"
_SCHEMA = "user string, ts long, score long, kind string"
_HEAD = """\
| job | run | replay: rows/s | per CPU s | Spark: rows/s | per CPU s | ratio | of ingest |
|---|--:|--:|--:|--:|--:|--:|--:|"""


def main() -> int:
    """Make the log, replay it, print a table."""
    asked = _arguments()
    folder = Path(os.environ.get("BENCHFOLDER", FOLDER)).resolve()
    harness = Harness(folder)
    # A broker of its own: otherwise the replay would include the log of another run.
    with (
        tempfile.TemporaryDirectory() as scratch,
        brokers.embedded_broker(Path(scratch)) as address,
    ):
        harness.use(address)
        filled = harness.fill(asked.n, asked.users, asked.seed)
        raw = f"{filled}-paced" if asked.rate else filled
        os.environ |= {"KAFKA_BOOTSTRAP_SERVERS": address, "BENCH_IN": raw}
        config = Config.from_env()
        plan = load_pipeline(_PIPELINE).plan()
        pacing = (sys.executable, "-m", "bench.replay.pace", address, filled, raw, str(asked.rate))
        took_s, cpu_s = _ingest(config, plan, filled, raw, pacing if asked.rate else None)
        segments = sum(resolve(clients.admin(config), plan).ends.values())
        print(
            f"ingest: {asked.n / took_s:,.0f} records/s, {asked.n / cpu_s:,.0f} per CPU second, "
            f"log offsets up to {segments:,}"
        )
        began_s = time.monotonic()
        with spark_session("local[2]", "2g") as spark:
            print(f"Spark started in {time.monotonic() - began_s:.1f} s\n")
            print(_HEAD, flush=True)
            for run in range(asked.repeat):
                for job in ("tumbling", "session"):
                    place = Path(scratch) / f"{job}-{run}"
                    ours = _timed(spark, lambda: _replay(spark, config, plan, job, place))  # noqa: B023
                    own = _timed(spark, lambda: _own(spark, config, raw, job, place))  # noqa: B023
                    print(_line(f"{job} | {run + 1}", asked.n, ours, own, cpu_s), flush=True)
        bound_s = _bound_s(address, scratch)
        print(
            f"\npolars' group_by and a Parquet file alone: {asked.n / bound_s:,.0f} rows per CPU "
            f"second, {cpu_s / bound_s:.1f} of ingest"
        )
    return 0


class Duration(NamedTuple):
    """Seconds of wall time and of CPU time."""

    clock_s: float
    cpu_s: float


def _line(name: str, n: int, ours: Duration, own: Duration, ingest_cpu_s: float) -> str:
    rates = (n / seconds for took in (ours, own) for seconds in took)
    shown = " | ".join(f"{rate:,.0f}" for rate in rates)
    ratio, per_core = own.clock_s / ours.clock_s, ingest_cpu_s / ours.cpu_s
    return f"| {name} | {shown} | {ratio:.2f} | {per_core:.2f} |"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.replay", description=__doc__)
    parser.add_argument("--n", type=int, default=2_000_000, help="records")
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=0, help="records a second; 0: all at once")
    parser.add_argument("--repeat", type=int, default=2, help="runs in turns; the first is cold")
    return parser.parse_args()


def _ingest(
    config: Config, plan: Plan, filled: str, raw: str, pacing: Sequence[str] | None
) -> tuple[float, float]:
    """Run ingest until all records are in the log; return its wall and CPU seconds.

    ``pacing``: the command that meanwhile copies topic ``filled`` to the raw topic.
    """
    admin = clients.admin(config)
    ensure(admin, own_topics(plan), config.replication_factor)
    sources = [Partition(filled, n) for n in range(require(admin, [filled])[filled])]
    if pacing is not None:
        admin.create_topics([NewTopic(raw, len(sources))])[raw].result()
    filled_ends = offsets(admin, sources, LATEST)
    ends = {Partition(raw, at.number): end for at, end in filled_ends.items()}
    began_s = time.monotonic()
    service = subprocess.Popen(
        [sys.executable, "-m", "services.ingest"],
        env={**os.environ, "PIPELINE": _PIPELINE, "TIDEMARK_SLOT": "bench"},
    )
    load = None if pacing is None else subprocess.Popen(pacing)
    try:
        while _behind(committed_offsets(config, plan.group("ingest"), list(ends)), ends):
            if service.poll() is not None or (load is not None and load.poll()):
                raise RuntimeError("ingest or its load ended early")
            time.sleep(0.2)
        took_s = time.monotonic() - began_s
    finally:
        for process in filter(None, (load, service)):
            process.terminate()
        if load is not None:
            load.wait()
        _, _, used = os.wait4(service.pid, 0)
    return took_s, used.ru_utime + used.ru_stime


def _bound_s(address: str, folder: str) -> float:
    """Return the CPU seconds of the least work of a replay (bench/replay/bound.py)."""
    command = [sys.executable, "-m", "bench.replay.bound", address, folder]
    env = {**os.environ, "PIPELINE": _PIPELINE, "POLARS_MAX_THREADS": "1"}
    done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout)


def _behind(committed: Mapping[Partition, int], ends: Mapping[Partition, int]) -> bool:
    return any(committed[at] < end for at, end in ends.items())


def _timed(spark: SparkSession, work: Callable[[], object]) -> Duration:
    root = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    before_s, began_s = _tree_cpu_s(root), time.monotonic()
    work()
    return Duration(time.monotonic() - began_s, _tree_cpu_s(root) - before_s)


def _tree_cpu_s(root: int) -> float:
    """Return the CPU seconds of a process and all its descendants, living or dead."""
    parents, ticks = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # gone by now
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
            ticks[int(path.parent.name)] = sum(map(int, fields[11:15]))
    tree = {root}
    while found := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= found
    return sum(ticks.get(pid, 0) for pid in tree) / os.sysconf("SC_CLK_TCK")


def _replay(spark: SparkSession, config: Config, plan: Plan, job: str, place: Path) -> None:
    part = with_operators(plan, [job])
    ranges = resolve(clients.admin(config), part)
    files = Files(str(place / "tidemark"), "bench")
    files.prepare()
    replay = Replay(part, ranges, slices_for(part, ranges, spark.sparkContext.defaultParallelism))
    files.complete(replay.run(spark, config, files), part, ranges)


def _own(spark: SparkSession, config: Config, raw: str, job: str, place: Path) -> None:
    """Run Spark's own windows over the raw records."""
    admin = clients.admin(config)
    partitions = [Partition(raw, n) for n in range(require(admin, [raw])[raw])]
    ranges = Ranges(dict.fromkeys(partitions, 0), offsets(admin, partitions, LATEST))
    parsed = f.from_json(f.col("value").cast("string"), _SCHEMA)
    rows = kafka_records(spark, config, ranges).select(parsed.alias("r")).select("r.*")
    timed = rows.withColumn("time", f.timestamp_millis("ts"))
    _windowed(timed, job).write.parquet(str(place / "spark"))


def _windowed(rows: DataFrame, job: str) -> DataFrame:
    sums = [f.count(f.lit(1)).alias("count"), f.sum("score").alias("sum")]
    if job == "session":
        return rows.groupBy("user", f.session_window("time", "5 seconds")).agg(*sums)
    extremes = [f.min("score").alias("min"), f.max("score").alias("max")]
    return rows.groupBy("user", f.window("time", "10 seconds")).agg(*sums, *extremes)


if __name__ == "__main__":
    sys.exit(main())
