"""Runs a broker and all services of a pipeline on this machine, as supervised processes.

One folder holds state, data and logs, and a SQLite file with the results unless TIDEMARK_SINK names
another sink.  The data outlives `down`: the next `up` continues there.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from tidemark.embedded.broker import free_port, is_free, prepare, wait_until_ready
from tidemark.embedded.processes import last_words, only_one_process
from tidemark.embedded.state import Stack, last_stack, running_stack, save_stack
from tidemark.embedded.supervision import ProcessStatus, Program, Supervision
from tidemark.errors import ConfigurationError
from tidemark.language.load import load_pipeline
from tidemark.plan.physical import Plan
from tidemark.runtime.client import clients, topics
from tidemark.runtime.config import Config
from tidemark.runtime.service.command import service_command, service_environment

BROKER, SINK = "broker", "sink"
_JOIN_S = 60
_POLL_S = 0.1
_ANSWER_S = 2.0


def up(
    folder: Path,
    pipeline: str,
    port: int | None = None,
    *,
    raw_partitions: int | None = None,
    dies_with_us: bool = False,
) -> Stack:
    """Start the stack of a folder and return it; return the running one if it is up.

    Args:
        folder: of state, data and logs.
        pipeline: the module of the pipeline, importable from the current folder.
        port: of the broker; by default that of the last time if free, else a free one.
        raw_partitions: partitions of raw topics to create; by default as many as the logs have.
        dies_with_us: stop everything when the calling process ends in any way (Linux).

    Raises:
        ConfigurationError: another pipeline runs here, or something did not start.
    """
    with only_one_process(folder / "stack.lock"):
        stack = running_stack(folder)
        if stack is None:
            return _up(folder.absolute(), pipeline, port, raw_partitions, dies_with_us)
        if stack.pipeline != pipeline:
            raise ConfigurationError(f"{folder} runs {stack.pipeline}: stop it first (make down)")
        return stack


def down(folder: Path) -> bool:
    """Stop the stack of a folder; return whether one was running."""
    if last_stack(folder) is None:
        return False
    with only_one_process(folder / "stack.lock"):
        stack = running_stack(folder)
        if stack is not None:
            stack.supervision().end()
    return stack is not None


def status(folder: Path) -> list[ProcessStatus]:
    """Return the state of each process of a folder's stack; empty if it is down."""
    stack = running_stack(folder)
    return stack.supervision().status() if stack else []


def readiness(folder: Path) -> dict[str, str]:
    """Return "ready", or why not, for each service of a folder's stack, by name."""
    stack = running_stack(folder)
    return {name: _readiness(port) for name, port in stack.health.items()} if stack else {}


def _readiness(port: int) -> str:
    try:
        with urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=_ANSWER_S) as answer:
            body = json.load(answer)
    except HTTPError as error:
        body = json.load(error)
    except OSError:
        return "no answer"
    return "; ".join(body["reasons"]) or "ready"


def _up(
    folder: Path, pipeline: str, port: int | None, raw_partitions: int | None, dies_with_us: bool
) -> Stack:
    plan = load_pipeline(pipeline).plan()
    chosen = _port(folder, port)
    address = f"127.0.0.1:{chosen}"
    broker = prepare(folder / BROKER, chosen, controller_port=free_port(), short_lived=dies_with_us)
    health = {name: free_port() for name in (*plan.services(), SINK)}
    results = "" if os.environ.get("TIDEMARK_SINK") else str(folder / f"{plan.pipeline}.db")
    supervision = Supervision.begin(
        folder, _programs(broker, health), _environment(pipeline, address, results), dies_with_us
    )
    stack = Stack(address, pipeline, str(supervision.socket), supervision.pid, health, results)
    try:
        save_stack(folder, stack)
        _start(supervision, plan, list(health), address, raw_partitions)
    except BaseException:  # also an interrupt: no process may be left
        supervision.end()
        raise
    return stack


def _start(
    supervision: Supervision,
    plan: Plan,
    services: Sequence[str],
    address: str,
    raw_partitions: int | None,
) -> None:
    supervision.start(BROKER)
    wait_until_ready(address, supervision.log(BROKER), lambda: supervision.runs(BROKER))
    config = Config(bootstrap_servers=address)
    admin = clients.admin(config)
    there = topics.partition_counts(admin)
    raw = [topic for topic in _raw_topics(plan, raw_partitions) if topic.name not in there]
    topics.ensure(admin, [*raw, *topics.own_topics(plan)], config.replication_factor)
    supervision.start(*services)
    _wait_for_members(supervision, admin, plan.pipeline, services)


def _wait_for_members(
    supervision: Supervision, admin: AdminClient, pipeline: str, services: Sequence[str]
) -> None:
    """Wait until each service has its partitions: it then reads new records at once."""
    deadline = time.monotonic() + _JOIN_S
    while missing := set(services) - _joined(admin, pipeline):
        for service in missing:
            if not supervision.runs(service) or time.monotonic() > deadline:
                words = last_words(supervision.log(service))
                raise ConfigurationError(f"{service} got no partitions: {words}")
        time.sleep(_POLL_S)


def _joined(admin: AdminClient, pipeline: str) -> set[str]:
    """Return the services whose consumer group is stable."""
    # Listed, not described: describing a group needs its coordinator, which exists only from the
    # first member on.  Before, the request would run until its timeout.
    stable = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result().valid
    return {group.group_id.removeprefix(f"{pipeline}.") for group in stable}


def _raw_topics(plan: Plan, partitions: int | None) -> Sequence[topics.Topic]:
    wanted = topics.raw_topics(plan)
    return (
        wanted if partitions is None else [replace(each, partitions=partitions) for each in wanted]
    )


def _programs(broker: Sequence[str], health: Mapping[str, int]) -> list[Program]:
    services = [
        Program(
            name,
            service_command(name),
            priority=2,
            environment={**service_environment(), "TIDEMARK_HTTP_PORT": str(port)},
        )
        for name, port in health.items()
    ]
    return [Program(BROKER, broker, priority=1), *services]


def _environment(pipeline: str, address: str, results: str) -> dict[str, str]:
    sink = {"TIDEMARK_SINK": f"sqlite:{quote(results)}"} if results else {}
    return {
        **sink,
        "TIDEMARK_SINK_NAME": SINK,
        "PIPELINE": pipeline,
        "KAFKA_BOOTSTRAP_SERVERS": address,
        # One process per service; a stable slot lets a restarted process fence the old one.
        "TIDEMARK_SLOT": os.environ.get("TIDEMARK_SLOT") or "0",
        "PYTHONUNBUFFERED": "1",
    }


def _port(folder: Path, asked: int | None) -> int:
    if asked is not None:
        if not is_free(asked):
            raise ConfigurationError(
                f"port {asked} is taken by another process: choose another port"
            )
        return asked
    before = last_stack(folder)
    port = int(before.address.rpartition(":")[2]) if before else 0
    return port if port and is_free(port) else free_port()
