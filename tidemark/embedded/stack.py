"""Runs a broker and all services of a pipeline on this machine, as supervised processes.

One folder holds state, data and logs, and a SQLite file with the results unless TIDEMARK_SINK names
another sink.  The data outlives `down`: the next `up` continues there.

If the broker does not start, nothing stays.  If a service does not start, the rest stays up, so
that the command that its error names has a broker.  The next `up` starts what does not run.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

from tidemark.embedded.broker import free_port, is_free, prepare, wait_until_ready
from tidemark.embedded.processes import last_words, only_one_process, size_of
from tidemark.embedded.state import Stack, last_stack, running_stack, save_stack
from tidemark.embedded.supervision import ProcessStatus, Program, Supervision
from tidemark.errors import ConfigurationError
from tidemark.language.load import load_pipeline
from tidemark.plan.physical import Plan
from tidemark.plan.topics import own_topics, raw_topics
from tidemark.runtime.client import clients, topics
from tidemark.runtime.client.recorded_program import placed_plan
from tidemark.runtime.config import Config
from tidemark.runtime.service.command import service_command, service_environment

BROKER, SINK = "broker", "sink"
READY = "ready"
_SILENT = "no answer"
_READY_S, _UNCHANGED_S = 300.0, 90.0
_POLL_S = 0.1
_ANSWER_S = 2.0


class ServicesDownError(ConfigurationError):
    """Some services of a stack do not work; the rest of the stack runs."""

    def __init__(self, lines: Sequence[str]) -> None:
        """``lines``: one for each service."""
        super().__init__("; ".join(lines))
        self.lines = lines


def up(
    folder: Path,
    pipeline: str,
    port: int | None = None,
    *,
    raw_partitions: int | None = None,
    extra: Sequence[str] = (),
    dies_with_us: bool = False,
) -> Stack:
    """Start the stack of a folder and return it; return the running one if it is up.

    Args:
        folder: of state, data and logs.
        pipeline: the module of the pipeline, importable from the current folder.
        port: of the broker; by default that of the last time if free, else a free one.
        raw_partitions: partitions of raw topics to create; by default as many as the logs have.
        extra: services beside those of the pipeline and the sink, such as ``monitor``.
        dies_with_us: stop everything when the calling process ends in any way (Linux).

    Raises:
        ServicesDownError: some services do not run; the others and the broker do.
        ConfigurationError: another pipeline runs here, or the broker did not start.
    """
    with only_one_process(folder / "stack.lock"):
        stack = running_stack(folder)
        if stack is not None and stack.pipeline != pipeline:
            raise ConfigurationError(f"{folder} runs {stack.pipeline}: stop it first (make down)")
        plan = load_pipeline(pipeline).plan()
        if stack is None:
            services = (*plan.services(), SINK, *extra)
            stack = _begin(folder.absolute(), plan, pipeline, services, port, dies_with_us)
        else:
            _start_broker(stack)
        _start_services(stack, plan, raw_partitions)
    return stack


def stop(folder: Path, services: Sequence[str] = ()) -> list[str]:
    """Stop services of a folder's stack, by default all; return those that ran.

    The broker runs on: `tidemark reset` needs it, and needs the services to be stopped.

    Raises:
        ConfigurationError: the stack is down, or has no such service.
    """
    with only_one_process(folder / "stack.lock"):
        stack = running_stack(folder)
        if stack is None:
            raise ConfigurationError("nothing runs: start it first (make up)")
        for service in services:
            if service not in stack.health:
                raise ConfigurationError(
                    f"no service {service!r}; there are {', '.join(stack.health)}"
                )
        supervision = stack.supervision()
        ran = [each for each in services or stack.health if supervision.runs(each)]
        supervision.stop(*services or stack.health)
    return ran


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
        try:
            with urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=_ANSWER_S) as answer:
                body = json.load(answer)
        except HTTPError as error:
            body = json.load(error)
    except OSError:  # also while the body comes
        return _SILENT
    return READY if body["ready"] else "; ".join(body["reasons"])


def _begin(
    folder: Path,
    plan: Plan,
    pipeline: str,
    services: Sequence[str],
    port: int | None,
    dies_with_us: bool,
) -> Stack:
    """Start the supervision and the broker of a stack."""
    chosen = _port(folder, port)
    address = f"127.0.0.1:{chosen}"
    broker = prepare(folder / BROKER, chosen, controller_port=free_port(), short_lived=dies_with_us)
    health = {name: free_port() for name in services}
    results = "" if os.environ.get("TIDEMARK_SINK") else str(folder / f"{plan.pipeline}.db")
    supervision = Supervision.begin(
        folder, _programs(broker, health), _environment(pipeline, address, results), dies_with_us
    )
    stack = Stack(address, pipeline, str(supervision.socket), supervision.pid, health, results)
    try:
        save_stack(folder, stack)
        _start_broker(stack)
    except BaseException:  # also an interrupt: no process may be left
        supervision.end()
        raise
    return stack


def _start_broker(stack: Stack) -> None:
    supervision = stack.supervision()
    if not supervision.runs(BROKER):
        supervision.start(BROKER)
    wait_until_ready(stack.address, supervision.log(BROKER), lambda: supervision.runs(BROKER))


def _start_services(stack: Stack, plan: Plan, raw_partitions: int | None) -> None:
    """Create missing topics, start the services that do not run, and wait until they work."""
    new = {*plan.services(), SINK} - stack.health.keys()
    if new:
        raise ConfigurationError(
            f"the pipeline has new services: {', '.join(sorted(new))}; stop the stack first "
            "(make down)"
        )
    supervision = stack.supervision()
    config = Config(bootstrap_servers=stack.address)
    admin = clients.admin(config)
    raw = raw_topics(plan, raw_partitions)
    topics.ensure_raw(admin, raw, config.replication_factor)
    own = own_topics(placed_plan(config, admin, plan))
    topics.ensure(admin, own, config.replication_factor)
    starting = [name for name in stack.health if not supervision.runs(name)]
    begun = {name: size_of(supervision.log(name)) for name in starting}
    supervision.launch(*starting)
    ended, waiting = _wait_until_ready(stack, supervision)
    if ended or waiting:
        raise ServicesDownError(
            [
                f"{name} ended: {last_words(supervision.log(name), begun.get(name, 0))}"
                for name in ended
            ]
            + [f"{name} is not ready: {why}" for name, why in waiting.items()]
        )


def _wait_until_ready(stack: Stack, supervision: Supervision) -> tuple[list[str], dict[str, str]]:
    """Wait until each service runs and is ready; return those that ended, and why others are not.

    The wait ends when all reasons stay the same for 90 seconds, and after five minutes in any case.
    A service that does not answer yet is loading its libraries, which takes long on a busy machine.
    """
    deadline_s = time.monotonic() + _READY_S
    ended, reasons, since_s = list[str](), dict.fromkeys(stack.health, ""), dict[str, float]()
    while reasons:
        states = {each.name: each.state for each in supervision.status()}
        gone = [name for name in reasons if states[name] not in ("STARTING", "RUNNING")]
        ended += gone
        for name in gone:
            del reasons[name]
        for name, before in list(reasons.items()):
            now = _readiness(stack.health[name])
            if now == READY and states[name] == "RUNNING":
                del reasons[name]
            elif now != before or now == _SILENT:
                reasons[name], since_s[name] = now, time.monotonic()
        now_s = time.monotonic()
        if now_s > deadline_s or all(now_s - since_s[name] > _UNCHANGED_S for name in reasons):
            break
        time.sleep(_POLL_S)
    return ended, reasons


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
