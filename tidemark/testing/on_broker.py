"""A scenario on a broker: each service is a process, and a crash is ``kill -9``.

A step is complete once each group has committed up to the ends of its topics: first ingest, then
the services that read its logs.
"""

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tidemark.embedded.processes import die_with_parent
from tidemark.errors import ConfigurationError, InfrastructureError
from tidemark.language.load import load_pipeline
from tidemark.partition import Partition
from tidemark.plan.matched_topics import matched_topics
from tidemark.plan.physical import PortPlan
from tidemark.plan.topics import own_topics, raw_topic, raw_topics
from tidemark.runtime.client import clients, topics
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.config import Config
from tidemark.runtime.ingest.flush import flushed_topics
from tidemark.runtime.keyed.encoders import encoder_of
from tidemark.runtime.retry import poll
from tidemark.runtime.service.command import service_command, service_environment
from tidemark.runtime.service.stats import decode
from tidemark.testing.in_process import INGEST, decoded
from tidemark.testing.scenario import RawMessage, Scenario

_PAUSE_S = 0.1
_ANSWER_S = 10.0


class Service(Protocol):
    """A started service, such as a ``subprocess.Popen``."""

    def kill(self) -> None:
        """End the service at once."""

    def wait(self) -> int:
        """Wait for the end of the service; return the exit status."""

    def poll(self) -> int | None:
        """Return the exit status, None while the service runs."""


Launcher = Callable[[str, Mapping[str, str], Path], Service]
"""Starts a service by name, with an environment and a log file."""


def process(service: str, environment: Mapping[str, str], log: Path) -> "subprocess.Popen[bytes]":
    """Start a service as a process on this machine."""
    with log.open("a") as stderr:
        return subprocess.Popen(
            service_command(service),
            env={**os.environ, **service_environment(), **environment},
            stderr=stderr,
            preexec_fn=die_with_parent,
        )


