"""The status of a pipeline, computed from the last stats of processes and the present time.

The page and ``/api/status`` show it.  Silent processes are found only here: a process that died
writes no record.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tidemark.core.time.segment import is_operator_source, shown_source
from tidemark.monitor.alerts import Alert, process_of
from tidemark.monitor.presence import is_silent, present
from tidemark.runtime.service.stats import ClockStats, SourceStats, Stats

Json = dict[str, Any]

Ingest = Mapping[str, tuple[SourceStats, int | None]]
"""Ingest's stats of raw partitions by name, and the lag of each in records."""


def status(pipeline: str, last: Iterable[Stats], alerts: Iterable[Alert], now_ms: int) -> Json:
    """Return the whole status as JSON values; ``last``: the last record of each process."""
    latest = sorted(present(last, now_ms), key=process_of)
    raised = [*alerts, *_silent(latest, now_ms)]
    known = {process_of(stats) for stats in latest}
    # While partitions change hands, two processes name one.  The newer record is right.
    by_age = sorted(latest, key=lambda stats: stats.at_ms)
    ingest = _ingest(stats for stats in by_age if not is_silent(stats, now_ms))
    clocks = {
        (clock["operator"], clock["partition"]): clock
        for stats in by_age
        for clock in _clocks(stats, ingest, now_ms)
    }
    sources = {source["source"]: source for stats in by_age for source in _sources(stats)}
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
        "clocks": [clock for _, clock in sorted(clocks.items())],
        "sources": sorted(sources.values(), key=_topic_and_number),
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


def _silent(latest: Iterable[Stats], now_ms: int) -> list[Alert]:
    return [
        Alert(
            "silent",
            process_of(stats),
            "",
            "it has stopped, it cannot reach Kafka, or one step takes this long",
            stats.at_ms,
        )
        for stats in latest
        if is_silent(stats, now_ms)
    ]


def _process(stats: Stats, now_ms: int) -> Json:
    commits = stats.commits
    silent = is_silent(stats, now_ms)
    return {
        "process": process_of(stats),
        "ready": stats.ready and not silent,
        "reasons": [_no_record(stats, now_ms)] if silent else stats.reasons,
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


def _no_record(stats: Stats, now_ms: int) -> str:
    return f"no record of {process_of(stats)} for {(now_ms - stats.at_ms) // 1000} s"


def _sources(stats: Stats) -> list[Json]:
    """Return ingest's stats of raw partitions, with their lags."""
    lags = _lags(stats)
    return [
        {**msgspec.to_builtins(source), "lag": lags.get(source.source)} for source in stats.sources
    ]


def _topic_and_number(source: Json) -> tuple[str, int]:
    topic, _, number = source["source"].rpartition("/")
    return topic, int(number) if topic else 0


def _ingest(running: Iterable[Stats]) -> Ingest:
    found: dict[str, tuple[SourceStats, int | None]] = {}
    for stats in running:
        lags = _lags(stats)
        found |= {each.source: (each, lags.get(each.source)) for each in stats.sources}
    return found


def _clocks(stats: Stats, ingest: Ingest, now_ms: int) -> list[Json]:
    return [
        {
            "operator": operator.operator,
            "process": process_of(stats),
            **msgspec.to_builtins(clock),
            "why": _no_record(stats, now_ms)
            if is_silent(stats, now_ms)
            else _why(clock, ingest, now_ms),
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
