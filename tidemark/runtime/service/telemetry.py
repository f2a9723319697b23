"""Publishes the stats of a process: once a second to its topic, and on demand as metrics."""

import time
from collections.abc import Callable, Mapping

from confluent_kafka.admin import AdminClient

from tidemark.partition import Partition
from tidemark.plan.names import stats_topic
from tidemark.runtime.config import Config
from tidemark.runtime.service.health import Health
from tidemark.runtime.service.metrics import Metrics
from tidemark.runtime.service.stats import (
    VERSION,
    Account,
    CommitStats,
    Stats,
    partition_stats,
    total_lag,
)
from tidemark.runtime.service.stats_writer import StatsWriter
from tidemark.runtime.wall_clock import now_ms


class Telemetry:
    """Builds and publishes the stats of one process."""

    def __init__(self, config: Config, pipeline: str, service: str, health: Health) -> None:
        """Start without commits; ``health``: has the reasons why the process waits."""
        self.metrics = Metrics()
        self._config = config
        self._pipeline, self._service = pipeline, service
        self._health = health
        self._writer: StatsWriter | None = None
        self._started_ms = now_ms()
        self._interval_s = config.stats_interval_ms / 1000
        self._published_s = time.monotonic() - self._interval_s
        self._commits = 0
        self._total_s = self._last_s = self._longest_s = 0.0

    def publish_by(self, admin: AdminClient) -> None:
        """Write stats to their topic as well, unless TIDEMARK_STATS_INTERVAL_MS is 0."""
        if self._interval_s:
            topic, key = stats_topic(self._pipeline), f"{self._service}/{self._config.slot}"
            self._writer = StatsWriter(self._config, admin, topic, key)

    def committed(self, took_s: float) -> None:
        """Count a commit."""
        self._commits += 1
        self._total_s += took_s
        self._last_s = took_s
        self._longest_s = max(self._longest_s, took_s)
        self.metrics.committed(took_s)

    def poll(
        self, account: Callable[[int], Account], committed: Mapping[Partition, int], now_s: float
    ) -> None:
        """Publish if it is time; ``account`` is then called with the wall clock in ms."""
        if now_s - self._published_s >= (self._interval_s or 1.0):
            self._published_s = now_s
            self.publish(account, committed)

    def publish(
        self,
        account: Callable[[int], Account],
        committed: Mapping[Partition, int],
        *,
        stopped: bool = False,
    ) -> None:
        """Publish now.

        ``committed``: committed offsets of the partitions owned.  ``stopped``: the process ends in
        order after this record.
        """
        at_ms = now_ms()
        stats = self._stats(account(at_ms), committed, at_ms, stopped)
        self._longest_s = 0.0
        self.metrics.latest = stats
        if self._writer is not None:
            self._writer.write(stats)

    def _stats(
        self, account: Account, committed: Mapping[Partition, int], at_ms: int, stopped: bool
    ) -> Stats:
        ready, body = self._health.ready()
        partitions = partition_stats(account.ends, {**committed, **account.behind})
        return Stats(
            version=VERSION,
            pipeline=self._pipeline,
            service=self._service,
            slot=self._config.slot,
            at_ms=at_ms,
            started_at_ms=self._started_ms,
            ready=ready,
            reasons=list(body["reasons"]),
            rows_in=account.rows_in,
            rows_out=account.rows_out,
            filtered=account.filtered,
            late=account.late,
            dead_letters=account.dead_letters,
            lag=total_lag(partitions),
            commits=CommitStats(
                self._commits,
                self._total_s * 1000,
                self._last_s * 1000,
                self._longest_s * 1000,
            ),
            partitions=partitions,
            sources=account.sources,
            operators=account.operators,
            restores=account.restores,
            converted=account.converted,
            interval_ms=self._config.stats_interval_ms or 1_000,
            stopped=stopped,
        )

    def close(self) -> None:
        """Send the last record."""
        if self._writer is not None:
            self._writer.close()
