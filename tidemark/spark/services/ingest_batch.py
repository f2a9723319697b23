"""A micro-batch of one raw partition: a task does what ingest does between two commits.

It commits dead letters, segments and the offset in one transaction, or in several if the
micro-batch is large.  Each is a commit like that of the service.  A task that Spark repeats fences
the first attempt and reads the records after its last commit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from tidemark.errors import StateError
from tidemark.ingest.ingest import Ingest
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.client import clients
from tidemark.runtime.client.schema_registry import writer_schemas
from tidemark.runtime.client.topics import segment_builder, topic_ids
from tidemark.runtime.config import Config
from tidemark.runtime.ingest.loading import Loading
from tidemark.runtime.ingest.new_logs import NewLogs
from tidemark.runtime.ingest.past_marks import PastMarks
from tidemark.runtime.ingest.raw_sources import OwnedSource, write_segments
from tidemark.runtime.wall_clock import now_ms
from tidemark.serde.dead_letters import encode_dead_letters
from tidemark.serde.records import Counts
from tidemark.spark.read.segment_rows import Batches, batch_of
from tidemark.spark.read.source import RAW, record_batch
from tidemark.spark.task_transaction import TaskTransaction

INGEST_COUNTS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("records", pa.int64()),
        ("dead", pa.int64()),
        ("watermark_ms", pa.int64()),
    ]
)
"""What a task did in a raw partition of which it has read a record."""

_COMMIT_RECORDS, _COMMIT_BYTES = 50_000, 32 * 2**20


def task_id(group: str, at: Partition) -> str:
    """Return the transactional id of the Spark tasks of a group and a partition."""
    return f"{group}.spark.{at}"


@dataclass(frozen=True)
class IngestBatch:
    """Runs ingest over raw partitions up to ``ends``.

    The batches it takes have the columns of ``raw_records``, the ones it returns ``INGEST_COUNTS``.
    ``partitions``: the number of partitions, by raw topic.
    """

    plan: Plan
    config: Config
    ends: Mapping[Partition, int]
    partitions: Mapping[str, int]

    def __call__(self, batches: Batches) -> Batches:
        """Yield a row per raw partition."""
        source: _Source | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            at = Partition(batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py())
            if source is None or source.at != at:
                if source is not None:
                    yield source.finish()
                source = _Source(self, at)
            source.take(batch)
        if source is not None:
            yield source.finish()


class _Source:
    """One raw partition, for the time of a micro-batch."""

    def __init__(self, job: IngestBatch, at: Partition) -> None:
        """Fence an earlier attempt, then continue from the last commit.

        Raises:
            StateError: the raw partition was given back to the ingest service.
        """
        self.at = at
        self._job = job
        group = job.plan.group("ingest")
        self._transaction = TaskTransaction(job.config, group, task_id(group, at), at)
        admin = clients.admin(job.config)
        past = PastMarks(job.config, admin, job.plan)
        topic_id = topic_ids(admin, [at.topic])[at.topic]
        self._owned = OwnedSource.from_commit(
            self._transaction.committed(),
            topic_id,
            past,
            NewLogs(admin, job.plan, past),
            Loading(admin, job.plan),
            by_spark=True,
        )
        if not self._owned.on_spark:
            raise StateError(f"{at}: ingest was given back while Spark worked on it")
        self._builder = segment_builder(admin, job.plan)
        self._ingest = Ingest(job.plan, writer_schemas(job.config, job.plan))
        self._counts = Counts()
        self._records = self._bytes = 0
        self._transaction.begin_interval()

    def take(self, batch: pa.RecordBatch) -> None:
        """Run ingest over records, except those below the last commit; commit if it is time."""
        table = pa.Table.from_batches([batch.select(RAW)])
        known = self._owned.progress.next_offset - self._owned.shift
        table = table.slice(int((table.column("offset").to_numpy() < known).sum()))
        if not table.num_rows:
            return
        at_ms = now_ms()
        records = replace(record_batch(self.at, table, at_ms), shift=self._owned.shift)
        output = self._ingest.take(records, self._owned.progress)
        self._builder.add(output)
        self._counts += output.counts
        if output.dead_letters:
            letters = encode_dead_letters(output.dead_letters)
            self._transaction.output.write(self._job.plan.dead_letters, 0, *letters)
        self._owned.took(output.progress, at_ms)
        self._records += table.num_rows
        self._bytes += int(table.nbytes)
        large = self._records >= _COMMIT_RECORDS or self._bytes >= _COMMIT_BYTES
        if large or self._transaction.is_due:
            self._commit(output.progress.next_offset - self._owned.shift)

    def _commit(self, position: int) -> None:
        output = self._transaction.output
        write_segments(output, self._job.plan, self._builder, self._job.partitions)
        self._owned.reach(position)
        self._transaction.commit(position, self._owned.metadata())
        self._builder.clear()
        self._records = self._bytes = 0

    def finish(self) -> pa.RecordBatch:
        """Commit up to the end, past control records; return a row of ``INGEST_COUNTS``."""
        end = self._job.ends[self.at]
        if end > self._owned.committed:
            self._commit(end)
        self._transaction.close()
        watermark_ms = self._owned.progress.watermark_ms
        row = (*self.at, self._counts.records, self._counts.dead, watermark_ms)
        return batch_of(([cell] for cell in row), INGEST_COUNTS)
