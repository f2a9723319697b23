"""Publishes the stats of a process: once a second to its topic, and on demand as metrics."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from confluent_kafka.admin import AdminClient

from tidemark.partition import Partition
from tidemark.plan.names import stats_topic
from tidemark.runtime.config import Config
from tidemark.runtime.service.health import Health
from tidemark.runtime.service.histogram import Histogram
from tidemark.runtime.service.metrics import Metrics
from tidemark.runtime.service.stats import (
    NOTHING,
    VERSION,
    Account,
    CommitStats,
    RateStats,
    Stats,
    WaitStats,
    partition_stats,
    total_lag,
)
from tidemark.runtime.service.stats_writer import StatsWriter
from tidemark.runtime.wall_clock import now_ms

WaitsFor = Literal["input", "broker", "sink"]


@dataclass(frozen=True)
class _Totals:
    """Counts that grow, at one moment: the next record has their rates."""

    at_s: float
    rows_in: int = 0
    rows_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    input_s: float = 0.0
    broker_s: float = 0.0
    sink_s: float = 0.0

    def per_s(self, before: "_Totals", name: str) -> float:
        """Return the growth of a count in a second since the moment before."""
        grown: float = getattr(self, name) - getattr(before, name)
        return max(0.0, grown) / max(self.at_s - before.at_s, 1e-3)


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
        self._last_s = self._longest_s = 0.0
        self._durations = Histogram()
        self._bytes_in = 0
        self._waited_s: dict[WaitsFor, float] = {"input": 0.0, "broker": 0.0, "sink": 0.0}
        self._before = _Totals(time.monotonic())
        self._rebalances = 0
        self._rebalanced_ms: int | None = None

    def publish_by(self, admin: AdminClient) -> None:
        """Write stats to their topic as well, unless TIDEMARK_STATS_INTERVAL_MS is 0."""
        if self._interval_s:
            topic, key = stats_topic(self._pipeline), f"{self._service}/{self._config.slot}"
            self._writer = StatsWriter(self._config, admin, topic, key)

    def committed(self, took_s: float) -> None:
        """Count a commit."""
        self._last_s = took_s
        self._longest_s = max(self._longest_s, took_s)
        self._durations.add(took_s * 1000)
        self.waited("broker", took_s)

    def waited(self, what: WaitsFor, seconds: float) -> None:
        """Count seconds without work."""
        self._waited_s[what] += seconds

    def read(self, size_bytes: int) -> None:
        """Count the bytes of records that were read."""
        self._bytes_in += size_bytes

    def rebalanced(self) -> None:
        """Count a change of the partitions of this process."""
        self._rebalances += 1
        self._rebalanced_ms = now_ms()

    def poll(
        self,
        account: Callable[[int], Account],
        committed: Mapping[Partition, int],
        bytes_out: int,
        now_s: float,
    ) -> None:
        """Publish if it is time; ``account`` is then called with the wall clock in ms."""
        if now_s - self._published_s >= (self._interval_s or 1.0):
            self._published_s = now_s
            self.publish(account, committed, bytes_out)

    def waiting(self, now_s: float) -> None:
        """Write stats of a process that waits before its work begins, if they are due."""
        if self._writer is not None:
            self.poll(lambda _: NOTHING, {}, 0, now_s)

    def publish(
        self,
        account: Callable[[int], Account],
        committed: Mapping[Partition, int],
        bytes_out: int = 0,
        *,
        stopped: bool = False,
    ) -> None:
        """Publish now.

        ``committed``: committed offsets of the partitions owned.  ``bytes_out``: written to Kafka
        so far.  ``stopped``: the process ends in order after this record.
        """
        at_ms = now_ms()
        stats = self._stats(account(at_ms), committed, bytes_out, at_ms, stopped)
        self._longest_s = 0.0
        self.metrics.latest = stats
        if self._writer is not None:
            self._writer.write(stats)

    def _stats(
        self,
        account: Account,
        committed: Mapping[Partition, int],
        bytes_out: int,
        at_ms: int,
        stopped: bool,
    ) -> Stats:
        ready, body = self._health.ready()
        partitions = partition_stats(
            account.ends, account.stable_ends, {**committed, **account.behind}
        )
        totals = self._totals(account, bytes_out + account.bytes_out)
        before, self._before = self._before, totals
        durations = self._durations.stats(at_ms)
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
            lag=None if account is NOTHING else total_lag(partitions),
            commits=CommitStats(
                durations.count,
                durations.sum_ms,
                self._last_s * 1000,
                self._longest_s * 1000,
                durations,
            ),
            partitions=partitions,
            sources=account.sources,
            operators=account.operators,
            restores=account.restores,
            converted=account.converted,
            interval_ms=self._config.stats_interval_ms or 1_000,
            stopped=stopped,
            bytes_in=totals.bytes_in,
            bytes_out=totals.bytes_out,
            rates=RateStats(
                *(totals.per_s(before, n) for n in ("rows_in", "rows_out", "bytes_in", "bytes_out"))
            ),
            waits=WaitStats(
                totals.input_s * 1000,
                totals.broker_s * 1000,
                totals.sink_s * 1000,
                *(min(1.0, totals.per_s(before, n)) for n in ("input_s", "broker_s", "sink_s")),
            ),
            latencies=account.latencies,
            dead_reasons=account.dead_reasons,
            rebalances=self._rebalances,
            rebalanced_at_ms=self._rebalanced_ms,
        )

    def _totals(self, account: Account, bytes_out: int) -> _Totals:
        waited = self._waited_s
        return _Totals(
            time.monotonic(),
            account.rows_in,
            account.rows_out,
            self._bytes_in,
            bytes_out,
            waited["input"],
            waited["broker"],
            waited["sink"],
        )

    def close(self) -> None:
        """Send the last record."""
        if self._writer is not None:
            self._writer.close()
