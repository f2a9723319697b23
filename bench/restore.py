"""Measure how fast keyed state is restored from its changelog, on an embedded broker.

python -m bench.restore [--keys 1000000] [--segment 20000] [--only sessions] [--memory-mb 64]

Each key opens one window, or is that of one open row on each side of a join.  Each segment of rows
is one commit, as in a task, with snapshots when they are due.  Then the state is restored, as by a
new owner of the partition: in memory, or with RocksDB beyond ``--memory-mb``.
"""

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from bench.meter import segments
from tidemark import Pipeline, bounded, count, session, tumbling
from tidemark import sum as total
from tidemark.core.operators.operator import Frames, Operator
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.row_watermarks import ORDER
from tidemark.core.time.segment import (
    ARRIVAL,
    EVENT_TIME,
    OFFSET,
    ROW_COLUMNS,
    SOURCE,
    SUB_ROW,
    WATERMARK,
)
from tidemark.embedded.broker import Broker
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan
from tidemark.plan.topics import own_topics
from tidemark.runtime.backends.backend import Backend, MemoryBackend, RocksBackend
from tidemark.runtime.client import clients
from tidemark.runtime.client.topics import ensure
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.changelog import Changelog, SnapshotRule
from tidemark.runtime.keyed.changelog_replay import ChangelogReplay
from tidemark.runtime.keyed.restore import ChangelogReader, Restore, RestoreRequest, StateBuilder

_START_MS = 1_700_000_000_000


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.restore", description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--segment", type=int, default=20_000, help="rows of a segment")
    parser.add_argument("--only", default="", help="how the names of operators begin")
    parser.add_argument("--memory-mb", type=int, help="of blocks in memory; others in RocksDB")
    asked = parser.parse_args()
    pipeline = _pipeline()
    plans = [each for each in pipeline.plan().operators if each.name.startswith(asked.only)]
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder)) as broker:
        config = Config(bootstrap_servers=broker.address)
        ensure(clients.admin(config), own_topics(pipeline.plan()), -1)
        print("| state | lines | changelog MB | state MB | restore s | CPU s | peak RSS MB |")
        print("|---|--:|--:|--:|--:|--:|--:|")
        for plan in plans:
            with _backend(Path(folder) / plan.name, asked.memory_mb) as backend:
                print(_measured(config, backend, plan, asked.keys, asked.segment), flush=True)
        load = " ".join(f"{load:.2f}" for load in os.getloadavg())
        print(f"load {load}")


@contextmanager
def _backend(root: Path, memory_mb: int | None) -> Iterator[Backend]:
    backend = MemoryBackend() if memory_mb is None else RocksBackend(root, memory_mb * 2**20)
    try:
        yield backend
    finally:
        backend.close()


def _pipeline() -> Pipeline:
    pipeline = Pipeline("bench", partitions=1)
    moves, scores = (
        pipeline.source(
            topic,
            schema={"player": str, "at": int, "score": int},
            event_time="at",
            watermark=bounded("2s"),
        ).key_by("player")
        for topic in ("moves", "scores")
    )
    for name, windows in (("sessions", session("1h")), ("tumbling", tumbling("1h"))):
        moves.window(windows).aggregate(moves=count(), score=total("score")).to(name)
    moves.join(scores, within="1h", how="full").to("join")
    return pipeline


def _rows(operator: Operator, keys: int) -> Frames:
    """Return by input one row per key, all in one window; no key is on both sides of a join."""
    at = _START_MS // 3_600_000 * 3_600_000 + np.arange(keys) % 3_000_000
    found = {}
    for number, side in enumerate(operator.inputs):
        made: dict[str, Any] = {
            SOURCE: pl.repeat(f"{side.name}/0", keys, eager=True),
            OFFSET: np.arange(keys),
            SUB_ROW: np.zeros(keys, np.int64),
            EVENT_TIME: at,
            WATERMARK: at - 3_600_000,
            ARRIVAL: np.arange(keys),
            ORDER: np.arange(keys) * len(operator.inputs) + number,
            "player": pl.Series(_in_random_order(keys) + keys * number).cast(pl.String),
            "at": at,
            "score": np.arange(keys) % 100,
        }
        schema = {**ROW_COLUMNS, SOURCE: pl.String(), ORDER: pl.Int64(), **side.columns}
        columns = [pl.Series(n, made[n]).cast(dtype) for n, dtype in schema.items()]
        found[side.name] = pl.DataFrame(columns)
    return found


def _in_random_order(keys: int) -> npt.NDArray[np.int64]:
    """Return all keys in random order."""
    return np.random.default_rng(1).permutation(keys)


def _commits(
    plan: OperatorPlan, rows: Frames, segment: int, log: Changelog
) -> Iterator[tuple[bytes, bytes | None]]:
    body, clocks = plan.operator.body, plan.operator.clocks().state()
    state = body.open()
    parts = (segments(frame, segment) for frame in rows.values())
    for number, sides in enumerate(zip(*parts, strict=True)):
        published = body.process(dict(zip(rows, sides, strict=True)), state)
        assert not any(frame.height for frame in published.values()), "late rows or results"
        yield from log.commit(state, clocks, number)


def _measured(config: Config, backend: Backend, plan: OperatorPlan, keys: int, segment: int) -> str:
    at = Partition(plan.changelog, 0)
    rule = SnapshotRule(config.snapshot_commits, config.snapshot_bytes)
    log = Changelog(rule, "w", plan.state_signature)
    producer = clients.transactional_producer(config, at.topic)
    producer.init_transactions(30)
    producer.begin_transaction()
    written = 0
    for key, value in _commits(plan, _rows(plan.operator, keys), segment, log):
        producer.produce(at.topic, value, key, at.number)
        producer.flush()
        written += len(value or b"")
    producer.commit_transaction(30)

    task = OperatorTask(plan.operator, backend.store)
    replay = ChangelogReplay(str(at), plan.name, plan.state_signature, log.snapshot)
    reader = ChangelogReader(replay, StateBuilder(task))
    log_partition = Partition(plan.log, 0)
    request = RestoreRequest(log_partition, 1, log.last, ahead=False, readers={at: reader})
    begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
    restore = Restore(config, clients.admin(config), [request], backend)
    while not restore.done:
        restore.step()
    took_s, cpu_s = time.perf_counter() - begin_s, time.process_time() - begin_cpu_s
    restore.close()
    state = task.state
    lines = sum(frame.height for piece in state.snapshot() for frame in piece.values())
    wanted = keys * len(plan.operator.inputs)
    assert lines == wanted, f"{lines} lines of {wanted} came back"
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sizes_mb = f"{written / 1e6:.0f} | {state.size_bytes() / 1e6:.0f}"
    figures = f"{took_s:.1f} | {cpu_s:.1f} | {peak_mb:.0f}"
    return f"| {plan.operator.name} | {lines:,} | {sizes_mb} | {figures} |"


if __name__ == "__main__":
    main()
