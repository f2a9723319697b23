"""The rules that turn stats into alerts: pure functions from a ProcessHistory to its alerts.

See docs/monitor.md, "Alerts".
"""

from dataclasses import dataclass

import msgspec

from tidemark.core.time.segment import shown_source
from tidemark.runtime.service.stats import ClockStats, OperatorStats, Stats

LAG_WINDOW_MS = 30_000
"""Lag must grow for this time before it is an alert."""

DEAD_WINDOW_MS = 300_000
"""The alert for dead letters ends this time after the last one."""

_SAMPLE_MS = 2_000


@dataclass(frozen=True)
class Thresholds:
    """``lag_records``: least growth of lag.  ``stuck_ms``: longest time without a clock's move."""

    lag_records: int = 1_000
    stuck_ms: int = 60_000


class ProcessHistory(msgspec.Struct, frozen=True):
    """The last record of one process, and the past values that the rules need.

    ``lags``: samples (time in ms, lag), oldest first.  ``dead_at_ms``: time of the record that last
    counted a new dead letter.
    """

    stats: Stats
    lags: list[tuple[int, int]] = []
    dead_at_ms: int | None = None


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

    The time of the last dead letter outlives a restart.
    """
    if history is None or history.stats.started_at_ms != stats.started_at_ms:
        before_ms = None if history is None else history.dead_at_ms
        return ProcessHistory(
            stats, _sampled([], stats), stats.at_ms if stats.dead_letters else before_ms
        )
    more = stats.dead_letters > history.stats.dead_letters
    return ProcessHistory(
        stats, _sampled(history.lags, stats), stats.at_ms if more else history.dead_at_ms
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
    ]


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
    return [
        Alert(
            "clock stuck",
            process_of(stats),
            f"{operator.operator}/{clock.partition}",
            f"{shown_source(clock.held_by or '')} holds the clock of {operator.operator}, log "
            f"partition {clock.partition}: {clock.open_windows} windows wait",
            clock.unmoved_since_ms,
        )
        for operator in stats.operators
        for clock in operator.clocks
        if _is_stuck(operator, clock, stats.at_ms, stuck_ms)
    ]


def _is_stuck(operator: OperatorStats, clock: ClockStats, at_ms: int, stuck_ms: int) -> bool:
    waited = clock.held_by is not None and at_ms - clock.unmoved_since_ms >= stuck_ms
    return waited and operator.rows + clock.open_windows > 0


def _dead_letters(history: ProcessHistory) -> list[Alert]:
    stats, at_ms = history.stats, history.dead_at_ms
    if at_ms is None or stats.at_ms - at_ms > DEAD_WINDOW_MS:
        return []
    text = f"since its start: {stats.dead_letters}; {stats.pipeline}.dead-letters says why"
    return [Alert("dead letters", process_of(stats), "", text, at_ms)]


def _restores(stats: Stats) -> list[Alert]:
    return [
        Alert(
            "restore running",
            process_of(stats),
            f"{restore.topic}/{restore.partition}",
            f"{restore.topic}/{restore.partition}: {restore.done} of {restore.total} offsets",
            stats.at_ms,
        )
        for restore in stats.restores
    ]
