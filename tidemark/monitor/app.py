"""The monitor as a Faust app: reads stats, keeps tables of stats and alerts, serves a page.

It reads only the stats topic, and no service waits for it, so it may be absent, late or killed.
Its tables are restored from their changelogs.  Faust reads uncommitted records; that is right here,
because stats are written without transactions.
"""

import logging
from collections.abc import Collection
from tempfile import TemporaryDirectory
from typing import Any

import faust
import msgspec
from confluent_kafka import KafkaError, KafkaException
from faust.web.drivers.aiohttp import Web

from tidemark.monitor.alerts import Alert, ProcessHistory, Thresholds, alerts_of, follow, process_of
from tidemark.monitor.credentials import credentials
from tidemark.monitor.page import page
from tidemark.monitor.presence import FORGOTTEN_MS
from tidemark.monitor.status import status, why_open
from tidemark.plan.physical import Plan
from tidemark.runtime.client.broker_probe import await_broker
from tidemark.runtime.client.topics import TABLE_SETTINGS, Topic, begin_to_create, stats_topic
from tidemark.runtime.config import Config
from tidemark.runtime.service.stats import Stats, decode
from tidemark.runtime.wall_clock import now_ms

DEFAULT_PORT = 6066

_TABLES = ("latest", "alerts")
_PARTITIONS = 1
_SESSION_S, _HEARTBEAT_S = 10.0, 1.0
_log = logging.getLogger("tidemark")


class _OwnPages(Web):
    """Serves only the monitor's pages, none of Faust's."""

    default_blueprints = ()
    production_blueprints = ()
    debug_blueprints = ()
    optional_blueprints = ()


class _App(faust.App):
    def _new_web(self) -> Web:
        return _OwnPages(self)


