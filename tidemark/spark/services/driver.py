"""The driver of a pipeline's services on Spark: an endless series of micro-batches.

1. The driver marks the offsets of the services as Spark's, so that no service starts meanwhile.
2. In a loop it gives Spark the next ranges of the logs; tasks process them (batch.py).  If Spark
   runs ingest too, each micro-batch first takes the next ranges of the raw topics
   (ingest_driver.py).  After each micro-batch the driver writes the marks of stages
   (stage_marks.py).
3. After a signal it completes the micro-batch and gives the offsets back.  It gives them back too
   after an error that a restart does not change.

After a crash the offsets stay Spark's, until the next driver or ``--release`` gives them back.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from tidemark.errors import StateError, TidemarkError
from tidemark.language.load import pipeline_module
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.plan.topics import own_topics
from tidemark.runtime.client.broker_probe import await_broker, require_broker
from tidemark.runtime.client.consumer import EARLIEST, Start, offsets
from tidemark.runtime.client.offline_group import commit_for_group, require_empty
from tidemark.runtime.client.producer import Record
from tidemark.runtime.client.progress import VERSION, LogProgress, encode
from tidemark.runtime.client.recorded_program import (
    checked_program,
    placed_plan,
    recorded_program,
    require_same_chains,
)
from tidemark.runtime.client.topics import ensure, topic_ids
from tidemark.runtime.client.transaction import transaction
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.fresh_start import live_keys
from tidemark.runtime.keyed.log_partition import past_of
from tidemark.runtime.service.stopping import StopAskedError
from tidemark.spark.progress import event_time
from tidemark.spark.read.live_position import committed_positions
from tidemark.spark.read.ranges import Ranges, log_partitions, resolve
from tidemark.spark.read.segment_rows import SEGMENTS, ddl
from tidemark.spark.read.source import kafka_records
from tidemark.spark.replay.jobs import session_for
from tidemark.spark.replay.replay import one_line_errors
from tidemark.spark.services.batch import BATCH_COUNTS, KeyedBatch, marked, report_rows
from tidemark.spark.services.ingest_batch import task_id
from tidemark.spark.services.ingest_driver import IngestDriver
from tidemark.spark.services.stage_marks import StageMarks, services_of_stages
from tidemark.spark.services.stop_signal import StopSignal

_log = logging.getLogger("tidemark")

_MOST_OFFSETS = 20_000  # of a log partition in a micro-batch
_IDLE_S = 0.5


@dataclass
class MicroBatchDriver:
    """Runs the keyed services of a plan on Spark; ``with_ingest``: ingest too."""

    config: Config
    admin: AdminClient
    plan: Plan
    with_ingest: bool = False
    _ingest: IngestDriver = field(init=False)
    _marks: Mapping[str, StageMarks] = field(init=False)  # by service
    _has_reports: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """Send no request yet."""
        self._ingest = IngestDriver(self.config, self.admin, self.plan, self._name)
        self._marks = {
            service: StageMarks(self.config, self.admin, self.plan, service)
            for service in services_of_stages(self.plan)
        }

    @property
    def _name(self) -> str:
        return f"{self.plan.pipeline}.on-spark"

    @property
    def _groups(self) -> dict[str, str]:
        return {name: self.plan.group(name) for name in self.plan.keyed_services()}

    def _logs(self, service: str) -> list[Partition]:
        read = {each.log for each in self.plan.of_service(service)}
        return [at for at in log_partitions(self.admin, self.plan) if at.topic in read]

    def claim(self) -> None:
        """Mark the offsets as Spark's.

        Raises:
            ConfigurationError: a service runs.
            StateError: a committed offset is unusable, or ingest has another program.
        """
        groups = [*self._groups.values(), *([self._ingest.group] if self.with_ingest else [])]
        require_empty(self.admin, groups)
        program = self._checked_program()
        ensure(self.admin, own_topics(self.plan), self.config.replication_factor)
        self._fence()
        self._mark(on_spark=True, program=program)
        for each in self._marks.values():
            each.begin()

    def _checked_program(self) -> Record | None:
        """Return the record to write; reads the record again, as no service can write it now."""
        recorded = recorded_program(self.config, self.admin, self.plan.generations)
        require_same_chains(self.plan, recorded)
        return checked_program(self.admin, self.plan, recorded) if self.with_ingest else None

    def release(self) -> None:
        """Give the offsets back to the services."""
        self._mark(on_spark=False)

    def take_back(self) -> None:
        """Give the offsets back although tasks may still run: they commit nothing any more."""
        self._fence()
        self.release()

    def _fence(self) -> None:
        """Fence the tasks of a killed driver: they must not commit after the offsets are read."""
        ids = [
            task_id(group, at)
            for service, group in self._groups.items()
            for at in self._logs(service)
        ]
        ids += [each.transactional_id for each in self._marks.values()]
        if self.with_ingest:
            ids += [task_id(self._ingest.group, at) for at in self._ingest.partitions()]
        for each in ids:
            transaction(self.config, each)

    def _mark(self, *, on_spark: bool, program: Record | None = None) -> None:
        commits = {
            group: [
                TopicPartition(*at, offset, metadata=encode(marked(past, on_spark=on_spark)))
                for at, offset, past in self._committed(service)
            ]
            for service, group in self._groups.items()
        }
        for service, marks in self._marks.items():
            commits[self._groups[service]] += marks.marked(on_spark=on_spark)
        if self.with_ingest:
            commits[self._ingest.group] = self._ingest.marked(on_spark=on_spark)
        writes = {Partition(self.plan.generations, 0): [program]} if program is not None else {}
        commit_for_group(self.config, self.admin, self._name, writes, commits)

    def _committed(self, service: str) -> Iterator[tuple[Partition, int, LogProgress]]:
        logs = self._logs(service)
        ids = topic_ids(self.admin, {at.topic for at in logs})
        begins = offsets(self.admin, logs, EARLIEST)
        for each in committed_positions(self.config, self._groups[service], logs):
            at = Partition(each.topic, each.partition)
            if each.offset < 0:
                self._require_new(service, at)
                yield at, begins[at], LogProgress(VERSION, ids[at.topic], begun=begins[at])
            else:
                start = Start(at, each.offset, each.metadata or "")
                yield at, each.offset, past_of(start, ids[at.topic], by_spark=True)

    def _require_new(self, service: str, at: Partition) -> None:
        """Require that a log partition without a committed offset has no state.

        Raises:
            StateError: a changelog has state of it.
        """
        plans = [each for each in self.plan.of_service(service) if each.log == at.topic]
        wanted = [Partition(each.changelog, at.number) for each in plans]
        for changelog, keys in live_keys(self.config, self.admin, wanted).items():
            if keys:
                raise StateError(
                    f"{at}: nothing is committed, but {changelog} has state; 'tidemark reset "
                    "PIPELINE --service SERVICE' starts the service afresh from its log"
                )

    def batch(self, spark: SparkSession) -> int:
        """Process new records and segments, and write marks; return how many there were."""
        records = self._ingest.batch(spark) if self.with_ingest else 0
        self._report(spark)
        segments = self._segments(spark)
        return records + segments + sum(each.write() for each in self._marks.values())

    def _report(self, spark: SparkSession) -> None:
        """Let tasks report once what stages have reached, as a service does when it starts.

        A service without transactions may have ended before it reported.
        """
        if self._has_reports or not self._marks:
            return
        read = {each.log for each in self.plan.operators if self.plan.derived_of(each.name)}
        logs = [at for at in log_partitions(self.admin, self.plan) if at.topic in read]
        rows = spark.createDataFrame(report_rows(logs), ddl(SEGMENTS))
        self._run(rows, dict.fromkeys(logs, 0))
        self._has_reports = True

    def _run(self, segments: DataFrame, ends: Mapping[Partition, int]) -> list[Row]:
        batch = KeyedBatch(self.plan, self.config, ends)
        with one_line_errors():
            return segments.mapInArrow(batch, ddl(BATCH_COUNTS)).collect()

    def _segments(self, spark: SparkSession) -> int:
        ranges = self._next()
        if not ranges.length:
            return 0
        segments = kafka_records(spark, self.config, ranges).select(
            "topic", "partition", f.lit(0).alias("slice"), "offset", "value"
        )
        rows = self._run(segments, dict(ranges.ends))
        segments_ = sum(row.segments for row in rows)
        if segments_:
            clock_ms = min(row.clock_ms for row in rows)
            count = sum(row.rows for row in rows)
            _log.info("segments=%d rows=%d clock=%s", segments_, count, event_time(clock_ms))
        return int(segments_)

    def _next(self) -> Ranges:
        """Return the segments that some service has not processed, limited to a micro-batch."""
        begins: dict[Partition, int] = {}
        for service, group in self._groups.items():
            for each in committed_positions(self.config, group, self._logs(service)):
                at = Partition(each.topic, each.partition)
                begins[at] = min(each.offset, begins.get(at, each.offset))
        ends = resolve(self.admin, self.plan, begins).ends
        return Ranges(begins, {at: min(ends[at], begins[at] + _MOST_OFFSETS) for at in begins})


def run(config: Config, plan: Plan) -> None:
    """Run the keyed services of a pipeline on Spark until a signal; ingest too, if configured."""
    stop = StopSignal()
    command = f"'tidemark run --on spark {config.pipeline} --release'"
    try:
        admin = await_broker(config, lambda _reason: stop.check())
    except StopAskedError:
        _log.warning("stopped; partitions of a killed driver stay Spark's until %s", command)
        return
    plan = placed_plan(config, admin, plan)
    driver = MicroBatchDriver(config, admin, plan, config.spark_from == "raw")
    driver.claim()
    try:
        _work(driver, stop)
    except StopAskedError:
        pass
    except TidemarkError:
        driver.take_back()
        raise
    except BaseException:
        _log.warning("partitions stay Spark's until the next driver ends, or until %s", command)
        raise
    driver.release()
    _log.info("%s was given back to its services", plan.pipeline)


def _work(driver: MicroBatchDriver, stop: StopSignal) -> None:
    """Start Spark and process micro-batches until a signal.

    Raises:
        StopAskedError: the signal came before Spark was there.
    """
    config = driver.config
    module = pipeline_module(config.pipeline)
    with ExitStack() as opened:
        with stop.interrupting():
            session = session_for(module, config.spark_master, config.spark_memory)
            spark = opened.enter_context(session)
        what = "with ingest" if driver.with_ingest else "without ingest"
        _log.info("%s runs on Spark, %s: %s", driver.plan.pipeline, config.spark_master, what)
        while not stop.asked:
            with one_line_errors():
                count = driver.batch(spark)
            if not count:
                time.sleep(_IDLE_S)


def release(config: Config, plan: Plan) -> None:
    """Give a pipeline back to its services after its driver was killed."""
    admin = require_broker(config)
    plan = placed_plan(config, admin, plan)
    ingest = IngestDriver(config, admin, plan, "")
    with_ingest = any(each.on_spark for each in ingest.sources().values())
    MicroBatchDriver(config, admin, plan, with_ingest).take_back()
    _log.info("%s was given back to its services", plan.pipeline)
