"""Metrics of a process in Prometheus' text format, made from its latest stats.

docs/monitor.md, "Metrics", lists names, units and labels.  A scrape reads the last stats record,
which is immutable, on the server thread, so it costs the loop nothing.
"""

from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from tidemark.core.time.segment import FOREVER_MS
from tidemark.runtime.service.histogram import BOUNDS_MS, HistogramStats
from tidemark.runtime.service.stats import OperatorStats, Stats

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_BOUNDS_S = [*(str(bound / 1000) for bound in BOUNDS_MS), "+Inf"]

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
            yield from _of_work(stats)
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


def _histogram(
    name: str, about: str, labels: Labels, samples: Iterable[tuple[Labels, HistogramStats]]
) -> Metric:
    family = HistogramMetricFamily(f"tidemark_{name}", about, labels=labels)
    for values, each in samples:
        below = accumulate(each.counts or [0] * len(_BOUNDS_S))
        family.add_metric(values, list(zip(_BOUNDS_S, below, strict=True)), each.sum_ms / 1000)
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
    yield _counter(
        "dead_letter_reasons",
        "Dead letters by reason.",
        ["stage", "reason"],
        [([each.stage, each.reason], each.count) for each in stats.dead_reasons],
    )
    yield _counter("rebalances", "Changes of partitions.", [], [([], stats.rebalances)])
    yield _gauge(
        "start_timestamp_seconds", "Start of the process.", [], [([], stats.started_at_ms / 1000)]
    )


def _of_work(stats: Stats) -> Iterator[Metric]:
    waits = stats.waits
    yield _counter("bytes_in", "Keys and values read.", [], [([], stats.bytes_in)])
    yield _counter("bytes_out", "Keys and values written.", [], [([], stats.bytes_out)])
    yield _counter(
        "waiting_seconds",
        "Time without work, by what the process waited for.",
        ["for"],
        [
            (["input"], waits.input_ms / 1000),
            (["broker"], waits.broker_ms / 1000),
            (["sink"], waits.sink_ms / 1000),
        ],
    )
    yield _histogram(
        "commit_duration_seconds", "Duration of commits.", [], [([], stats.commits.durations)]
    )
    yield _histogram(
        "result_latency_seconds",
        "From the event time of results to their commit.",
        ["of"],
        [([each.of], each.histogram) for each in stats.latencies],
    )


def _of_partitions(stats: Stats) -> Iterator[Metric]:
    yield _gauge(
        "lag_records",
        "Offsets between the last commit and the last stable offset of the partition.",
        ["topic", "partition"],
        [([each.topic, str(each.partition)], each.lag) for each in stats.partitions],
    )
    yield _gauge(
        "open_transaction_records",
        "Offsets that open transactions keep from readers.",
        ["topic", "partition"],
        [([each.topic, str(each.partition)], each.open) for each in stats.partitions],
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
    yield _counter(
        "operator_late_reasons",
        "Late rows by reason.",
        [*by, "reason"],
        [([o.operator, each.reason], each.count) for o in operators for each in o.late_reasons],
    )
    yield _histogram(
        "operator_late_by_seconds",
        "By how much rows are late; without rows that are refused for another reason.",
        by,
        [([o.operator], o.late_by) for o in operators],
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
            if clock.held_by is not None and clock.unmoved_since_ms != FOREVER_MS
        ],
    )
    yield _gauge(
        "open_windows",
        "Windows that rows can still reach.",
        by,
        zip(at, [clock.open_windows for clock in all_clocks], strict=True),
    )
    yield _gauge(
        "oldest_window_timestamp_seconds",
        "Begin of the open window that began first, event time.",
        by,
        zip(at, [_seconds(clock.oldest_begin_ms) for clock in all_clocks], strict=True),
    )
    yield _gauge(
        "state_bytes",
        "Approximate size of keyed state.",
        by,
        zip(at, [clock.state_bytes for clock in all_clocks], strict=True),
    )
    yield _gauge(
        "active_rules",
        "Rules that count at the clock.",
        by,
        zip(at, [clock.active_rules for clock in all_clocks], strict=True),
    )


def _of_restores(stats: Stats) -> Iterator[Metric]:
    yield _gauge(
        "restore_left_offsets",
        "Offsets of a changelog still to be read in a restore.",
        ["topic", "partition"],
        [([r.topic, str(r.partition)], r.total - r.done) for r in stats.restores],
    )
