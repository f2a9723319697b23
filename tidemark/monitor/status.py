"""The status of a pipeline, computed from process histories and the present time.

The page and ``/api/status`` show it.  Silent processes are found only here: a process that died
writes no record.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tidemark.core.time.segment import is_operator_source, shown_source
from tidemark.monitor.alerts import Alert, ProcessHistory, process_of
from tidemark.runtime.service.stats import ClockStats, SourceStats, Stats

QUIET_MS = 10_000
"""A process without a record for this time is an alert."""

FORGOTTEN_MS = 3_600_000
"""A process without a record for this time is removed."""

Json = dict[str, Any]

Ingest = Mapping[str, tuple[SourceStats, int | None]]
"""Ingest's stats of raw partitions by name, and the lag of each in records."""


def status(
    pipeline: str, histories: Iterable[ProcessHistory], alerts: Iterable[Alert], now_ms: int
) -> Json:
    """Return the whole status as JSON values."""
    latest = sorted(
        (each.stats for each in histories if now_ms - each.stats.at_ms < FORGOTTEN_MS),
        key=process_of,
    )
    raised = [*alerts, *_quiet(latest, now_ms)]
    known = {process_of(stats) for stats in latest}
    ingest = _ingest(latest)
    return {
        "pipeline": pipeline,
        "at_ms": now_ms,
        "alerts": [
            msgspec.to_builtins(alert)
            for alert in sorted(raised, key=lambda alert: (alert.since_ms, alert.key))
            if alert.process in known
        ],
        "processes": [_process(stats, now_ms) for stats in latest],
        # Sorted by operator and partition, whichever process owns them now.
        "clocks": sorted(
            (clock for stats in latest for clock in _clocks(stats, ingest, now_ms)),
            key=lambda clock: (clock["operator"], clock["partition"]),
        ),
        "sources": sorted(
            (source for stats in latest for source in _sources(stats)), key=_topic_and_number
        ),
    }


def why_open(status: Json, operator: str | None, end_ms: int | None) -> list[Json]:
    """Return the clocks of an operator, with the reason why a window is still open.

    ``operator``: all if None.  ``end_ms``: end of the window; any window if None.
    """
    return [
        {**clock, "open": end_ms is None or clock["clock_ms"] is None or clock["clock_ms"] < end_ms}
        for clock in status["clocks"]
        if operator in (None, clock["operator"])
    ]


def _quiet(latest: Iterable[Stats], now_ms: int) -> list[Alert]:
    return [
        Alert("silent", process_of(stats), "", "has stopped, or cannot reach Kafka", stats.at_ms)
        for stats in latest
        if now_ms - stats.at_ms > QUIET_MS
    ]


def _process(stats: Stats, now_ms: int) -> Json:
    commits = stats.commits
    return {
        "process": process_of(stats),
        "ready": stats.ready,
        "reasons": stats.reasons,
        "said_ms": now_ms - stats.at_ms,
        "started_at_ms": stats.started_at_ms,
        "rows_in": stats.rows_in,
        "rows_out": stats.rows_out,
        "filtered": stats.filtered,
        "converted": stats.converted,
        "late": stats.late,
        "dead_letters": stats.dead_letters,
        "lag": stats.lag,
        "commits": commits.count,
        "commit_mean_ms": commits.total_ms / commits.count if commits.count else None,
        "commit_longest_ms": commits.longest_ms,
        "restores": msgspec.to_builtins(stats.restores),
    }


def _sources(stats: Stats) -> list[Json]:
    """Return ingest's stats of raw partitions, with their lags."""
    lags = _lags(stats)
    return [
        {**msgspec.to_builtins(source), "lag": lags.get(source.source)} for source in stats.sources
    ]


def _topic_and_number(source: Json) -> tuple[str, int]:
    topic, _, number = source["source"].rpartition("/")
    return topic, int(number) if topic else 0


def _ingest(latest: Iterable[Stats]) -> Ingest:
    found: dict[str, tuple[SourceStats, int | None]] = {}
    for stats in latest:
        lags = _lags(stats)
        found |= {each.source: (each, lags.get(each.source)) for each in stats.sources}
    return found


def _clocks(stats: Stats, ingest: Ingest, now_ms: int) -> list[Json]:
    return [
        {
            "operator": operator.operator,
            "process": process_of(stats),
            **msgspec.to_builtins(clock),
            "why": _why(clock, ingest, now_ms),
        }
        for operator in stats.operators
        for clock in operator.clocks
    ]


def _lags(stats: Stats) -> dict[str, int | None]:
    return {f"{at.topic}/{at.partition}": at.lag for at in stats.partitions}


def _why(clock: ClockStats, ingest: Ingest, now_ms: int) -> str:
    """Return a sentence that says what the clock waits for."""
    if clock.held_by is None:
        return "all sources are silent"
    stands_s = max(0, now_ms - clock.unmoved_since_ms) // 1000
    held = f"{shown_source(clock.held_by)} holds it for {stands_s} s"
    if is_operator_source(clock.held_by):
        return held
    if clock.held_by not in ingest:
        return f"{held}: no ingest process reads it"
    source, lag = ingest[clock.held_by]
    if source.loading:
        return f"{held}: it is a table that is loaded, at most {source.loading} records are left"
    if lag:
        return f"{held}: ingest has still to read {lag} records of it"
    if source.silent_since_ms is None:
        return held
    return f"{held}: no record came for {max(0, now_ms - source.silent_since_ms) // 1000} s"
