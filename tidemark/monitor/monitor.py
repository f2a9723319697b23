"""What the monitor keeps of a pipeline: the last stats of its processes, alerts, the past.

The tables are Faust's, and their changelogs bring them back after a restart.  Rates begin anew.
"""

import logging
from collections.abc import Collection, Iterable
from typing import Any

import faust
import msgspec

from tidemark.monitor.alerts import (
    STUCK,
    Alert,
    ProcessHistory,
    Thresholds,
    alerts_of,
    follow,
    process_of,
)
from tidemark.monitor.dashboard import dashboard, sample
from tidemark.monitor.history import RINGS, SAMPLE_MS, Point, Ring, chart, slot, with_sample
from tidemark.monitor.presence import FORGOTTEN_MS, present
from tidemark.monitor.rates import RateMeter
from tidemark.monitor.status import status
from tidemark.plan.physical import Plan
from tidemark.plan.topics import TABLE_SETTINGS
from tidemark.runtime.service.stats import Stats, decode
from tidemark.runtime.wall_clock import now_ms

TABLES = ("latest", "alerts", "history")
PARTITIONS = 1

_log = logging.getLogger("tidemark")


class Monitor:
    """The tables of one pipeline's stats and alerts."""

    def __init__(self, app: faust.App, plan: Plan, thresholds: Thresholds) -> None:
        """``app``: owns the tables."""
        self.plan = plan
        self._thresholds = thresholds
        kept: dict[str, Any] = {
            "partitions": PARTITIONS,
            "key_type": str,
            "extra_topic_configs": TABLE_SETTINGS,
        }
        self._latest, self._alerts, self._history = (app.Table(name, **kept) for name in TABLES)
        self._meter = RateMeter()
        self._sampled_ms = 0
        self._skipped = 0

    def read(self, value: bytes | None) -> None:
        """Take the value of a stats record; log and count a value that is not one."""
        try:
            stats = decode(value)
        except msgspec.DecodeError as error:
            self._skipped += 1
            _log.warning(
                "%s.stats: skipped a record that is not a stats record: %s",
                self.plan.pipeline,
                error,
            )
        else:
            self.take(stats)

    def take(self, stats: Stats) -> None:
        """Replace the record of its process; raise and end alerts.

        A process that stops in order is removed.
        """
        process = process_of(stats)
        if stats.stopped:
            self._remove(process)
        else:
            held = self._latest.get(process)
            history = follow(msgspec.convert(held, ProcessHistory) if held else None, stats)
            self._latest[process] = msgspec.to_builtins(history)
            self._meter.take(stats)
            now = {alert.key: alert for alert in alerts_of(history, self._thresholds)}
            self._end_alerts(process, now)
            for key, alert in now.items():
                self._raise(key, alert)
        at_ms = now_ms()
        self._forget(min(stats.at_ms, at_ms))
        if at_ms - self._sampled_ms >= SAMPLE_MS:
            self._sampled_ms = at_ms
            self._sample(at_ms)

    def _remove(self, process: str) -> None:
        if process in self._latest:
            del self._latest[process]
        self._meter.remove(process)
        self._end_alerts(process, still=())

    def _end_alerts(self, process: str, still: Collection[str]) -> None:
        """End the alerts of a process, except those with keys in ``still``."""
        for key, before in list(self._alerts.items()):
            if before["process"] == process and key not in still:
                del self._alerts[key]
                _log.info("alert over: %s: %s", process, before["kind"])

    def _raise(self, key: str, alert: Alert) -> None:
        before = self._alerts.get(key)
        if before is None:
            _log.warning("alert: %s: %s: %s", alert.process, alert.kind, alert.text)
        since_ms = alert.since_ms if before is None else min(before["since_ms"], alert.since_ms)
        if alert.kind != STUCK:
            alert = msgspec.structs.replace(alert, since_ms=since_ms)
        self._alerts[key] = msgspec.to_builtins(alert)

    def _forget(self, now_ms: int) -> None:
        for process, held in list(self._latest.items()):
            if now_ms - held["stats"]["at_ms"] >= FORGOTTEN_MS:
                self._remove(process)

    def _sample(self, at_ms: int) -> None:
        latest = present(self._records(), at_ms)
        values = sample(self.plan, latest, self._meter.rates, at_ms)
        for ring in RINGS:
            key = slot(ring, at_ms)
            held = self._history.get(key)
            point = msgspec.convert(held, Point) if held else None
            self._history[key] = msgspec.to_builtins(with_sample(point, ring, at_ms, values))

    def chart(self, ring: Ring) -> dict[str, Any]:
        """Return the series of a ring as JSON values (docs/monitor.md, "History")."""
        keys = (key for key in self._history if key.startswith(f"{ring.name}/"))
        points = (msgspec.convert(self._history[key], Point) for key in keys)
        return chart(ring, points, now_ms())

    def status(self) -> dict[str, Any]:
        """Return the status as JSON values (docs/monitor.md)."""
        return self._status(self._records(), now_ms())

    def dashboard(self) -> dict[str, Any]:
        """Return the status with the graph, rates and remedies."""
        at_ms = now_ms()
        latest = present(self._records(), at_ms)
        return dashboard(self.plan, self._status(latest, at_ms), latest, self._meter.rates)

    def _status(self, latest: Iterable[Stats], at_ms: int) -> dict[str, Any]:
        alerts = [msgspec.convert(held, Alert) for held in self._alerts.values()]
        restarts = {process: held.get("restarts", 0) for process, held in self._latest.items()}
        found = status(self.plan.pipeline, latest, alerts, at_ms, restarts)
        return {**found, "skipped_records": self._skipped}

    def _records(self) -> list[Stats]:
        return [msgspec.convert(held["stats"], Stats) for held in self._latest.values()]
