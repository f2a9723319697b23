"""Logs that a hand-over writes anew, and what stages have reached (docs/replay.md, "Hand-over").

The services of a chain rest on the rows of stages in the logs.  So all stages run again, and the
logs that they feed are written anew, behind the records that they are made of:

1. Spark writes the new records (log_writer.py).
2. In ONE transaction: the run is marked as written, and the program and the new beginnings of the
   logs are recorded.
3. The earlier records are deleted.

After a failure in step 1, a second run writes the rest.  Later it needs the new records alone.  So
the operators can be replayed over the logs as they are then.

With ``--from raw``, all logs are written anew, as the envelopes of ingest come from the earlier
records.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tidemark.core.time.announcer import TaskProgress
from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.plan.names import progress_topic
from tidemark.plan.physical import Plan
from tidemark.runtime.client.consumer import LATEST, committed_ends, offsets
from tidemark.runtime.client.generations import newest_generations, records_of_epochs
from tidemark.runtime.client.offline_group import commit_for_group, delete_records
from tidemark.runtime.client.producer import Record
from tidemark.runtime.client.progress import LogProgress, MarkProgress, decode
from tidemark.runtime.client.recorded_program import replayed_program, restaged_program
from tidemark.runtime.client.topics import segment_bytes, topic_ids
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.announcements import progress_topics
from tidemark.serde.operator_progress import encode_progress
from tidemark.spark.outcome import Outcome
from tidemark.spark.read.live_position import committed_positions
from tidemark.spark.read.ranges import Offsets, Ranges
from tidemark.spark.read.raw import Raw
from tidemark.spark.read.segment_rows import ddl
from tidemark.spark.replay.handover_tasks import hand_over_name, progress_group
from tidemark.spark.replay.log_writer import WRITTEN, LogWriter
from tidemark.spark.replay.replay import Replay, one_line_errors
from tidemark.spark.replay.stages import StagesAgain, gathered
from tidemark.spark.replay.under_way import HandOverRun, UnderWay
from tidemark.spark.stage_tasks import PLACED_ROWS, SegmentRouter


@dataclass(frozen=True)
class NewLogs:
    """The logs that a hand-over writes anew.

    ``ranges``: the records that all logs are made of.  ``under_way``: the hand-over under way.
    """

    config: Config
    admin: AdminClient
    plan: Plan
    ranges: Ranges
    stages: StagesAgain
    raw: Raw | None
    under_way: UnderWay | None

    @property
    def partitions(self) -> list[Partition]:
        """The log partitions that are written anew."""
        fed = {log.topic for each in self.stages.stages for log in self.plan.fed_by(each)}
        return [at for at in self.ranges.partitions if self.raw is not None or at.topic in fed]

    def _writer(self, run: str) -> LogWriter:
        group = progress_group(self.plan.pipeline, "logs")
        most = segment_bytes(self.admin, self.plan)
        return LogWriter(self.config, group, run, tuple(self.partitions), most)

    def begun(self) -> Offsets:
        """Fence the tasks of an earlier run; return where the new records of logs begin."""
        self._writer("").fence()
        return offsets(self.admin, self.partitions, LATEST)

    def complete(self, spark: SparkSession, run: HandOverRun) -> Ranges:
        """Complete the logs, and delete their earlier records; return the ranges to replay."""
        assert self.under_way is not None, "the offsets are marked first"
        begun = self.under_way.begun
        if not self.under_way.run.are_written:
            self._write(spark, run)
            self._note_written(begun)
        delete_records(self.admin, begun)
        ends = committed_ends(self.admin, begun)
        return self.ranges.to({**self.ranges.ends, **ends}, begun)

    def _write(self, spark: SparkSession, run: HandOverRun) -> None:
        logs = self.partitions
        job = Replay(self.plan, self.ranges, raw=self.raw, stages=self.stages)
        with one_line_errors():
            segments = job.segments(spark, self.config)
            mine = segments.filter(f.col("topic").isin(*{at.topic for at in logs}))
            placed = mine.mapInArrow(SegmentRouter(logs), ddl(PLACED_ROWS))
            writer = self._writer(run.name)
            gathered(placed, len(logs)).mapInArrow(writer, ddl(WRITTEN)).collect()

    def _note_written(self, begun: Offsets) -> None:
        """Note that the logs are complete, in one transaction with what they hold now."""
        program = restaged_program if self.raw is None else replayed_program
        records = [
            program(self.config, self.admin, self.plan),
            *records_of_epochs(self.admin, begun),
        ]
        commits = {
            self.plan.group(service): list(self._written(service))
            for service in self.plan.keyed_services()
        }
        name = hand_over_name(self.plan.pipeline)
        writes = {Partition(self.plan.generations, 0): records}
        commit_for_group(self.config, self.admin, name, writes, commits)

    def _written(self, service: str) -> Iterator[TopicPartition]:
        """Yield the offsets of a service with marks that say that the logs are complete.

        Raises:
            StateError: an offset lacks the mark of the hand-over.
        """
        logs = {each.log for each in self.plan.of_service(service)}
        wanted = [at for at in self.ranges.partitions if at.topic in logs]
        for each in committed_positions(self.config, self.plan.group(service), wanted):
            where = f"{each.topic}/{each.partition}"
            past = decode(each.metadata or "", LogProgress, where)
            if not past.handing_over:
                raise StateError(
                    f"{where}: another process has committed an offset during the hand-over"
                )
            run = msgspec.json.decode(past.handing_over, type=HandOverRun)
            yield msgspec.structs.replace(run, are_written=True).marked(each)


def require_progress_topics(config: Config, admin: AdminClient, plan: Plan) -> None:
    """Require that the progress topics are those of the marks in the logs.

    Raises:
        StateError: one was deleted and created again, so later marks would look like earlier ones.
    """
    for service in plan.keyed_services():
        topics = progress_topics(plan, plan.of_service(service))
        ids = topic_ids(admin, topics)
        wanted = [Partition(topic, 0) for topic in ids]
        for each in committed_positions(config, plan.group(service), wanted):
            if not each.metadata:
                continue
            past = decode(each.metadata, MarkProgress, f"{each.topic}/0")
            if past.topic_id != ids[each.topic]:
                raise StateError(
                    f"{each.topic} was deleted and created again, and the logs hold marks by its "
                    "earlier offsets; 'tidemark reset PIPELINE --delete-results' computes "
                    "everything from the raw topics"
                )


def reports_of_stages(
    config: Config, admin: AdminClient, plan: Plan, outcomes: Sequence[Outcome]
) -> Iterable[tuple[Partition, list[Record]]]:
    """Yield by progress topic the reports of what each stage has reached on its log partitions."""
    generations = newest_generations(config, admin, plan.generations)
    for derived in plan.derived:
        name = derived.operator
        found = [
            TaskProgress(
                each.partition, generations[name, each.partition].number, *each.reached[name]
            )
            for each in outcomes
            if name in each.reached
        ]
        topic = Partition(progress_topic(plan.pipeline, name), 0)
        yield topic, [encode_progress(each) for each in found]