class OnBroker(Scenario):
    """A pipeline whose services are processes, or whatever ``launch`` starts."""

    def __init__(
        self,
        pipeline: str,
        broker: str,
        *,
        raw_partitions: int = 1,
        settings: Mapping[str, str] | None = None,
        launch: Launcher = process,
        timeout_s: float = 240.0,
    ) -> None:
        """Create the topics of a pipeline and start its services.

        Args:
            pipeline: the module, as ``PIPELINE`` names it.
            broker: address of a broker without topics of the pipeline.
            raw_partitions: number of partitions of each raw topic.
            settings: additional environment of the services.
            launch: starts a service; by default as a process on this machine.
            timeout_s: longest duration of a step.

        Raises:
            ConfigurationError: the raw topics hold records of another test.
        """
        self.plan = load_pipeline(pipeline).plan()
        self._config = Config(bootstrap_servers=broker)
        self._admin = clients.admin(self._config)
        self.raw_partitions = raw_partitions
        self._launch, self._timeout_s = launch, timeout_s
        self._environment = {
            "KAFKA_BOOTSTRAP_SERVERS": broker,
            "KAFKA_SESSION_TIMEOUT_MS": "6000",  # so that the group notices a crash soon
            "TIDEMARK_TOPICS_INTERVAL_MS": "200",  # and ingest a topic that comes
            "PIPELINE": pipeline,
            "TIDEMARK_SLOT": "0",
            **(settings or {}),
        }
        self._create_topics()
        self._files = TemporaryDirectory()
        self._readers: dict[str, Consumer] = {}
        self._running: dict[str, Service] = {}
        try:
            for service in self.plan.services():
                self._start(service)
        except BaseException:  # also an interrupt: no process may be left
            self.close()
            raise

    def _create_topics(self) -> None:
        raw = raw_topics(self.plan, self.raw_partitions)
        topics.ensure(self._admin, [*raw, *own_topics(self.plan)], -1)
        for at, end in offsets(self._admin, self._raw(), LATEST).items():
            if end:
                raise ConfigurationError(
                    f"{at} holds records of another test: give each test its own broker, or its "
                    "own pipeline name and raw topics"
                )

    def _raw(self) -> list[Partition]:
        counts = topics.partition_counts(self._admin)
        names = matched_topics(self.plan, counts).sources
        return [Partition(name, n) for name in names for n in range(counts[name])]

    def log(self, service: str) -> str:
        """Return the log of a service since the start of the scenario."""
        return self._log_file(service).read_text(errors="replace")

    def _log_file(self, service: str) -> Path:
        return Path(self._files.name) / f"{service}.log"

    def _start(self, service: str) -> None:
        log = self._log_file(service)
        self._running[service] = self._launch(service, self._environment, log)

    def close(self) -> None:
        """Stop every service."""
        for service in list(self._running):
            self.crash(service)
        for reader in self._readers.values():
            reader.close()
        self._files.cleanup()

    def crash(self, service: str) -> None:
        """Kill a service."""
        self._require_service(service)
        if service not in self._running:
            raise ConfigurationError(f"crash({service!r}): it is down already")
        running = self._running.pop(service)
        running.kill()
        running.wait()

    def restart(self, service: str) -> None:
        """Start a service that crashed."""
        self._require_service(service)
        if service in self._running:
            raise ConfigurationError(f"restart({service!r}): it runs")
        self._start(service)

    def _flushed_topics(self) -> Mapping[str, int]:
        return flushed_topics(self.plan, topics.raw_counts(self._admin, self.plan))

    def _send(self, topic: str, partition: int, messages: Sequence[RawMessage]) -> None:
        if topic not in self.plan.named_topics:  # one of a pattern may be new
            topics.ensure_raw(self._admin, [raw_topic(topic, self.raw_partitions)], -1)
        producer = Producer(
            {"bootstrap.servers": self._config.bootstrap_servers, "enable.idempotence": True}
        )
        for each in messages:
            producer.produce(
                topic,
                each.value,
                each.key,
                partition,
                headers=list(each.headers),
                timestamp=each.timestamp_ms or 0,  # 0: the producer's clock
            )
        if producer.flush(self._timeout_s):
            raise InfrastructureError(
                f"topic {topic}: records were not sent within {self._timeout_s:.0f} s"
            )

    def _idle(self, topic: str, partition: int, silence_ms: int) -> None:
        """Wait until stats show that the silence is in the log."""
        source = f"{topic}/{partition}"

        def is_logged() -> bool:
            found = [
                each
                for value in self._values(self.plan.stats)[-50:]
                for each in decode(value).sources
                if each.source == source
            ]
            return bool(found) and found[-1].silence_ms >= silence_ms

        self._settle()
        self._await(is_logged, f"silence of {source}", self._timeout_s + silence_ms / 1000)

    def _settle(self) -> None:
        down = [service for service in self.plan.services() if service not in self._running]
        if down:
            raise ConfigurationError(
                f"{', '.join(down)} is down, so nothing is complete: restart() it first"
            )
        for service in self.plan.services():
            self._await(partial(self._is_done, service), f"{service} to read all", None)

    def _is_done(self, service: str) -> bool:
        if service == INGEST:
            wanted = self._raw()
        else:
            logs = {each.log for each in self.plan.of_service(service)}
            wanted = [
                Partition(log.topic, n)
                for log in self.plan.logs
                if log.topic in logs
                for n in range(log.partitions)
            ]
        ends = offsets(self._admin, wanted, LATEST)
        return all(self._committed(service, wanted).get(at, -1) >= end for at, end in ends.items())

    def _committed(self, service: str, wanted: Sequence[Partition]) -> dict[Partition, int]:
        """Return the committed offsets of a service, none while a commit is in progress."""
        if service not in self._readers:
            group = self.plan.group(service)
            self._readers[service] = clients.plain_consumer(self._config, group)
        asked = [TopicPartition(*at) for at in wanted]
        try:
            answer = self._readers[service].committed(asked, timeout=_ANSWER_S)
        except KafkaException:
            return {}
        return {Partition(at.topic, at.partition): at.offset for at in answer}

    def _await(self, happened: Callable[[], bool], what: str, timeout_s: float | None) -> None:
        def happened_while_all_run() -> bool:
            if happened():
                return True
            for service, running in self._running.items():
                if running.poll() is not None:
                    raise InfrastructureError(f"{service} has ended: {self.log(service)[-2000:]}")
            return False

        for_s = timeout_s or self._timeout_s
        if not poll(happened_while_all_run, for_s=for_s, pause_s=_PAUSE_S):
            raise InfrastructureError(f"waited {for_s:.0f} s in vain for {what}")

    def _values(self, topic: str) -> list[bytes]:
        """Return the committed values of a topic, none if it does not exist."""
        count = topics.partition_counts(self._admin).get(topic, 0)
        partitions = [Partition(topic, n) for n in range(count)]
        begin = offsets(self._admin, partitions, EARLIEST)
        end = offsets(self._admin, partitions, LATEST)
        ranges = {at: (begin[at], end[at]) for at in partitions}
        return [message.value() or b"" for message in read(self._config, ranges)]

    def _records(self, port: PortPlan) -> list[dict[str, Any]]:
        return decoded(encoder_of(port), self._values(port.topic))

    def _dead_letters(self) -> list[dict[str, Any]]:
        return [json.loads(value) for value in self._values(self.plan.dead_letters)]
