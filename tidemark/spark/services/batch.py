"""A micro-batch of one log partition: what a keyed service does between two commits, in a task.

State is read from the changelogs, segments are worked on, and results, late rows, changelog and
offset are committed in one transaction, or in several where one would last too long: each is a
commit as the services make it, so whoever comes next goes on from the last one.  A task that Spark
repeats fences the first and does what that has not committed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from time import monotonic

import msgspec
import pyarrow as pa
from confluent_kafka import TopicPartition

from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.backends.backend import MemoryBackend
from tidemark.runtime.client import clients
from tidemark.runtime.client.commit import commit_after_s, transaction
from tidemark.runtime.client.consumer import Start
from tidemark.runtime.client.progress import LogProgress, encode
from tidemark.runtime.client.topics import topic_ids
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.encoders import encoders
from tidemark.runtime.keyed.log_partition import KeyedOperators, LogPartition
from tidemark.runtime.keyed.restore import Restore
from tidemark.serde.segments import segment_at
from tidemark.spark.read.live_position import committed_positions
from tidemark.spark.read.segment_rows import Batches, batch_of, segment_rows
from tidemark.spark.services.ingest_batch import task_id
from tidemark.spark.work import in_short_batches

BATCH_COUNTS = pa.schema([("segments", pa.int64()), ("rows", pa.int64()), ("clock_ms", pa.int64())])


@dataclass(frozen=True)
class KeyedBatch:
    """Works on log partitions up to ``ends``, for each service that reads them."""

    plan: Plan
    config: Config
    ends: Mapping[Partition, int]

    def __call__(self, batches: Batches) -> Batches:
        """Return a row per service and log partition: what was done."""
        rows = (row for batch in batches for row in segment_rows(batch))
        for log, found in groupby(rows, key=attrgetter("log")):
            owned = [_Owned(self, service, log) for service in self._services(log)]
            for values in in_short_batches(found, self.config.transaction_timeout_ms):
                for each in owned:
                    each.take(values)
            yield from self._finished(owned)

    def _services(self, log: Partition) -> list[str]:
        return list(dict.fromkeys(p.service for p in self.plan.operators if p.log == log.topic))

    def _finished(self, owned: Sequence["_Owned"]) -> Iterator[pa.RecordBatch]:
        for each in owned:
            done = each.finish(self.ends[each.at])
            yield batch_of(([figure] for figure in done), BATCH_COUNTS)


class _Owned:
    """One log partition of one service, as long as a batch lasts."""

    def __init__(self, job: KeyedBatch, service: str, at: Partition) -> None:
        """Fence an earlier attempt, then go on where the last commit was."""
        self.at = at
        group = job.plan.group(service)
        self._transaction = transaction(job.config, task_id(group, at))
        self._consumer = clients.plain_consumer(job.config, group)
        self._commit_s = commit_after_s(job.config)
        admin = clients.admin(job.config)
        (committed,) = committed_positions(job.config, group, [at])
        start = Start(at, committed.offset, committed.metadata or "")
        plans = [plan for plan in job.plan.of_service(service) if plan.log == at.topic]
        backend = MemoryBackend()
        self._operators = KeyedOperators(job.config, plans, backend, encoders(job.config, plans))
        topic_id = topic_ids(admin, [at.topic])[at.topic]
        self._log = LogPartition.from_commit(start, topic_id, self._operators, by_spark=True)
        if not self._log.past.on_spark:
            raise StateError(f"{at}: {service} was given back while Spark worked on it")
        self._segments, self._moved = 0, False
        request = self._log.request()
        restore = Restore(job.config, admin, [request], backend)
        while not restore.done:
            restore.step()
        restore.close()
        self._log.restored(restore, request, certain=True)
        self._due_s = monotonic() + self._commit_s

    def take(self, values: Sequence[tuple[int, bytes]]) -> None:
        """Work on segments, given with their offsets, but for those that were before."""
        new = [(offset, value) for offset, value in values if offset >= self._log.offset]
        if not new:
            return
        if self._moved and monotonic() > self._due_s:
            self._commit(new[0][0])
        segments = [(offset, segment_at(self.at, offset, value)) for offset, value in new]
        self._log.take(segments, self._transaction)
        self._segments += len(new)
        self._moved = True

    def _commit(self, position: int) -> None:
        self._log.checkpoint(self._transaction, position, ahead=False, certain=True)
        self._log.offset = position
        past = marked(self._log.past)
        offset = TopicPartition(*self.at, position, metadata=encode(past))
        self._transaction.commit([offset], self._consumer)
        self._moved, self._due_s = False, monotonic() + self._commit_s

    def finish(self, end: int) -> tuple[int, int, int]:
        """Commit the rest; return segments and rows worked on, and the lowest clock."""
        if end > self._log.offset:
            self._commit(end)
        self._consumer.close()
        rows = sum(tally.rows for tally in self._operators.tallies.values())
        return self._segments, rows, min(each.task.clock_ms for each in self._log.operators)


def marked(past: LogProgress, *, on_spark: bool = True) -> LogProgress:
    """Say who works on a log partition: Spark, or the services."""
    return msgspec.structs.replace(past, on_spark=on_spark)
