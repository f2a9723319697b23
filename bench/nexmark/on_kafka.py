"""Queries on Kafka: topics that are filled once, and the services of each query as processes."""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import polars as pl
from confluent_kafka import Message, Producer, TopicPartition

from bench.cpu import peak_of
from bench.nexmark.arrival import PARTITION, values
from bench.nexmark.query import RESULTS, Query, pipeline
from bench.nexmark.reference import Comparison, Reference
from tidemark.core.operators.ports import APPEND, LATE
from tidemark.core.windows.pane import RETRACTED, REVISION
from tidemark.errors import InfrastructureError
from tidemark.partition import Partition
from tidemark.plan.physical import Plan, PortPlan
from tidemark.plan.topics import own_topics, raw_topic
from tidemark.runtime.client import clients, topics
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.encoders import encoder_of
from tidemark.runtime.retry import poll
from tidemark.testing.in_process import decoded
from tidemark.testing.on_broker import process

_READ_S, _RESULTS_S = 600.0, 60.0
_PAUSE_S = 0.1
_ANSWER_S = 10.0
_STOP_S = 30.0
_IN_FLIGHT = 50_000


@dataclass(frozen=True)
class KafkaRun:
    """A query on Kafka.

    ``read_s``: wall time from the first committed record until all records are processed and
    committed.  ``cpu_s``: of all services.  ``late``: late rows of all operators.  ``peak_bytes``:
    the most memory of each service.
    """

    comparison: Comparison
    late: int
    read_s: float
    cpu_s: float
    peak_bytes: Mapping[str, int] = field(default_factory=dict)


class Input:
    """Raw topics with all events."""

    def __init__(self, broker: str, events: Mapping[str, pl.DataFrame], partitions: int) -> None:
        """Create and fill a topic for each kind of events."""
        self.broker, self.partitions = broker, partitions
        self.config = Config(bootstrap_servers=broker)
        self.admin = clients.admin(self.config)
        self.topics = {kind: f"nexmark-{kind}" for kind in events}
        wanted = [raw_topic(topic, partitions) for topic in self.topics.values()]
        topics.ensure_raw(self.admin, wanted, -1)
        for kind, frame in events.items():
            self._fill(self.topics[kind], frame)

    def _fill(self, topic: str, frame: pl.DataFrame) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.broker,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 50,
                "queue.buffering.max.messages": 2 * _IN_FLIGHT,
            }
        )
        partitions = frame[PARTITION].to_list()
        for number, (value, at) in enumerate(zip(values(frame), partitions, strict=True)):
            producer.produce(topic, value, partition=at)
            if number % _IN_FLIGHT == _IN_FLIGHT - 1:
                producer.flush()
        if producer.flush(_READ_S):
            raise InfrastructureError(f"topic {topic}: records were not sent")


def run(name: str, query: Query, source: Input, reference: Reference, declared_in: str) -> KafkaRun:
    """Run a query with its services until its results are those of SQL, for a minute at most.

    ``declared_in``: the module and the variable with the query, as ``module:VARIABLE``.

    Raises:
        InfrastructureError: a service ends, or does not read its input in time.
    """
    pipeline_name = f"nexmark-{name}-{time.time_ns()}"
    used = {kind: source.topics[kind] for kind in query.reads}
    plan = pipeline(pipeline_name, query, used, source.partitions).plan()
    topics.ensure(source.admin, own_topics(plan), -1)
    environment = {
        "KAFKA_BOOTSTRAP_SERVERS": source.broker,
        "PIPELINE": "bench.nexmark.job",
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "TIDEMARK_SLOT": "0",
        "NEXMARK_RUN": pipeline_name,
        "NEXMARK_QUERIES": declared_in,
        "NEXMARK_QUERY": name,
        "NEXMARK_TOPICS": json.dumps(used),
        "NEXMARK_PARTITIONS": str(source.partitions),
    }
    before_s = children_s()
    with _services(plan, environment) as running:
        check_alive = running.check_alive
        read_s = _Progress(plan, source).await_end(check_alive)
        compare = partial(reference.compare, query.sql, query.results)
        found = _await_results(plan, source, compare, check_alive)
        peak_bytes = {name: peak_of(service.pid) for name, service in running.processes.items()}
    ports = [port for each in plan.operators for port in each.ports if port.port.kind == LATE]
    late = sum(len(messages(source, port.topic)) for port in ports)
    return KafkaRun(found, late, read_s, children_s() - before_s, peak_bytes)


def children_s() -> float:
    """Return the CPU time of all processes that were waited for."""
    times = os.times()
    return times.children_user + times.children_system


