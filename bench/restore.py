"""Measure how fast keyed state is restored from its changelog, on an embedded broker.

python -m bench.restore [--keys 1000000] [--segment 20000] [--only sessions]

Each key opens one window.  Each segment of rows is one commit, as in a task, with snapshots when
they are due.  Then the state is restored, as by a new owner of the partition.
"""

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from bench.meter import segments
from tidemark import Pipeline, bounded, count, session, tumbling
from tidemark import sum as total
from tidemark.core.operators.operator import WindowBody
from tidemark.core.operators.task import OperatorTask
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
from tidemark.runtime.backends.backend import MemoryBackend
from tidemark.runtime.client import clients
from tidemark.runtime.client.topics import ensure, own_topics
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
    asked = parser.parse_args()
    pipeline = _pipeline()
    plans = [each for each in pipeline.plan().operators if each.name.startswith(asked.only)]
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder)) as broker:
        config = Config(bootstrap_servers=broker.address)
        ensure(clients.admin(config), own_topics(pipeline.plan()), -1)
        print("| windows | open | changelog MB | state MB | restore s | CPU s | peak RSS MB |")
        print("|---|--:|--:|--:|--:|--:|--:|")
        for plan in plans:
            print(_measured(config, plan, asked.keys, asked.segment), flush=True)
        load = " ".join(f"{load:.2f}" for load in os.getloadavg())
        print(f"load {load}")


def _pipeline() -> Pipeline:
    pipeline = Pipeline("bench", partitions=1)
    moves = pipeline.source(
        "moves",
        schema={"player": str, "at": int, "score": int},
        event_time="at",
        watermark=bounded("2s"),
    ).key_by("player")
    for name, windows in (("sessions", session("1h")), ("tumbling", tumbling("1h"))):
        moves.window(windows).aggregate(moves=count(), score=total("score")).to(name)
    return pipeline


def _rows(plan: OperatorPlan, keys: int) -> pl.DataFrame:
    """Return one row per key, all in one window."""
    at = _START_MS // 3_600_000 * 3_600_000 + np.arange(keys) % 3_000_000
    made: dict[str, Any] = {
        SOURCE: pl.repeat("moves/0", keys, eager=True),
        OFFSET: np.arange(keys),
        SUB_ROW: np.zeros(keys, np.int64),
        EVENT_TIME: at,
        WATERMARK: at - 3_600_000,
        ARRIVAL: np.arange(keys),
        "player": pl.Series(np.random.default_rng(1).permutation(keys)).cast(pl.String),
        "at": at,
        "score": np.arange(keys) % 100,
    }
    schema = {**ROW_COLUMNS, SOURCE: pl.String(), **plan.operator.inputs[0].columns}
    return pl.DataFrame([pl.Series(n, made[n]).cast(dtype) for n, dtype in schema.items()])


def _commits(
    plan: OperatorPlan, rows: Iterator[pl.DataFrame], log: Changelog
) -> Iterator[tuple[bytes, bytes | None]]:
    body, clocks = plan.operator.body, plan.operator.clocks().state()
    assert isinstance(body, WindowBody)
    state = body.open()
    for number, segment in enumerate(rows):
        late = body.fold(segment, state)
        assert late.is_empty(), f"{late.height} late rows"
        yield from log.commit(state, clocks, number)


def _measured(config: Config, plan: OperatorPlan, keys: int, segment: int) -> str:
    at = Partition(plan.changelog, 0)
    rule = SnapshotRule(config.snapshot_commits, config.snapshot_bytes)
    log = Changelog(rule, "w", plan.state_signature)
    producer = clients.transactional_producer(config, at.topic)
    producer.init_transactions(30)
    producer.begin_transaction()
    written = 0
    for key, value in _commits(plan, segments(_rows(plan, keys), segment), log):
        producer.produce(at.topic, value, key, at.number)
        producer.flush()
        written += len(value or b"")
    producer.commit_transaction(30)

    task = OperatorTask(plan.operator)
    replay = ChangelogReplay(str(at), plan.name, plan.state_signature, log.snapshot)
    reader = ChangelogReader(replay, StateBuilder(task))
    log_partition = Partition(plan.log, 0)
    request = RestoreRequest(log_partition, 1, log.last, ahead=False, readers={at: reader})
    begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
    restore = Restore(config, clients.admin(config), [request], MemoryBackend())
    while not restore.done:
        restore.step()
    took_s, cpu_s = time.perf_counter() - begin_s, time.process_time() - begin_cpu_s
    restore.close()
    state = task.state
    lines = sum(frame.height for piece in state.snapshot() for frame in piece.values())
    assert lines == keys, f"{lines} lines of {keys} came back"
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sizes_mb = f"{written / 1e6:.0f} | {state.size_bytes() / 1e6:.0f}"
    figures = f"{took_s:.1f} | {cpu_s:.1f} | {peak_mb:.0f}"
    return f"| {plan.operator.name} | {lines:,} | {sizes_mb} | {figures} |"


if __name__ == "__main__":
    main()
