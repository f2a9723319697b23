"""The status of a pipeline, computed from the last stats of processes and the present time.

The page and ``/api/status`` show it.  Silent processes are found only here: a process that died
writes no record.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tidemark.core.time.segment import shown_source
from tidemark.monitor.alerts import STUCK, Alert, process_of
from tidemark.monitor.holders import HELD_MS, Ingest, Json, holders, why
from tidemark.monitor.presence import is_silent, present
from tidemark.runtime.service.histogram import BOUNDS_MS
from tidemark.runtime.service.stats import PartitionStats, SourceStats, Stats

_NAMED = 3
"""The most processes or operators that an alert names."""


def status(
    pipeline: str,
    last: Iterable[Stats],
    alerts: Iterable[Alert],
    now_ms: int,
    restarts: Mapping[str, int] | None = None,
) -> Json:
    """Return the whole status as JSON values.

    ``last``: the last record of each process.  ``restarts``: how often each has started again.
    """
    latest = sorted(present(last, now_ms), key=process_of)
    known = {process_of(stats) for stats in latest}
    raised = [alert for alert in (*alerts, *_silent(latest, now_ms)) if alert.process in known]
    # While partitions change hands, two processes name one.  The newer record is right.
    by_age = sorted(latest, key=lambda stats: stats.at_ms)
    awake = [stats for stats in by_age if not is_silent(stats, now_ms)]
    ingest = _ingest(awake)
    clocks = {
        (clock["operator"], clock["partition"]): clock
        for stats in by_age
        for clock in _clocks(stats, ingest, now_ms)
    }
    ordered = [clock for _, clock in sorted(clocks.items())]
    names = {process_of(stats) for stats in awake}
    held = holders((each for each in ordered if each["process"] in names), ingest, now_ms)
    sources = {source["source"]: source for stats in by_age for source in _sources(stats)}
    return {
        "pipeline": pipeline,
        "at_ms": now_ms,
        "alerts": [
            msgspec.to_builtins(alert)
            for alert in sorted(
                [*(each for each in raised if each.kind != STUCK), *_stuck(raised, held)],
                key=lambda alert: (alert.since_ms, alert.key),
            )
        ],
        "holders": [
            each for each in held if each["open_windows"] and now_ms - each["since_ms"] >= HELD_MS
        ],
        "processes": [
            {**_process(stats, now_ms), "restarts": (restarts or {}).get(process_of(stats), 0)}
            for stats in latest
        ],
        # Sorted by operator and partition, whichever process owns them now.
        "clocks": ordered,
        "open_windows": _open_windows(ordered),
        "sources": sorted(sources.values(), key=_topic_and_number),
    }


def _stuck(raised: Iterable[Alert], held: Iterable[Json]) -> list[Alert]:
    """Return one alert for each source that holds clocks, whichever processes have them.

    It says why the source holds them now.
    """
    texts = {each["source"]: f"{_held(each)}: {each['text']}" for each in held}
    by_source: dict[str, list[Alert]] = {}
    for alert in raised:
        if alert.kind == STUCK:
            by_source.setdefault(alert.subject, []).append(alert)
    found = []
    for source, its in by_source.items():
        processes = sorted({alert.process for alert in its})
        named = ", ".join(processes) if len(processes) <= _NAMED else f"{len(processes)} processes"
        text = texts.get(source, "; ".join(alert.text for alert in its[:_NAMED]))
        found.append(Alert(STUCK, named, source, text, min(alert.since_ms for alert in its)))
    return found


def _held(holder: Json) -> str:
    clocks = "1 clock" if holder["clocks"] == 1 else f"{holder['clocks']} clocks"
    operators = holder["operators"]
    more = f" and {len(operators) - _NAMED} more" if len(operators) > _NAMED else ""
    named = ", ".join(operators[:_NAMED])
    return f"{shown_source(holder['source'])} holds {clocks} of {named}{more}"


def _open_windows(clocks: Iterable[Json]) -> list[Json]:
    """Return the open windows of each operator: their number, the oldest one, and their ages."""
    found: dict[str, list[Json]] = {}
    for clock in clocks:
        found.setdefault(clock["operator"], []).append(clock)
    return [_windows_of(operator, its) for operator, its in found.items()]


def _windows_of(operator: str, clocks: Sequence[Json]) -> Json:
    known = [clock for clock in clocks if clock["oldest_begin_ms"] is not None]
    oldest = min(known, key=lambda clock: clock["oldest_begin_ms"], default=None)
    names = ("partition", "oldest_begin_ms", "oldest_end_ms")
    counts = [clock["ages"] for clock in clocks if len(clock["ages"]) == len(BOUNDS_MS) + 1]
    return {
        "operator": operator,
        "open_windows": sum(clock["open_windows"] for clock in clocks),
        **{name: oldest[name] if oldest else None for name in names},
        "ages": [
            {"up_to_ms": bound_ms, "windows": sum(windows)}
            for bound_ms, windows in zip([*BOUNDS_MS, None], zip(*counts, strict=True), strict=True)
        ]
        if counts
        else [],
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
        "rebalances": stats.rebalances,
        "commits": commits.count,
        "commit_mean_ms": commits.total_ms / commits.count if commits.count else None,
        "commit_longest_ms": commits.longest_ms,
        "waits": msgspec.to_builtins(stats.waits),
        "dead_reasons": msgspec.to_builtins(stats.dead_reasons),
        "restores": msgspec.to_builtins(stats.restores),
        "replays": msgspec.to_builtins(stats.replays),
    }


def _no_record(stats: Stats, now_ms: int) -> str:
    return f"no record of {process_of(stats)} for {(now_ms - stats.at_ms) // 1000} s"


def _sources(stats: Stats) -> list[Json]:
    """Return ingest's stats of raw partitions, with their lags."""
    read = _partitions(stats)
    return [
        {
            **msgspec.to_builtins(source),
            "lag": read[source.source].lag if source.source in read else None,
        }
        for source in stats.sources
    ]


def _topic_and_number(source: Json) -> tuple[str, int]:
    topic, _, number = source["source"].rpartition("/")
    return topic, int(number) if topic else 0


def _ingest(running: Iterable[Stats]) -> Ingest:
    found: dict[str, tuple[SourceStats, PartitionStats | None]] = {}
    for stats in running:
        read = _partitions(stats)
        found |= {each.source: (each, read.get(each.source)) for each in stats.sources}
    return found


def _clocks(stats: Stats, ingest: Ingest, now_ms: int) -> list[Json]:
    return [
        {
            "operator": operator.operator,
            "process": process_of(stats),
            **msgspec.to_builtins(clock),
            "why": _no_record(stats, now_ms)
            if is_silent(stats, now_ms)
            else why(clock, ingest, now_ms),
        }
        for operator in stats.operators
        for clock in operator.clocks
    ]


def _partitions(stats: Stats) -> dict[str, PartitionStats]:
    return {f"{at.topic}/{at.partition}": at for at in stats.partitions}
