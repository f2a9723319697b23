"""The raw topics behind logs, and the logs made of them again (tidemark/spark/read/reingest.py)."""

from dataclasses import dataclass

from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidemark.core.time.assigners import IngestTime
from tidemark.errors import PipelineError
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.client.consumer import EARLIEST, offsets
from tidemark.runtime.client.topics import require
from tidemark.runtime.config import Config
from tidemark.spark.read.envelopes import (
    ROUTED_ROWS,
    EnvelopeExtractor,
    MarkExtractor,
    SegmentAssembler,
)
from tidemark.spark.read.ranges import Ranges, committed_ends
from tidemark.spark.read.reingest import IngestReplayer, RecordPacker
from tidemark.spark.read.segment_rows import SEGMENTS, ddl
from tidemark.spark.read.source import raw_records


@dataclass(frozen=True)
class Raw:
    """All that is there of a pipeline's raw topics."""

    ranges: Ranges

    @classmethod
    def of(cls, admin: AdminClient, plan: Plan) -> "Raw":
        """Look what is there.

        Raises:
            PipelineError: a source's event time is the clock of ingest, which raw topics lack.
            ConfigurationError: a raw topic does not exist.
        """
        for source in plan.sources:
            if isinstance(source.event_time, IngestTime):
                raise PipelineError(
                    f"source {source.topic}: its event time is when ingest read a record, which "
                    "raw topics do not tell; replay from the log"
                )
        counts = require(admin, [source.topic for source in plan.sources])
        sources = [Partition(topic, n) for topic, count in counts.items() for n in range(count)]
        return cls(Ranges(offsets(admin, sources, EARLIEST), committed_ends(admin, sources)))

    def remade(
        self, spark: SparkSession, config: Config, plan: Plan, logged: DataFrame, ranges: Ranges
    ) -> DataFrame:
        """Make the segments of log ranges again; each log partition comes whole and in order."""
        sources, logs = self.ranges.partitions, ranges.partitions
        besides = ddl(ROUTED_ROWS)
        begins = [self.ranges.begins[at] for at in sources]
        ends = [self.ranges.ends[at] for at in sources]
        blocks = raw_records(spark, config, self.ranges).mapInArrow(RecordPacker(sources), besides)
        marks = logged.mapInArrow(MarkExtractor(sources, logs), besides)
        replayer = IngestReplayer(plan, sources, logs, begins, ends)
        made = _gathered(blocks.unionByName(marks), len(sources)).mapInArrow(replayer, besides)
        envelopes = logged.mapInArrow(EnvelopeExtractor(logs), besides)
        return _gathered(envelopes.unionByName(made), len(logs)).mapInArrow(
            SegmentAssembler(plan, logs), ddl(SEGMENTS)
        )


def _gathered(rows: DataFrame, tasks: int) -> DataFrame:
    """Bring rows to the task that they are for, in order."""
    return rows.repartitionById(tasks, f.col("to")).sortWithinPartitions(
        "to", "at", "kind", "index"
    )
