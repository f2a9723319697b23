"""Replicas come and go under load; the processes that stay neither end nor start anew."""

import re
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.kafka.pipelines import counted
from tests.kafka.support.stack import Stack, wait_until

T = 1_700_000_000_000
END = T + 3_600_000
BY_BROKERS = {"KAFKA_SESSION_TIMEOUT_MS": "", "KAFKA_HEARTBEAT_INTERVAL_MS": ""}
OF_THE_GROUP = "GENERATION|MEMBER|FENCED|the group (has removed|took)|leave|last commit"
"""What warnings about members of a group contain; a busy machine gives other warnings."""

PARTITIONS, KEYS, RATE, PIECES_A_SECOND = 4, 40, 1_500, 20


class Load(threading.Thread):
    """Writes records at a steady rate until it is told to end."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(daemon=True)
        self._stack, self._ended = stack, threading.Event()
        servers = stack.config.bootstrap_servers
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        self.count = 0

    def run(self) -> None:
        while not self._ended.is_set():
            begin_s = time.monotonic()
            piece = range(self.count, self.count + RATE // PIECES_A_SECOND)
            for n in piece:
                partition, key, value = record(n)
                self._producer.produce(self._stack.raw, value, key, partition)
            self._producer.poll(0)
            self.count = piece.stop
            time.sleep(max(0.0, begin_s + 1 / PIECES_A_SECOND - time.monotonic()))

    def end(self) -> None:
        self._ended.set()
        self.join()
        assert self._producer.flush(60) == 0


def record(n: int) -> tuple[int, None, bytes]:
    return n % PARTITIONS, None, b'{"k":"k%d","ts":%d,"v":1}' % (n % KEYS, at_ms(n))


def at_ms(n: int) -> int:
    return T + n * 1_000 // RATE


@contextmanager
def load(stack: Stack) -> Iterator[Load]:
    writer = Load(stack)
    writer.start()
    try:
        yield writer
    finally:
        writer.end()


def scale(stack: Stack, service: str, replicas: int, *, kill: bool = False) -> None:
    """Start or end processes until ``replicas`` run; those with the highest slots end."""
    slots = {int(each.slot) for each in stack.processes if each.service == service}
    new = [str(slot) for slot in range(replicas) if slot not in slots]
    for slot in new:
        stack.start(service, slot=slot)
    wait_until(
        lambda: all("started, " in stack.log(service, slot) for slot in new), f"{service}: {new}"
    )
    for old in sorted(slots - set(range(replicas))):
        if kill:
            stack.kill(service, slot=str(old))
        else:
            assert stack.stop(service, slot=str(old)) == {service: 0}


def rows(path: Path) -> dict[tuple[str, int], int]:
    """Return the counts in the sink by key and window, in seconds after T."""
    with closing(sqlite3.connect(path)) as db:
        found = db.execute('SELECT k, window_start, "count" FROM "out"').fetchall()
    return {(key, second(start)): n for key, start, n in found}


def second(start: str) -> int:
    return round(datetime.fromisoformat(start).astimezone(UTC).timestamp()) - T // 1_000


STEPS: list[tuple[str, int]] = [
    *(("windowing", 3), ("windowing", 2), ("windowing", 4), ("windowing", 3)),
    *(("ingest", 3), ("windowing", 1), ("ingest", 1), ("sink", 3), ("windowing", 3)),
    *(("ingest", 2), ("sink", 1), ("windowing", 1), ("ingest", 1)),
]


PATIENT = {"KAFKA_SESSION_TIMEOUT_MS": "45000"}
"""So that the group loses no member of a busy machine; who leaves says so."""

CASES = {
    "stopped": PATIENT,
    "killed": {"KAFKA_SESSION_TIMEOUT_MS": "15000"},
    "at-least-once": {"TIDEMARK_GUARANTEE": "at-least-once", **PATIENT},
    "kip-848": {"TIDEMARK_GROUP_PROTOCOL": "consumer", **BY_BROKERS},
}


@pytest.mark.parametrize(
    "case",
    [name if name == "stopped" else pytest.param(name, marks=pytest.mark.long) for name in CASES],
)
def test_scaling_up_and_down_restarts_nobody(broker, tmp_path, case):  # B6
    path = tmp_path / "results.db"
    env: dict[str, Any] = {"TIDEMARK_SINK": f"sqlite:{path}", **CASES[case]}
    options = {"size_ms": 1_000, "partitions": PARTITIONS, "agg": ["count"]}
    with Stack(broker, f"quiet-{case}", PARTITIONS, counted, options, **env) as stack:
        stack.start("ingest", "windowing", "sink")
        stack.await_partitions()
        with load(stack) as writer:
            for service, replicas in STEPS:
                scale(stack, service, replicas, kill=case == "killed")
                time.sleep(3)
                ended = {str(r): process.poll() for r, process in stack.processes.items()}
                assert set(ended.values()) == {None}, (ended, service, replicas)
        stack.produce((n, None, b'{"k":"end","ts":%d,"v":0}' % END) for n in range(PARTITIONS))
        expected = Counter((f"k{n % KEYS}", (at_ms(n) - T) // 1_000) for n in range(writer.count))
        wait_until(lambda: sum(rows(path).values()) >= expected.total(), "all rows")
        assert rows(path) == expected
        assert set(stack.stop().values()) == {0}
        for replica, text in stack.logs():
            assert text.count("started, transactional id") == 1, (replica, text)
            errors = [line for line in text.splitlines() if "ERROR" in line.split()]
            warnings = [line for line in text.splitlines() if "WARNING" in line.split()]
            of_the_group = [line for line in warnings if re.search(OF_THE_GROUP, line)]
            assert (errors, [] if case == "killed" else of_the_group) == ([], []), replica
