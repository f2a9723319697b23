"""A micro-batch of one log partition: a task does what a keyed service does between two commits.

The task restores state from the changelogs and processes segments.  It commits results, late rows,
changelog, what stages hand on, and offset in one transaction, or in several if one would last too
long.  Each is a commit like that of a service, so the next task or service continues from the last
commit.  A task that Spark repeats fences the first attempt and processes the segments after its
last commit.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import msgspec
import pyarrow as pa

from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.backends.backend import MemoryBackend
from tidemark.runtime.client import clients
from tidemark.runtime.client.generations import newest_generations
from tidemark.runtime.client.progress import LogProgress, encode
from tidemark.runtime.client.topics import topic_ids
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.encoders import encoders
from tidemark.runtime.keyed.handing_on import opened_handing_on
from tidemark.runtime.keyed.log_partition import KeyedOperators, LogPartition
from tidemark.runtime.keyed.operator_starts import begin_operators, stop_without_results
from tidemark.runtime.keyed.restore import Restore
from tidemark.serde.segments import segment_at
from tidemark.spark.read.segment_rows import Batches, batch_of, segment_rows
from tidemark.spark.services.ingest_batch import task_id
from tidemark.spark.task_transaction import TaskTransaction
from tidemark.spark.work import in_short_batches

BATCH_COUNTS = pa.schema([("segments", pa.int64()), ("rows", pa.int64()), ("clock_ms", pa.int64())])
"""What a task did: segments and rows processed, and the lowest clock."""


def report_rows(logs: Iterable[Partition]) -> list[tuple[str, int, int, int, bytes]]:
    """Return rows of ``SEGMENTS`` that only let tasks report what stages have reached.

    Their offset is below every commit, so they are skipped like segments processed before.
    """
    return [(at.topic, at.number, 0, -1, b"") for at in logs]


@dataclass(frozen=True)
class KeyedBatch:
    """Processes log partitions up to ``ends``, for each service that reads them.

    The batches it takes have the columns of ``SEGMENTS``, the ones it returns ``BATCH_COUNTS``.
    """

    plan: Plan
    config: Config
    ends: Mapping[Partition, int]

    def __call__(self, batches: Batches) -> Batches:
        """Yield a row per service and log partition."""
        rows = (row for batch in batches for row in segment_rows(batch))
        for log, found in groupby(rows, key=attrgetter("log")):
            logs = [_OwnedLog(self, service, log) for service in self._services(log)]
            for values in in_short_batches(found, self.config.transaction_timeout_ms):
                for each in logs:
                    each.take(values)
            yield from self._finished(logs)

    def _services(self, log: Partition) -> list[str]:
        return list(dict.fromkeys(p.service for p in self.plan.operators if p.log == log.topic))

    def _finished(self, logs: Sequence["_OwnedLog"]) -> Iterator[pa.RecordBatch]:
        for each in logs:
            counts = each.finish(self.ends[each.at])
            yield batch_of(([count] for count in counts), BATCH_COUNTS)


class _OwnedLog:
    """One log partition of one service, for the time of a micro-batch."""

    def __init__(self, job: KeyedBatch, service: str, at: Partition) -> None:
        """Fence an earlier attempt, then restore the state of the last commit.

        Raises:
            StateError: the log partition was given back to its service.
        """
        self.at = at
        group = job.plan.group(service)
        self._transaction = TaskTransaction(job.config, group, task_id(group, at), at)
        admin = clients.admin(job.config)
        plans = [plan for plan in job.plan.of_service(service) if plan.log == at.topic]
        backend = MemoryBackend()
        self._handing_on = opened_handing_on(job.config, admin, job.plan, plans, certain=True)
        self._operators = KeyedOperators(
            job.config, plans, job.plan, backend, encoders(job.config, plans), self._handing_on
        )
        topic_id = topic_ids(admin, [at.topic])[at.topic]
        self._log = LogPartition.from_commit(
            self._transaction.committed(), topic_id, self._operators, by_spark=True
        )
        if not self._log.past.on_spark:
            raise StateError(f"{at}: {service} was given back while Spark worked on it")
        self._segments, self._moved, self._reported = 0, False, False
        generations = newest_generations(job.config, admin, job.plan.generations)
        stop_without_results(admin, [self._log], generations)
        request = self._log.request(generations)
        restore = Restore(job.config, admin, [request], backend)
        while not restore.done:
            restore.step()
        restore.close()
        self._log.restored(restore, request, certain=True)
        begin_operators(admin, [self._log], generations)
        self._require_joined()
        self._transaction.begin_interval()

    def _require_joined(self) -> None:
        """Require that all operators work, from the offset of the log partition on.

        Raises:
            StateError: one has trouble, or must catch up.
        """
        for each in self._log.troubles:
            raise StateError(f"{each.where}: {each.trouble}")
        for each in self._log.lagging:
            raise StateError(
                f"{each.where} must catch up, which Spark does not do: run the service outside of "
                "Spark until its log says 'has caught up'"
            )

    def take(self, values: Sequence[tuple[int, bytes]]) -> None:
        """Process segments, by offset, except those below the last commit."""
        new = [(offset, value) for offset, value in values if offset >= self._log.offset]
        if not new:
            return
        if self._moved and self._transaction.is_due:
            self._commit(new[0][0])
        segments = [(offset, segment_at(self.at, offset, value)) for offset, value in new]
        for position in self._log.take(segments, self._transaction.output):
            self._moved = True
            if self._is_full:
                self._commit(position)
        self._require_joined()
        self._segments += len(new)
        self._moved = True

    @property
    def _is_full(self) -> bool:
        full = self._transaction.is_due or self._transaction.output.is_full
        return full or self._operators.hold_many_rows

    def _commit(self, position: int) -> None:
        self._log.checkpoint(self._transaction.output, position, ahead=False, certain=True)
        self._hand_on(position)

    def _hand_on(self, position: int) -> None:
        """Write what stages hand on, as the last records, and commit."""
        if self._handing_on is not None:
            self._handing_on.write(self._transaction.output, list(self._log.progress()))
            self._reported = True
        self._log.offset = position
        self._transaction.commit(position, encode(marked(self._log.past)))
        self._moved = False

    def finish(self, end: int) -> tuple[int, int, int]:
        """Commit the remaining output; return segments and rows processed, and the lowest clock."""
        if end > self._log.offset:
            self._commit(end)
        if self._log.hands_on and not self._reported:
            self._hand_on(self._log.offset)
        self._transaction.close()
        rows = sum(tally.rows for tally in self._operators.tallies.values())
        return self._segments, rows, min(each.task.clock_ms for each in self._log.operators)


def marked(past: LogProgress, *, on_spark: bool = True) -> LogProgress:
    """Return the progress of a log partition with a mark of its owner: Spark, or the services."""
    return msgspec.structs.replace(past, on_spark=on_spark)
