"""The raw topics of a pipeline, and the segments that ingest builds from them again.

See tidemark/spark/read/reingest.py for the steps.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidemark.core.time.assigners import IngestTime
from tidemark.errors import PipelineError, StateError
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.client.consumer import EARLIEST, committed_ends, offsets
from tidemark.runtime.client.recorded_program import recorded_program
from tidemark.runtime.client.topics import require_raw, topic_ids
from tidemark.runtime.config import Config
from tidemark.spark.read.envelopes import (
    ROUTED_ROWS,
    EnvelopeExtractor,
    MarkExtractor,
    SegmentAssembler,
)
from tidemark.spark.read.ranges import Ranges
from tidemark.spark.read.reingest import IngestReplayer, RecordPacker
from tidemark.spark.read.segment_rows import SEGMENTS, ddl
from tidemark.spark.read.source import raw_records


@dataclass(frozen=True)
class Raw:
    """The raw topics of a pipeline, with the range of offsets that exist."""

    ranges: Ranges

    @classmethod
    def of(cls, config: Config, admin: AdminClient, plan: Plan) -> "Raw":
        """Return the raw topics of a plan with their current ranges.

        Raises:
            PipelineError: the event time of a source is the ingest time, which raw topics lack.
            ConfigurationError: a raw topic does not exist.
            StateError: a raw topic was created again, so it lacks records of the log.
        """
        for source in plan.sources:
            if isinstance(source.event_time, IngestTime):
                raise PipelineError(
                    f"source {source.name}: its event time is when ingest read a record; raw "
                    "topics do not have that time, so replay from the log"
                )
        counts = require_raw(admin, plan)
        _require_first(config, admin, plan, counts)
        sources = [Partition(topic, n) for topic, count in counts.items() for n in range(count)]
        return cls(Ranges(offsets(admin, sources, EARLIEST), committed_ends(admin, sources)))

    def segments(
        self, spark: SparkSession, config: Config, plan: Plan, logged: DataFrame, ranges: Ranges
    ) -> DataFrame:
        """Run ingest again over the raw topics; return the segments of log ranges.

        Args:
            spark: the session.
            config: of the broker.
            plan: the plan, which may differ from the live one.
            logged: the segments of the log (``SEGMENTS``), for their envelopes.
            ranges: the ranges of the logs.

        Returns:
            A DataFrame with the columns of ``SEGMENTS``.  One task has all segments of a log
            partition, in order.
        """
        sources, logs = self.ranges.partitions, ranges.partitions
        routed = ddl(ROUTED_ROWS)
        begins = [self.ranges.begins[at] for at in sources]
        ends = [self.ranges.ends[at] for at in sources]
        blocks = raw_records(spark, config, self.ranges).mapInArrow(RecordPacker(sources), routed)
        marks = logged.mapInArrow(MarkExtractor(sources, logs), routed)
        replayer = IngestReplayer(plan, config, sources, logs, begins, ends)
        ranges_ = _gathered(blocks.unionByName(marks), len(sources)).mapInArrow(replayer, routed)
        envelopes = logged.mapInArrow(EnvelopeExtractor(logs), routed)
        return _gathered(envelopes.unionByName(ranges_), len(logs)).mapInArrow(
            SegmentAssembler(plan, logs), ddl(SEGMENTS)
        )


def _require_first(config: Config, admin: AdminClient, plan: Plan, topics: Iterable[str]) -> None:
    """Require that raw topics are those that ingest read first."""
    program = recorded_program(config, admin, plan.generations)
    known = {} if program is None else program.sources
    for topic, topic_id in topic_ids(admin, known.keys() & set(topics)).items():
        source = known[topic]
        if any(source.shifts.values()) or source.topic_id not in ("", topic_id):
            raise StateError(
                f"raw topic {topic} was created again, so it lacks records of the log; replay from "
                "the log"
            )


def _gathered(rows: DataFrame, tasks: int) -> DataFrame:
    """Gather rows (``ROUTED_ROWS``) in the task of their column ``to``, in order."""
    return rows.repartitionById(tasks, f.col("to")).sortWithinPartitions(
        "to", "at", "kind", "index"
    )
