"""Runs a service alone with an input that makes memory grow, and measures its peak."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.cpu import peak_of
from bench.memory.bombs import BOMBS, Bomb, Record, build
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.plan.topics import Topic, own_topics
from tidemark.runtime.client import clients
from tidemark.runtime.client.consumer import LATEST, offsets
from tidemark.runtime.client.topics import ensure
from tidemark.runtime.config import Config

_MESSAGE_BYTES = 8 * 2**20
_ROOT = Path(__file__).parents[2]
_LOOK_S = 0.1
_STOP_S = 20.0
_TIMES = 1.5
"""A service may take this many times its budget."""

_ENDS_AT = 4
"""A service that takes this many times its budget is ended, to spare the machine."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a service did with a bomb: its peak, the seconds, the records left, and its status."""

    service: str
    peak_bytes: int
    seconds: float
    left: int
    status: int | None

    def faults(self, budget_bytes: int) -> Iterator[str]:
        """Yield what is wrong."""
        if self.peak_bytes > _TIMES * budget_bytes:
            yield "over the budget"
        if self.left:
            yield f"{self.left:,} records left"
        if self.status not in (None, 0):
            yield f"ended with status {self.status}"


def measured(
    config: Config, bomb: str, share: float, limit_s: float, folder: Path
) -> Iterator[Measured]:
    """Yield what ingest and the keyed service do with a bomb, one after the other."""
    name = f"bomb-{bomb}"
    plan = build(name, bomb).plan()
    admin = clients.admin(config)
    raw = Topic(f"{name}-in", 1, {"max.message.bytes": str(_MESSAGE_BYTES)})
    ensure(admin, [raw, *own_topics(plan)], -1)
    _send(config, raw.name, BOMBS[bomb], share)
    for service in ("ingest", BOMBS[bomb].service):
        read = raw.name if service == "ingest" else plan.logs[0].topic
        yield _run(config, plan, bomb, service, Partition(read, 0), limit_s, folder)
    admin.delete_topics([raw.name])


def _send(config: Config, topic: str, bomb: Bomb, share: float) -> None:
    producer = Producer(
        {
            "bootstrap.servers": config.bootstrap_servers,
            "compression.type": bomb.codec,
            "message.max.bytes": _MESSAGE_BYTES,
            "linger.ms": 50,
        }
    )
    record: Record
    for record in bomb.records(share):
        while True:
            try:
                producer.produce(topic, record[1], record[0], 0)
                break
            except BufferError:
                producer.poll(0.1)
    left = producer.flush(120)
    assert not left, f"{topic}: {left} records were not sent"


def _run(
    config: Config,
    plan: Plan,
    bomb: str,
    service: str,
    reads: Partition,
    limit_s: float,
    folder: Path,
) -> Measured:
    """Run a service until it has read all, ends, or the time is over."""
    end = offsets(clients.admin(config), [reads], LATEST)[reads]
    consumer = clients.plain_consumer(config, plan.group(service))
    log = folder / f"{bomb}.{service}.log"
    begin_s = time.monotonic()
    peak_bytes, left = 0, end
    with _process(config, plan, bomb, service, log) as process:
        while process.poll() is None and time.monotonic() < begin_s + limit_s:
            time.sleep(_LOOK_S)
            peak_bytes = max(peak_bytes, peak_of(process.pid))
            if peak_bytes > _ENDS_AT * config.memory_bytes:
                process.kill()
                process.wait()
                break
            left = _left(consumer, reads, end)
            if left == 0:
                break
        seconds = time.monotonic() - begin_s
        consumer.close()
        status = process.poll()
    if status not in (None, 0):
        sys.stderr.write(log.read_text()[-2_000:])
    return Measured(service, peak_bytes, seconds, left, status)


def _left(consumer: Consumer, reads: Partition, end: int) -> int:
    """Return the number of records that the group has not committed, without the last marker."""
    asked = [TopicPartition(*reads)]
    (found,) = clients.when_known(lambda: consumer.committed(asked, timeout=_STOP_S))
    return max(0, end - 1 - max(found.offset, 0))


@contextmanager
def _process(
    config: Config, plan: Plan, bomb: str, service: str, log: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    env = {
        **os.environ,
        "KAFKA_BOOTSTRAP_SERVERS": config.bootstrap_servers,
        "PIPELINE": "bench.memory.bombs",
        "BENCH_PIPELINE": plan.pipeline,
        "BENCH_BOMB": bomb,
        "PYTHONPATH": str(_ROOT),
        "TIDEMARK_SLOT": "0",
    }
    command: Sequence[str] = [sys.executable, "-m", f"services.{service}"]
    with log.open("wb") as file:
        process = subprocess.Popen(command, env=env, stdout=file, stderr=file, cwd=_ROOT)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
