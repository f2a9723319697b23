"""The monitor as a Faust app: reads stats, keeps tables, serves the dashboard.

It follows only the stats topic, and no service waits for it, so it may be absent, late or killed.
Its tables are restored from their changelogs.  Faust reads uncommitted records; that is right here,
because stats are written without transactions.
"""

import logging
from collections.abc import Mapping
from tempfile import TemporaryDirectory
from typing import Any

import faust
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from faust.web.drivers.aiohttp import Web

from tidemark.errors import ConfigurationError
from tidemark.monitor.alerts import Thresholds
from tidemark.monitor.credentials import credentials
from tidemark.monitor.monitor import PARTITIONS, TABLES, Monitor
from tidemark.monitor.records import newest, shown_topics
from tidemark.monitor.search import RecordSearch
from tidemark.monitor.web import OnDemand, serve
from tidemark.plan.physical import Plan
from tidemark.plan.topics import TABLE_SETTINGS, Topic, topic_of_stats
from tidemark.runtime.client.broker_probe import await_broker
from tidemark.runtime.client.topics import await_leaders, begin_to_create
from tidemark.runtime.config import Config

DEFAULT_PORT = 6066

_NEWEST = 50
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


def monitor_app(config: Config, plan: Plan, admin: AdminClient, folder: str) -> faust.App:
    """Return the app; ``folder``: a writable folder for Faust, which stores nothing there."""
    pipeline = plan.pipeline
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
    monitor = Monitor(app, plan, thresholds)
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

    search = RecordSearch(config, admin, plan)
    serve(app, monitor, _newest(config, plan, admin), search.find)
    return app


def _newest(config: Config, plan: Plan, admin: AdminClient) -> OnDemand:
    topics = shown_topics(plan)

    def read(asked: Mapping[str, str]) -> dict[str, Any]:
        topic, key = asked.get("topic", ""), asked.get("key", "")
        if topic not in topics:
            raise ConfigurationError(f"topic={topic}: the topics are {', '.join(topics)}")
        return newest(config, admin, topics[topic], key, _NEWEST)

    return read


def run(config: Config, plan: Plan) -> None:
    """Run the monitor of a pipeline until a stop signal."""
    admin = await_broker(config, lambda _reason: None)
    # Faust would create the changelogs itself, but then looks them up before the broker lists them,
    # and never reads a topic that it has not found.
    own = [topic_of_stats(plan.stats), *_changelogs(plan.pipeline)]
    for topic in own:
        try:
            begin_to_create(admin, topic, config.replication_factor).result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    await_leaders(admin, {topic.name for topic in own})
    with TemporaryDirectory() as folder:
        app = monitor_app(config, plan, admin, folder)
        for name in ("faust", "mode", "aiokafka"):
            logging.getLogger(name).setLevel(logging.WARNING)
        _log.info("%s started, at port %d", app.conf.id, app.conf.web_port)
        worker = faust.Worker(app, override_logging=False, quiet=True)
        worker.spinner = None  # it would draw over the log
        worker.execute_from_commandline()


def _changelogs(pipeline: str) -> list[Topic]:
    names = [f"{pipeline}.monitor-{table}-changelog" for table in TABLES]
    return [Topic(name, PARTITIONS, TABLE_SETTINGS) for name in names]
