"""Services of a pipeline as processes, on the broker of the test session."""

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, NamedTuple, Self

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import NewPartitions

from tests.forked import Files, Forked, Process
from tests.kafka.pipelines import pops
from tests.patience import PATIENCE_S
from tidemark.embedded.processes import die_with_parent
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.plan.topics import MAX_MESSAGE_BYTES, Topic, own_topics, raw_topics
from tidemark.runtime.client import clients, topics
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.client.recorded_program import placed_plan
from tidemark.runtime.config import Config
from tidemark.runtime.service.command import MODULE

ROOT = Path(__file__).parents[3]
_LEAST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 1.0
_TAKEN: dict[tuple[str, str], str] = {}
"""The test that uses the topics of a pipeline, by broker and pipeline."""


class Replica(NamedTuple):
    """One process of a service; its slot is a part of its transactional id."""

    service: str
    slot: str = "0"

    def __str__(self) -> str:
        return f"{self.service}/{self.slot}"


class Stack:
    """A pipeline on a broker; a context that leaves no process behind."""

    def __init__(
        self,
        broker: str,
        name: str,
        raw_partitions: int | Mapping[str, int] = 1,
        module: ModuleType = pops,
        options: Mapping[str, Any] | None = None,
        **env: str,
    ) -> None:
        """Create the topics of the pipeline that ``module`` builds.

        ``raw_partitions``: of each raw topic; 0: they exist.  ``options``: what its ``build``
        takes besides the name; the services read them from TEST_OPTIONS.
        """
        test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" (")[0]
        owner = _TAKEN.setdefault((broker, name), test)
        assert owner == test, f"{owner} has a pipeline {name!r} on this broker: take another name"
        self.name = name
        self.config = Config(bootstrap_servers=broker)
        self.admin = clients.admin(self.config)
        self.compiled: Plan = module.build(name, **(options or {})).plan()
        self.plan = placed_plan(self.config, self.admin, self.compiled)
        raw = list(_raw_topics(self.plan, raw_partitions))
        self.raw = raw[0].name if raw else ""  # a source may read its topics by a pattern
        made = raw if raw_partitions else []
        topics.ensure(self.admin, [*made, *own_topics(self.plan)], -1)
        self.processes: dict[Replica, Process] = {}
        self._lives: Counter[Replica] = Counter()
        self._files = TemporaryDirectory()
        self.folder = Path(self._files.name)
        self._env = {
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": broker,
            "KAFKA_SESSION_TIMEOUT_MS": "6000",
            "KAFKA_HEARTBEAT_INTERVAL_MS": "500",
            "PIPELINE": module.__name__,
            "TEST_PIPELINE": name,
            "TEST_OPTIONS": json.dumps(options or {}),
            "PYTHONPATH": str(ROOT),
            **env,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:  # pytest shows it where a test has failed
            for name, text in self.logs():
                sys.stderr.write(f"--- {self.name} {name}\n{text[-2_000:]}\n")
        for process in self.processes.values():
            process.kill()
            process.wait()
        self._files.cleanup()

    def start(self, *services: str, slot: str = "0", **env: Any) -> None:
        """Start a process of each service, of all by default; ``env`` is of ``launch``."""
        for service in services or self.plan.services():
            replica = Replica(service, slot)
            self._lives[replica] += 1
            self.processes[replica] = self.launch(replica, self._log(replica), **env)

    def launch(
        self,
        replica: Replica,
        log: Path,
        before: Callable[[], None] = die_with_parent,
        **env: str,
    ) -> Process:
        """Run a process of a service, in which ``before`` runs first; it is the caller's to end."""
        words = (MODULE, replica.service)
        return Forked(words, self.environment(replica, env), Files(log), before)

    def environment(self, replica: Replica, env: Mapping[str, str]) -> dict[str, str]:
        """Return all variables of a replica's process; ``env`` counts before the stack's own."""
        return {**self._env, "TIDEMARK_SLOT": replica.slot, **env}

    def process(self, service: str, slot: str = "0") -> Process:
        """Return a process that was started and not ended since."""
        return self.processes[Replica(service, slot)]

    def log(self, service: str, slot: str = "0") -> str:
        """Return what a service has logged since its last start."""
        return self._log(Replica(service, slot)).read_text()

    def logs(self) -> Iterator[tuple[str, str]]:
        """Return name and text of every log, those of earlier lives too."""
        for path in sorted(self.folder.glob("*.log")):
            yield path.stem, path.read_text(errors="replace")

    def await_partitions(self) -> None:
        """Wait until every service that runs has some."""
        wait_until(
            lambda: all("was given" in self.log(*replica) for replica in self.processes),
            f"partitions of {self.name}",
        )

    def _log(self, replica: Replica) -> Path:
        return self.folder / f"{replica.service}.{replica.slot}.{self._lives[replica]}.log"

    def stop(self, *services: str, slot: str | None = None) -> dict[str, int]:
        """End services as a supervisor does; return the exit status of each, the worst if several.

        ``slot``: only the processes of that slot.
        """
        statuses: dict[str, int] = {}
        for replica, status in self._end(services, slot, signal.SIGTERM).items():
            statuses[replica.service] = max(statuses.get(replica.service, 0), status, key=abs)
        return statuses

    def kill(self, *services: str, slot: str | None = None) -> None:
        self._end(services, slot, signal.SIGKILL)

    def _end(self, services: tuple[str, ...], slot: str | None, number: int) -> dict[Replica, int]:
        chosen = [
            replica
            for replica in self.processes
            if replica.service in (services or self.plan.services())
            and slot in (None, replica.slot)
        ]
        ended = {replica: self.processes.pop(replica) for replica in chosen}
        for process in ended.values():
            process.send_signal(number)
        return {replica: process.wait() for replica, process in ended.items()}

    def produce(
        self, records: Iterable[tuple[int, bytes | None, bytes | None]], topic: str | None = None
    ) -> None:
        """Write (partition, key, value) to a topic, by default the raw one; all must arrive."""
        servers = self.config.bootstrap_servers
        # Idempotent, or a batch that is sent again comes behind the next one.
        settings = {
            "enable.idempotence": True,
            "queue.buffering.max.messages": 1_000_000,
            "message.max.bytes": MAX_MESSAGE_BYTES,
        }
        producer = Producer({"bootstrap.servers": servers, **settings})
        refused: list[str] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                refused.append(str(error))

        for partition, key, value in records:
            producer.produce(topic or self.raw, value, key, partition, on_delivery=delivered)
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0
        assert refused == []

    def grow(self, partitions: int) -> None:
        """Raise the number of partitions of the raw topic, and wait until the broker shows it."""
        grown = NewPartitions(self.raw, partitions)
        self.admin.create_partitions([grown])[self.raw].result()
        wait_until(
            lambda: topics.partition_counts(self.admin)[self.raw] == partitions, "new partitions"
        )

    def move(self, player: str, at: int, score: int = 1, partition: int = 0) -> None:
        self.produce([(partition, None, move(player, at, score))])

    def committed(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """Return what a read_committed consumer sees of a topic."""
        return self.all_committed([topic])[topic]

    def all_committed(
        self, names: Iterable[str]
    ) -> dict[str, list[tuple[bytes | None, bytes | None]]]:
        """Return what a read_committed consumer sees of several topics."""
        found: dict[str, list[tuple[bytes | None, bytes | None]]] = {name: [] for name in names}
        partitions = [Partition(name, n) for name in found for n in self._partitions(name)]
        begin = offsets(self.admin, partitions, EARLIEST)
        end = offsets(self.admin, partitions, LATEST)
        ranges = {at: (begin[at], end[at]) for at in partitions}
        for message in read(self.config, ranges):
            found[message.topic() or ""].append((message.key(), message.value()))
        return found

    def _partitions(self, topic: str) -> Iterable[int]:
        """Return the partitions of a topic; asking for one topic costs less than asking for all."""
        described = self.admin.list_topics(topic, timeout=PATIENCE_S).topics[topic]
        assert described.error is None, described.error
        return described.partitions

    def results(self, name: str) -> list[dict[str, Any]]:
        """Return the JSON records of an output, as ``pops`` or ``pops.late``."""
        return [json.loads(value or b"") for _, value in self.committed(f"{self.name}.{name}")]

    def await_results(self, name: str, enough: Callable[[list[dict[str, Any]]], bool]) -> None:
        wait_until(lambda: enough(self.results(name)), f"{name} of {self.name}")

    def figures(self, service: str, slot: str = "0") -> dict[str, str]:
        """Return the latest figures that a service has logged."""
        words = self.log(service, slot).split()
        return dict(word.split("=", 1) for word in words if "=" in word)


def _raw_topics(plan: Plan, partitions: int | Mapping[str, int]) -> Iterator[Topic]:
    for topic in raw_topics(plan):
        count = partitions if isinstance(partitions, int) else partitions[topic.name]
        yield Topic(topic.name, count, topic.settings)


def move(player: str, at: int, score: int = 1, **others: object) -> bytes:
    return json.dumps({"player": player, "at": at, "score": score, **others}).encode()


def wait_until(happened: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Ask until it has happened; pause longer after slow questions, which delay the answer."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        asked_s = time.monotonic()
        if happened():
            return
        now_s = time.monotonic()
        assert now_s < deadline_s, f"{what} did not come in {timeout_s:.0f} s"
        time.sleep(min(max(_LEAST_PAUSE_S, 4 * (now_s - asked_s)), _LONGEST_PAUSE_S))


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
