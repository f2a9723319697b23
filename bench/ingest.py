"""Ingest as it is, with a stop watch: when its first record came, and when its N-th was worked on.

The harness starts to count there, so ingest waits until the keyed service is up, as every operator
of the other peers is by then; until then the time counts as start-up.
"""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import ConsumerGroupState, KafkaException, Message
from confluent_kafka.admin import AdminClient

from tidemark.plan.physical import Plan
from tidemark.runtime.client.topics import ensure, own_topics
from tidemark.runtime.config import Config
from tidemark.runtime.ingest.task import IngestTask
from tidemark.runtime.retry import poll
from tidemark.runtime.service.command import keep_freed_memory
from tidemark.runtime.service.process import Process
from tidemark.runtime.service.serve import serve

_JOIN_S = 60.0


class StopWatch:
    """Writes $BENCH_STATS once the N-th record is in; $BENCH_STATS.part each second until then."""

    def __init__(self) -> None:
        self._path = Path(os.environ["BENCH_STATS"])
        self._wanted = int(os.environ["BENCH_N"])
        self._seen = 0
        self._written_s = 0.0
        self.first_s = 0.0

    def add(self, records: int) -> None:
        """Count records whose work is done."""
        self._seen += records
        now_s = time.time()
        if self._seen >= self._wanted > self._seen - records:
            self._write(self._path, now_s)
        elif now_s > self._written_s + 1:
            self._written_s = now_s
            self._write(self._path.with_name(f"{self._path.name}.part"), now_s)

    def _write(self, path: Path, now_s: float) -> None:
        stats = {"first": self.first_s, "last": now_s, "n": self._seen}
        unfinished = path.with_name(f"{path.name}.tmp")
        unfinished.write_text(json.dumps(stats), encoding="utf-8")
        unfinished.rename(path)


class TimedIngest(IngestTask):
    """Ingest whose records are counted by the batch."""

    watch: StopWatch

    def take(self, messages: Sequence[Message]) -> None:
        """Work on records, then count them."""
        super().take(messages)
        self.watch.add(len(messages))


class TimedProcess(Process):
    """A process that notes when its first message came out of the client, before any gathering."""

    watch: StopWatch

    def start_watch(self, watch: StopWatch) -> None:
        """Let ``watch`` know of the first message."""
        consume = self.member.consume

        def first(count: int, timeout_s: float) -> list[Message]:
            messages = consume(count, timeout_s)
            if messages:
                watch.first_s = time.time()
                self.member.consume = consume  # type: ignore[method-assign]
            return messages

        self.member.consume = first  # type: ignore[method-assign]


def run(config: Config, plan: Plan) -> None:
    """Run ingest until told to stop, as ``tidemark.runtime.ingest.task.run`` does."""
    process = TimedProcess(config, plan.pipeline, "ingest", [s.topic for s in plan.sources])
    ensure(process.admin, own_topics(plan), config.replication_factor)
    task = TimedIngest(config, plan, process)
    task.watch = StopWatch()
    process.start_watch(task.watch)
    for operator in plan.operators:
        _await_member(process.admin, plan.group(operator.service))
    process.run(task)


def _await_member(admin: AdminClient, group: str) -> None:
    """Wait until a service has its partitions."""

    def is_stable() -> bool:
        try:
            described = admin.describe_consumer_groups([group])[group].result()
        except KafkaException:  # the group is not there yet
            return False
        return bool(described.state == ConsumerGroupState.STABLE)

    if not poll(is_stable, for_s=_JOIN_S, pause_s=0.1):
        raise TimeoutError(f"{group} has no members after {_JOIN_S} s")


if __name__ == "__main__":
    keep_freed_memory()
    serve("ingest", run)
