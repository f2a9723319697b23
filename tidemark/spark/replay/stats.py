"""The stats of a replay: its progress by log partition, for the monitor.

See docs/operations.md, "Stats".  Nothing waits for them, and a lost record changes no result.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.admin import AdminClient
from msgspec.structs import replace

from tidemark.plan.names import stats_topic
from tidemark.runtime.config import Config
from tidemark.runtime.service.stats import RestoreStats, Stats
from tidemark.runtime.service.stats_writer import StatsWriter
from tidemark.runtime.wall_clock import now_ms
from tidemark.spark.progress import OnProgress, Progress

SERVICE = "replay"


@contextmanager
def replay_stats(config: Config, admin: AdminClient, pipeline: str) -> Iterator[OnProgress]:
    """Yield a function that takes the progress; the last record says that the replay stopped.

    A thread writes the progress, also while a replay is between two steps and has none: a process
    that writes nothing is silent.  It writes nothing if TIDEMARK_STATS_INTERVAL_MS is 0.
    """
    if not config.stats_interval_ms:
        yield lambda _: None
        return
    writer = StatsWriter(config, admin, stats_topic(pipeline), f"{SERVICE}/{config.slot}")
    started_ms = now_ms()
    latest = Stats(
        pipeline=pipeline,
        service=SERVICE,
        slot=config.slot,
        at_ms=started_ms,
        started_at_ms=started_ms,
        ready=True,
        lag=0,  # it reads up to ends that stand; what is left of them is in its replays
        interval_ms=config.stats_interval_ms,
    )
    ended = threading.Event()

    def take(progress: Progress) -> None:
        nonlocal latest
        latest = replace(latest, replays=replays_of(progress, time.monotonic()))

    def report() -> None:
        while not ended.wait(config.stats_interval_ms / 1000):
            writer.write(replace(latest, at_ms=now_ms()))

    writer.write(latest)
    reporter = threading.Thread(target=report, name="stats", daemon=True)
    reporter.start()
    try:
        yield take
    finally:
        ended.set()
        reporter.join()
        writer.write(replace(latest, at_ms=now_ms(), stopped=True))
        writer.close()


def replays_of(progress: Progress, now_s: float) -> list[RestoreStats]:
    """Return by log partition how many of the offsets that the replay reads are done."""
    took_s, ranges = now_s - progress.began_s, progress.ranges
    found = []
    for at, done in sorted(progress.done().items()):
        total = ranges.ends[at] - ranges.begins[at]
        done = min(done, total)
        left_s = took_s * (total - done) / done if done else None
        found.append(RestoreStats(at.topic, at.number, int(done), total, left_s))
    return found