class Monitor:
    """The tables of one pipeline's stats and alerts."""

    def __init__(self, app: faust.App, pipeline: str, thresholds: Thresholds) -> None:
        """``app``: owns the tables."""
        self.pipeline = pipeline
        self._thresholds = thresholds
        kept: dict[str, Any] = {
            "partitions": _PARTITIONS,
            "key_type": str,
            "extra_topic_configs": TABLE_SETTINGS,
        }
        self._latest, self._alerts = (app.Table(name, **kept) for name in _TABLES)
        self._skipped = 0

    def read(self, value: bytes | None) -> None:
        """Take the value of a stats record; log and count a value that is not one."""
        try:
            stats = decode(value)
        except msgspec.DecodeError as error:
            self._skipped += 1
            _log.warning(
                "%s.stats: skipped a record that is not a stats record: %s", self.pipeline, error
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
            now = {alert.key: alert for alert in alerts_of(history, self._thresholds)}
            self._end_alerts(process, now)
            for key, alert in now.items():
                self._raise(key, alert)
        self._forget(min(stats.at_ms, now_ms()))

    def _remove(self, process: str) -> None:
        if process in self._latest:
            del self._latest[process]
        self._end_alerts(process, still=())

    def _end_alerts(self, process: str, still: Collection[str]) -> None:
        """End the alerts of a process, except those whose keys are in ``still``."""
        for key, before in list(self._alerts.items()):
            if before["process"] == process and key not in still:
                del self._alerts[key]
                _log.info("alert over: %s: %s", process, before["kind"])

    def _raise(self, key: str, alert: Alert) -> None:
        before = self._alerts.get(key)
        if before is None:
            _log.warning("alert: %s: %s: %s", alert.process, alert.kind, alert.text)
        since_ms = alert.since_ms if before is None else min(before["since_ms"], alert.since_ms)
        if alert.kind != "clock stuck":
            alert = msgspec.structs.replace(alert, since_ms=since_ms)
        self._alerts[key] = msgspec.to_builtins(alert)

    def _forget(self, now_ms: int) -> None:
        for process, held in list(self._latest.items()):
            if now_ms - held["stats"]["at_ms"] >= FORGOTTEN_MS:
                self._remove(process)

    def status(self) -> dict[str, Any]:
        """Return the status as JSON values (docs/monitor.md)."""
        last = [msgspec.convert(held["stats"], Stats) for held in self._latest.values()]
        alerts = [msgspec.convert(held, Alert) for held in self._alerts.values()]
        found = status(self.pipeline, last, alerts, now_ms())
        return {**found, "skipped_records": self._skipped}


def monitor_app(config: Config, pipeline: str, folder: str) -> faust.App:
    """Return the app; ``folder``: a writable folder for Faust, which stores nothing there."""
    app = _App(
        f"{pipeline}.monitor",
        broker=";".join(f"kafka://{each}" for each in config.bootstrap_servers.split(",")),
        broker_credentials=credentials(config.client_properties),
        broker_session_timeout=_SESSION_S,
        broker_heartbeat_interval=_HEARTBEAT_S,
        consumer_auto_offset_reset="latest",
        # After a restart within the session, the monitor gets its partition back at once.
        consumer_group_instance_id=config.slot,
        datadir=folder,
        store="memory://",
        topic_partitions=1,
        topic_replication_factor=max(1, config.replication_factor),
        topic_disable_leader=True,
        web_bind=config.http_host,
        web_port=config.http_port or DEFAULT_PORT,
        worker_redirect_stdouts=False,
    )
    thresholds = Thresholds(config.alert_lag_records, config.alert_clock_stuck_ms)
    monitor = Monitor(app, pipeline, thresholds)
    stats = app.topic(
        f"{pipeline}.stats",
        key_type=bytes,
        value_type=bytes,
        key_serializer="raw",
        value_serializer="raw",
    )

    @app.agent(stats, concurrency=1)
    async def watch(values: Any) -> None:
        async for value in values:
            monitor.read(value)

    _serve(app, monitor)
    return app


def _serve(app: faust.App, monitor: Monitor) -> None:
    async def index(view: Any, _request: Any) -> Any:
        return view.html(page(monitor.status()))

    async def status_json(view: Any, _request: Any) -> Any:
        return view.json(monitor.status())

    async def why(view: Any, request: Any) -> Any:
        end = request.query.get("end_ms")
        if end is not None and not end.lstrip("-").isdigit():
            return view.json({"error": f"end_ms={end}: not a number of milliseconds"}, status=400)
        asked = request.query.get("operator"), None if end is None else int(end)
        return view.json(why_open(monitor.status(), *asked))

    async def live(view: Any, _request: Any) -> Any:
        return view.json({"service": app.conf.id, "live": True, "reasons": []})

    async def ready(view: Any, _request: Any) -> Any:
        tables: Any = app.tables
        reasons = [] if tables.recovery.completed.is_set() else ["restoring its tables"]
        body = {"service": app.conf.id, "ready": not reasons, "reasons": reasons}
        return view.json(body, status=503 if reasons else 200)

    routes = {
        "/": index,
        "/api/status": status_json,
        "/api/why": why,
        "/health/live": live,
        "/health/ready": ready,
    }
    for path, answer in routes.items():
        app.page(path)(answer)


def run(config: Config, plan: Plan) -> None:
    """Run the monitor of a pipeline until a stop signal."""
    admin = await_broker(config, lambda _reason: None)
    # Faust would create the changelogs itself, but then looks them up before the broker lists them.
    for topic in (stats_topic(plan.stats), *_changelogs(plan.pipeline)):
        try:
            begin_to_create(admin, topic, config.replication_factor).result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    with TemporaryDirectory() as folder:
        app = monitor_app(config, plan.pipeline, folder)
        for name in ("faust", "mode", "aiokafka"):
            logging.getLogger(name).setLevel(logging.WARNING)
        _log.info("%s started, at port %d", app.conf.id, app.conf.web_port)
        worker = faust.Worker(app, override_logging=False, quiet=True)
        worker.spinner = None  # it would draw over the log
        worker.execute_from_commandline()


def _changelogs(pipeline: str) -> list[Topic]:
    names = [f"{pipeline}.monitor-{table}-changelog" for table in _TABLES]
    return [Topic(name, _PARTITIONS, TABLE_SETTINGS) for name in names]
