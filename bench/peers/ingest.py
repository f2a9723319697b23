"""The ingest service with a stop watch: times of its first and of its N-th record.

The harness counts from the first record.  So ingest waits until the keyed service is up, as all
operators of the other peers are by then; the time before counts as start-up.
"""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from tidemark.plan.physical import Plan
from tidemark.plan.topics import own_topics
from tidemark.runtime.client.topics import ensure
from tidemark.runtime.config import Config
from tidemark.runtime.ingest.task import IngestTask
from tidemark.runtime.messages.received import ReceivedMessage
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
        """Count processed records."""
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
    """Ingest that counts its records per batch."""

    watch: StopWatch

    def take(self, messages: Sequence[ReceivedMessage]) -> None:
        """Process records, then count them."""
        super().take(messages)
        self.watch.add(len(messages))


class TimedProcess(Process):
    """A process that notes when the client returned the first message, before it gathers more."""

    watch: StopWatch

    def start_watch(self, watch: StopWatch) -> None:
        """Note the time of the first message in ``watch``."""
        consume = self.member.consume

        def first(count: int, timeout_s: float) -> Sequence[ReceivedMessage]:
            messages = consume(count, timeout_s)
            if messages:
                watch.first_s = time.time()
                self.member.consume = consume  # type: ignore[method-assign]
            return messages

        self.member.consume = first  # type: ignore[method-assign]


def run(config: Config, plan: Plan) -> None:
    """Run ingest until a stop signal, as ``tidemark.runtime.ingest.task.run`` does."""
    process = TimedProcess(config, plan, "ingest", lambda _, plan: plan.named_topics)
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
