"""Metrics of a process in Prometheus' text format, made from its latest stats.

docs/operations.md, "Metrics", lists names and labels.  A scrape reads the last stats record, which
is immutable, on the server thread, so it costs the loop nothing.
"""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidemark.runtime.service.stats import OperatorStats, Stats

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_COMMIT_BUCKETS_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)

Labels = list[str]
Sample = tuple[Labels, float | None]


class Metrics:
    """The registry of one process."""

    def __init__(self) -> None:
        """Start with metrics of the process; the others appear with the first stats."""
        self.latest: Stats | None = None
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(_StatsCollector(self))
        self._commits = Histogram(
            "tidemark_commit_duration_seconds",
            "Duration of commits.",
            buckets=_COMMIT_BUCKETS_S,
            registry=self._registry,
        )

    def committed(self, took_s: float) -> None:
        """Count a commit."""
        self._commits.observe(took_s)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class _StatsCollector(Collector):
    """Turns the latest stats into metrics at each scrape."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def describe(self) -> Iterable[Metric]:
        """Return nothing: at registration there are no stats yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family."""
        stats = self._metrics.latest
        if stats is not None:
            yield from _of_process(stats)
            yield from _of_partitions(stats)
            yield from _of_sources(stats)
            yield from _of_operators(stats.operators)
            yield from _of_clocks(stats.operators, stats.at_ms)
            yield from _of_restores(stats)


def _counter(name: str, about: str, labels: Labels, samples: Iterable[Sample]) -> Metric:
    family = CounterMetricFamily(f"tidemark_{name}", about, labels=labels)
    _fill(family, samples)
    return family


def _gauge(name: str, about: str, labels: Labels, samples: Iterable[Sample]) -> Metric:
    family = GaugeMetricFamily(f"tidemark_{name}", about, labels=labels)
    _fill(family, samples)
    return family


def _fill(family: CounterMetricFamily | GaugeMetricFamily, samples: Iterable[Sample]) -> None:
    """Add samples whose value is known."""
    for labels, value in samples:
        if value is not None:
            family.add_metric(labels, value)


def _seconds(at_ms: int | None) -> float | None:
    return None if at_ms is None else at_ms / 1000


def _of_process(stats: Stats) -> Iterator[Metric]:
    who = [stats.pipeline, stats.service, stats.slot]
    yield _gauge("info", "Identity of the process.", ["pipeline", "service", "slot"], [(who, 1)])
    yield _gauge(
        "ready", "1 if the process works on its partitions, else 0.", [], [([], int(stats.ready))]
    )
    yield _counter("rows_in", "Records or rows taken.", [], [([], stats.rows_in)])
    yield _counter("rows_out", "Rows, panes or records written.", [], [([], stats.rows_out)])
    yield _counter("filtered", "Records that operators filtered out.", [], [([], stats.filtered)])
    yield _counter("converted", "Lenient values converted.", [], [([], stats.converted)])
    yield _counter("late_rows", "Rows too late for their windows.", [], [([], stats.late)])
    yield _counter("dead_letters", "Dead letters written.", [], [([], stats.dead_letters)])


def _of_partitions(stats: Stats) -> Iterator[Metric]:
    yield _gauge(
        "lag_records",
        "Offsets between the last commit and the end of the partition.",
        ["topic", "partition"],
        [([each.topic, str(each.partition)], each.lag) for each in stats.partitions],
    )


def _of_sources(stats: Stats) -> Iterator[Metric]:
    yield _gauge(
        "source_watermark_timestamp_seconds",
        "Watermark of a raw partition in ingest, event time.",
        ["source"],
        [([each.source], _seconds(each.watermark_ms)) for each in stats.sources],
    )
    yield _gauge(
        "source_silence_seconds",
        "Silence of a raw partition as written to the log; 0 when awake.",
        ["source"],
        [([each.source], each.silence_ms / 1000) for each in stats.sources],
    )
    yield _gauge(
        "source_loading_records",
        "Records of a table to read before its watermark counts, at most.",
        ["source"],
        [([each.source], each.loading) for each in stats.sources],
    )
    yield _counter(
        "source_load_failures",
        "Loads of a static table that have failed.",
        ["source"],
        [([each.source], each.load_failures) for each in stats.sources],
    )


def _of_operators(operators: list[OperatorStats]) -> Iterator[Metric]:
    by = ["operator"]
    yield _counter(
        "operator_rows", "Rows an operator took.", by, [([o.operator], o.rows) for o in operators]
    )
    yield _counter(
        "operator_late_rows",
        "Rows too late for all their windows.",
        by,
        [([o.operator], o.late) for o in operators],
    )
    yield _counter(
        "operator_duplicate_rows",
        "Rows that distinct_by left out.",
        by,
        [([o.operator], o.duplicates) for o in operators],
    )
    yield _counter(
        "operator_panes", "Panes published.", by, [([o.operator], o.panes) for o in operators]
    )


def _of_clocks(operators: list[OperatorStats], now_ms: int) -> Iterator[Metric]:
    clocks = [(each.operator, clock) for each in operators for clock in each.clocks]
    by = ["operator", "partition"]
    at = [[operator, str(clock.partition)] for operator, clock in clocks]
    all_clocks = [clock for _, clock in clocks]
    yield _gauge(
        "clock_timestamp_seconds",
        "Clock of an operator on a log partition, event time.",
        by,
        zip(at, [_seconds(clock.clock_ms) for clock in all_clocks], strict=True),
    )
    yield _gauge(
        "clock_held_seconds",
        "Seconds since a clock last moved, and the source that it waits for.",
        [*by, "source"],
        [
            ([*labels, clock.held_by], (now_ms - clock.unmoved_since_ms) / 1000)
            for labels, clock in zip(at, all_clocks, strict=True)
            if clock.held_by is not None
        ],
    )
    yield _gauge(
        "open_windows",
        "Windows that rows can still reach.",
        by,
        zip(at, [clock.open_windows for clock in all_clocks], strict=True),
    )
    yield _gauge(
        "state_bytes",
        "Approximate size of keyed state.",
        by,
        zip(at, [clock.state_bytes for clock in all_clocks], strict=True),
    )


def _of_restores(stats: Stats) -> Iterator[Metric]:
    yield _gauge(
        "restore_left_offsets",
        "Offsets of a changelog still to be read in a restore.",
        ["topic", "partition"],
        [([r.topic, str(r.partition)], r.total - r.done) for r in stats.restores],
    )
