"""The rules that turn stats into alerts: pure functions from a ProcessHistory to its alerts.

See docs/monitor.md, "Alerts".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tidemark.core.time.segment import shown_source
from tidemark.plan.physical import Plan
from tidemark.runtime.service.stats import (
    ClockStats,
    OperatorStats,
    RestoreStats,
    SourceStats,
    Stats,
    instant_text,
)

LAG_WINDOW_MS = 30_000
"""Lag must grow for this time before it is an alert."""

DEAD_WINDOW_MS = 300_000
"""The alert for dead letters ends this time after the last one."""

_SAMPLE_MS = 2_000

STUCK, DEAD_LETTERS = "clock stuck", "dead letters"

REMEDIES = {
    "lag growing": "start one more process of the service, up to the partitions that it reads; or "
    "look at the log of the process for retries",
    STUCK: "bring the source's producer back, or set idle_after so that a silent partition "
    "no longer holds the clock; tidemark why open {pipeline} shows more",
    DEAD_LETTERS: "correct the producer or the schema, then send them again: "
    "tidemark dead-letters retry {pipeline}",
    "restore running": "wait: the partitions go on when their state is read back",
    "silent": "look at its log; start it again if it has ended",
    "wrong unit": "correct unit= of the source's event_time, or the expression that gives ms; the "
    "log has the wrong times already, so begin anew: tidemark reset {pipeline} --delete-results",
    "not ready": "the reason says what is missing; docs/operations.md, Health, says what to do for "
    "each",
}
"""What a person can do about an alert, by its kind."""

_AWAY = (
    "read the reason first; if the system that it writes to is away, bring it back, or correct the "
    "address ({setting}); what is not written waits in its topics, and nothing is lost"
)
"""The same, if a sink or an archive is not ready; ``setting``: has the address."""

UNREADY_MS = 15_000
"""A process that is not ready for this time is an alert: starts and rebalances take less."""

_SHOWN_REASONS = 3

_YEAR_MS = 366 * 86_400_000

_SHORTER_UNITS = {1_000: "ms", 1_000_000: "us", 1_000_000_000: "ns"}
"""Units by the number of them in a second."""


@dataclass(frozen=True)
class Thresholds:
    """``lag_records``: least growth of lag.  ``stuck_ms``: longest time without a clock's move."""

    lag_records: int = 1_000
    stuck_ms: int = 60_000


class ProcessHistory(msgspec.Struct, frozen=True):
    """The last record of one process, and the past values that the rules need.

    ``lags``: samples (time in ms, lag), oldest first.  ``dead_at_ms``: time of the record that last
    counted a new dead letter.  ``restarts``: how often the process has started again.
    ``unready_since_ms``: time of the first record since which it is not ready,
    other than for a restore.
    """

    stats: Stats
    lags: list[tuple[int, int]] = []
    dead_at_ms: int | None = None
    restarts: int = 0
    unready_since_ms: int | None = None


class Alert(msgspec.Struct, frozen=True):
    """A condition that a person should check.

    ``process``: service/slot.  ``subject``: the operator or topic and partition, empty if none.
    """

    kind: str
    process: str
    subject: str
    text: str
    since_ms: int

    @property
    def key(self) -> str:
        """Identifies the alert across records."""
        return f"{self.process} {self.kind} {self.subject}"


def process_of(stats: Stats) -> str:
    """Return service/slot; it is also the key of the stats record."""
    return f"{stats.service}/{stats.slot}"


def follow(history: ProcessHistory | None, stats: Stats) -> ProcessHistory:
    """Return the history with a record added; a restarted process begins a new history.

    The time of the last dead letter and the number of restarts outlive a restart.
    """
    reborn = history is not None and history.stats.started_at_ms != stats.started_at_ms
    fresh = reborn or history is None
    before = ProcessHistory(stats) if history is None else history
    dead_letters = 0 if fresh else before.stats.dead_letters
    since_ms = stats.at_ms if before.unready_since_ms is None else before.unready_since_ms
    return ProcessHistory(
        stats,
        _sampled([] if fresh else before.lags, stats),
        stats.at_ms if stats.dead_letters > dead_letters else before.dead_at_ms,
        before.restarts + reborn,
        None if stats.ready or stats.restores else since_ms,
    )


def _sampled(lags: list[tuple[int, int]], stats: Stats) -> list[tuple[int, int]]:
    if stats.lag is None or (lags and stats.at_ms - lags[-1][0] < _SAMPLE_MS):
        return lags
    kept = [each for each in lags if stats.at_ms - each[0] <= LAG_WINDOW_MS + _SAMPLE_MS]
    return [*kept, (stats.at_ms, stats.lag)]


def alerts_of(history: ProcessHistory, thresholds: Thresholds) -> list[Alert]:
    """Return the present alerts of one process."""
    return [
        *_lag(history, thresholds.lag_records),
        *_stuck(history.stats, thresholds.stuck_ms),
        *_dead_letters(history),
        *_restores(history.stats),
        *wrong_units(history.stats),
        *_not_ready(history),
    ]


def unready(stats: Stats, since_ms: int) -> list[Alert]:
    """Alert if a process is not ready; a restore has an alert of its own."""
    if stats.ready or stats.restores:
        return []
    text = "; ".join(stats.reasons) or "it gives no reason"
    return [Alert("not ready", process_of(stats), "", text, since_ms)]


def _not_ready(history: ProcessHistory) -> list[Alert]:
    since_ms, at_ms = history.unready_since_ms, history.stats.at_ms
    if since_ms is None or at_ms - since_ms < UNREADY_MS:
        return []
    return unready(history.stats, since_ms)


