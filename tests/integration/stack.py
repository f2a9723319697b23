"""Services of a pipeline as processes, on the broker of the test session."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import Producer

from tidemark.plan import Plan
from tidemark.runtime import clients, topics
from tidemark.runtime.config import Config
from tidemark.runtime.group import EARLIEST, LATEST, Partition, offsets
from tidemark.runtime.reading import read

HERE = Path(__file__).parent


class Stack:
    """A pipeline on a broker; a context that leaves no process behind."""

    def __init__(
        self, broker: str, name: str, raw_partitions: int = 1, module: str = "pops", **env: str
    ) -> None:
        self.name = name
        self.config = Config(bootstrap_servers=broker)
        self.admin = clients.admin(self.config)
        self.plan: Plan = import_module(module).build(name).plan()
        self.raw = f"{name}-moves"
        raw = [topics.Topic(self.raw, raw_partitions, topics.raw_topics(self.plan)[0].settings)]
        topics.ensure(self.admin, [*raw, *topics.own_topics(self.plan)], -1)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._files = TemporaryDirectory()
        self._folder = Path(self._files.name)
        self._env = {
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": broker,
            "KAFKA_SESSION_TIMEOUT_MS": "6000",
            "KAFKA_HEARTBEAT_INTERVAL_MS": "500",
            "PIPELINE": module,
            "TEST_PIPELINE": name,
            "PYTHONPATH": f"{HERE}:{HERE.parent.parent}",
            **env,
        }

    def __enter__(self) -> "Stack":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        self._files.cleanup()

    def start(self, *services: str, slot: str = "0") -> None:
        for service in services or self.plan.services():
            with self._log(service).open("w") as log:
                self.processes[service] = subprocess.Popen(
                    [sys.executable, "-m", f"services.{service}"],
                    env={**self._env, "TIDEMARK_SLOT": slot},
                    stderr=log,
                )

    def log(self, service: str) -> str:
        """Return what a service has logged since its last start."""
        return self._log(service).read_text()

    def await_partitions(self) -> None:
        """Wait until every service that runs has some."""
        wait_until(
            lambda: all("was given" in self.log(name) for name in self.processes),
            f"partitions of {self.name}",
        )

    def _log(self, service: str) -> Path:
        return self._folder / f"{service}.log"

    def stop(self, *services: str) -> dict[str, int]:
        """End services as a supervisor does; return their exit statuses."""
        return self._end(services, signal.SIGTERM)

    def kill(self, *services: str) -> None:
        self._end(services, signal.SIGKILL)

    def _end(self, services: tuple[str, ...], number: int) -> dict[str, int]:
        ended = {name: self.processes.pop(name) for name in services or tuple(self.processes)}
        for process in ended.values():
            process.send_signal(number)
        for process in ended.values():
            process.wait(timeout=15)
        return {name: process.returncode for name, process in ended.items()}

    def produce(self, records: Iterable[tuple[int, bytes | None, bytes | None]]) -> None:
        """Write (partition, key, value) to the raw topic."""
        servers = self.config.bootstrap_servers
        # Idempotent, or a batch that is sent again comes behind the next one.
        settings = {"enable.idempotence": True, "queue.buffering.max.messages": 1_000_000}
        producer = Producer({"bootstrap.servers": servers, **settings})
        for partition, key, value in records:
            producer.produce(self.raw, value, key, partition)
            producer.poll(0)
        assert producer.flush(10) == 0

    def move(self, player: str, at: int, score: int = 1, partition: int = 0) -> None:
        self.produce([(partition, None, move(player, at, score))])

    def committed(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """Return what a read_committed consumer sees of a topic."""
        return self.all_committed([topic])[topic]

    def all_committed(
        self, names: Iterable[str]
    ) -> dict[str, list[tuple[bytes | None, bytes | None]]]:
        """Return what a read_committed consumer sees of several topics."""
        counts = topics.partition_counts(self.admin)
        found: dict[str, list[tuple[bytes | None, bytes | None]]] = {name: [] for name in names}
        partitions = [Partition(name, n) for name in found for n in range(counts[name])]
        begin = offsets(self.admin, partitions, EARLIEST)
        end = offsets(self.admin, partitions, LATEST)
        ranges = {at: (begin[at], end[at]) for at in partitions}
        for message in read(self.config, ranges):
            found[message.topic() or ""].append((message.key(), message.value()))
        return found

    def results(self, name: str) -> list[dict[str, Any]]:
        """Return the JSON records of an output, as ``pops`` or ``pops.late``."""
        return [json.loads(value or b"") for _, value in self.committed(f"{self.name}.{name}")]

    def await_results(self, name: str, enough: Callable[[list[dict[str, Any]]], bool]) -> None:
        wait_until(lambda: enough(self.results(name)), f"{name} of {self.name}")

    def figures(self, service: str) -> dict[str, str]:
        """Return the latest figures that a service has logged."""
        words = self.log(service).split()
        return dict(word.split("=", 1) for word in words if "=" in word)


def move(player: str, at: int, score: int = 1, **others: object) -> bytes:
    return json.dumps({"player": player, "at": at, "score": score, **others}).encode()


def wait_until(happened: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not happened():
        assert time.monotonic() < deadline_s, f"{what} did not come in {timeout_s} s"
        time.sleep(0.2)


def last_panes(panes: Iterable[Mapping[str, Any]], value: str) -> dict[tuple[str, int], int]:
    """Return what a sink holds: the last pane of each key and start, unless it was withdrawn."""
    return {
        (pane["player"], pane["start"]): pane[value]
        for pane in _newest(panes).values()
        if not pane.get("retracted")
    }


def _newest(panes: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], Mapping[str, Any]]:
    return {(pane["player"], pane["start"]): pane for pane in panes}


def duplicates(panes: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return panes that came twice with the same revision."""
    seen = Counter(
        (p["player"], p["start"], p["revision"], bool(p.get("retracted"))) for p in panes
    )
    return [pane for pane, times in seen.items() if times > 1]