@dataclass(frozen=True)
class _Services:
    """The services of a plan, with their logs."""

    processes: Mapping[str, "subprocess.Popen[bytes]"]
    logs: Mapping[str, Path]

    def check_alive(self) -> None:
        """Raise InfrastructureError if a service has ended."""
        for name, service in self.processes.items():
            if service.poll() is not None:
                raise InfrastructureError(f"{name}: {self.logs[name].read_text()[-2000:]}")


@contextmanager
def _services(plan: Plan, environment: Mapping[str, str]) -> Iterator[_Services]:
    """Run the services of a plan."""
    with tempfile.TemporaryDirectory() as folder:
        logs = {name: Path(folder) / f"{name}.log" for name in plan.services()}
        running = {name: process(name, environment, log) for name, log in logs.items()}
        try:
            yield _Services(running, logs)
        finally:
            for service in running.values():
                service.send_signal(signal.SIGTERM)
            for service in running.values():
                service.wait(_STOP_S)


class _Progress:
    """The committed offsets of the services of a plan."""

    def __init__(self, plan: Plan, source: Input) -> None:
        self._plan, self._source = plan, source
        read = [source for source in plan.sources if source.static is None]
        names = [topic for source in read for topic in source.named_topics]
        self._raw = _partitions(names, source.partitions)
        self._readers = {
            service: clients.plain_consumer(source.config, plan.group(service))
            for service in plan.services()
        }

    def await_end(self, check_alive: Callable[[], None]) -> float:
        """Return the seconds from the first commit of a record to the end of all input."""
        began_s = 0.0

        def is_read() -> bool:
            nonlocal began_s
            check_alive()
            read = self._committed("ingest", self._raw)
            if not began_s and any(offset > 0 for offset in read.values()):
                began_s = time.monotonic()
            return all(self._is_done(service) for service in self._plan.services())

        try:
            if not poll(is_read, for_s=_READ_S, pause_s=_PAUSE_S):
                raise InfrastructureError(f"the input was not read within {_READ_S:.0f} s")
            return time.monotonic() - began_s
        finally:
            for reader in self._readers.values():
                reader.close()

    def _is_done(self, service: str) -> bool:
        logs = {each.log for each in self._plan.of_service(service)}
        wanted = self._raw if service == "ingest" else _partitions(logs, self._source.partitions)
        ends = offsets(self._source.admin, wanted, LATEST)
        committed = self._committed(service, wanted)
        return all(committed.get(at, -1) >= end for at, end in ends.items())

    def _committed(self, service: str, wanted: Sequence[Partition]) -> dict[Partition, int]:
        asked = [TopicPartition(*at) for at in wanted]
        reader = self._readers[service]
        answer = clients.when_known(lambda: reader.committed(asked, timeout=_ANSWER_S))
        return {Partition(at.topic, at.partition): at.offset for at in answer}


def _partitions(names: Sequence[str] | set[str], count: int) -> list[Partition]:
    return [Partition(name, number) for name in sorted(names) for number in range(count)]


def _await_results(
    plan: Plan,
    source: Input,
    compare: Callable[[pl.DataFrame], Comparison],
    check_alive: Callable[[], None],
) -> Comparison:
    """Compare the results again and again, because windows at the end close by silence."""
    port = next(each for each in plan.operators if each.name == RESULTS).results
    found: list[Comparison] = []

    def are_equal() -> bool:
        check_alive()
        found.append(compare(_last(port, source)))
        return found[-1].is_equal

    poll(are_equal, for_s=_RESULTS_S, pause_s=1.0)
    return found[-1]


def _last(port: PortPlan, source: Input) -> pl.DataFrame:
    """Return the results that a sink would hold."""
    found = messages(source, port.topic)
    rows = decoded(encoder_of(port), [each.value() for each in found])
    schema = {**port.port.columns}
    frame = pl.DataFrame(rows, schema, strict=True)
    if port.port.mode == APPEND:
        return frame
    last = frame.sort(REVISION).unique(port.port.identity, keep="last")
    return last.filter(pl.col(RETRACTED).fill_null(value=False).not_()).drop(RETRACTED)


def messages(source: Input, topic: str) -> list[Message]:
    """Return the committed records of a topic, of each partition in order."""
    partitions = _partitions([topic], source.partitions)
    begin = offsets(source.admin, partitions, EARLIEST)
    end = offsets(source.admin, partitions, LATEST)
    ranges = {at: (begin[at], end[at]) for at in partitions}
    return list(read(source.config, ranges))