def wrong_units(stats: Stats) -> list[Alert]:
    """Alert if the times of a topic are far from now, but near it in another unit.

    A topic has one alert, which names partitions that are wrong in the same way together.
    """
    wrong: dict[str, dict[str, list[tuple[SourceStats, int]]]] = {}
    for source in stats.sources:
        meant = _meant(source.watermark_ms, stats.at_ms)
        if meant is not None:
            meant_ms, unit = meant
            topic = source.source.rpartition("/")[0]
            wrong.setdefault(topic, {}).setdefault(unit, []).append((source, meant_ms))
    return [
        Alert(
            "wrong unit",
            process_of(stats),
            topic,
            "; ".join(_unit_text(topic, unit, its) for unit, its in units.items()),
            stats.at_ms,
        )
        for topic, units in wrong.items()
    ]


def _unit_text(topic: str, unit: str, sources: Sequence[tuple[SourceStats, int]]) -> str:
    """``sources``: of the topic, each with the time that is meant."""
    source, meant_ms = sources[0]
    of = source.source if len(sources) == 1 else f"{len(sources)} partitions of {topic}"
    return (
        f"event times of {of} are about {instant_text(source.watermark_ms or 0)}; "
        f"{unit} they would be about {instant_text(meant_ms)}"
    )


def _meant(at_ms: int | None, now_ms: int) -> tuple[int, str] | None:
    """Return the number as a time near now, and the unit that makes it so; None without one."""
    if at_ms is None or abs(at_ms - now_ms) <= _YEAR_MS:
        return None
    for times, shorter in _SHORTER_UNITS.items():
        for meant_ms, how, units in (
            (at_ms * times, "longer", f"seconds are to {shorter}"),
            (at_ms // times, "shorter", f"{shorter} are to seconds"),
        ):
            if abs(meant_ms - now_ms) <= _YEAR_MS:
                return meant_ms, f"in a unit that is {times:,} times {how}, as {units},"
    return None


def todo(alert: Mapping[str, Any], plan: Plan) -> str:
    """Return what a person can do about an alert."""
    service = alert["process"].rpartition("/")[0]
    if alert["kind"] == "not ready" and service not in plan.services():
        archive = service == "archive"
        return _AWAY.format(setting="TIDEMARK_ARCHIVE" if archive else "TIDEMARK_SINK")
    return REMEDIES[alert["kind"]].format(pipeline=plan.pipeline)


def _lag(history: ProcessHistory, least: int) -> list[Alert]:
    """Alert if lag is highest now, lowest at the start of the window, and has grown enough."""
    if not history.lags or history.lags[-1][0] - history.lags[0][0] < LAG_WINDOW_MS - _SAMPLE_MS:
        return []
    lags = [lag for _, lag in history.lags]
    grown = lags[-1] - lags[0]
    if grown < least or lags[-1] < max(lags) or min(lags) < lags[0]:
        return []
    text = f"lag has grown by {grown} to {lags[-1]} records in {LAG_WINDOW_MS // 1000} s"
    return [Alert("lag growing", process_of(history.stats), "", text, history.lags[0][0])]


def _stuck(stats: Stats, stuck_ms: int) -> list[Alert]:
    """Alert once for each source that holds clocks; the status says why it holds them."""
    held: dict[str, list[ClockStats]] = {}
    for operator in stats.operators:
        for clock in operator.clocks:
            if clock.held_by is not None and _is_stuck(operator, clock, stats.at_ms, stuck_ms):
                held.setdefault(clock.held_by, []).append(clock)
    return [
        Alert(
            STUCK,
            process_of(stats),
            source,
            f"{shown_source(source)} holds the clocks of {len(clocks)} log partitions: "
            f"{sum(clock.open_windows for clock in clocks)} windows wait",
            min(clock.unmoved_since_ms for clock in clocks),
        )
        for source, clocks in held.items()
    ]


def _is_stuck(operator: OperatorStats, clock: ClockStats, at_ms: int, stuck_ms: int) -> bool:
    waited = at_ms - clock.unmoved_since_ms >= stuck_ms
    return waited and operator.rows + clock.open_windows > 0


def dead_letters(stats: Stats, since_ms: int) -> list[Alert]:
    """Alert if the process has written dead letters, with the most frequent reasons."""
    if not stats.dead_letters:
        return []
    reasons = [f"{each.reason} ({each.count})" for each in stats.dead_reasons[:_SHOWN_REASONS]]
    said = "; ".join(reasons) or f"{stats.pipeline}.dead-letters says why"
    text = f"{stats.dead_letters} since its start: {said}"
    return [Alert(DEAD_LETTERS, process_of(stats), "", text, since_ms)]


def _dead_letters(history: ProcessHistory) -> list[Alert]:
    stats, at_ms = history.stats, history.dead_at_ms
    if at_ms is None or stats.at_ms - at_ms > DEAD_WINDOW_MS:
        return []
    text = f"0 since its start, and more before; {stats.pipeline}.dead-letters says why"
    before = Alert(DEAD_LETTERS, process_of(stats), "", text, at_ms)
    return dead_letters(stats, at_ms) or [before]


def _restores(stats: Stats) -> list[Alert]:
    """Alert once for each changelog that is read back, however many partitions it has."""
    by_topic: dict[str, list[RestoreStats]] = {}
    for each in stats.restores:
        by_topic.setdefault(each.topic, []).append(each)
    return [
        Alert("restore running", process_of(stats), topic, _restore_text(topic, its), stats.at_ms)
        for topic, its in by_topic.items()
    ]


def _restore_text(topic: str, restores: Sequence[RestoreStats]) -> str:
    done, total = sum(each.done for each in restores), sum(each.total for each in restores)
    of = f"/{restores[0].partition}" if len(restores) == 1 else f", {len(restores)} partitions"
    return f"{topic}{of}: {done} of {total} offsets"
