"""The driver's side of a replay: it splits the work between tasks and collects their outcomes.

With at least as many log partitions as cores, one task replays a whole log partition, without a
shuffle.  With fewer, each log partition is cut into key-group slices (spark/read/slices.py).
A shuffle also gathers the segments of an archive and of the topic, whole or cut.
"""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidemark.errors import InfrastructureError, PipelineError, StateError
from tidemark.plan.physical import Plan
from tidemark.runtime.config import Config
from tidemark.spark.outcome import Outcome, read_outcome
from tidemark.spark.progress import Address, OnProgress, Progress, progress_listener
from tidemark.spark.read.archived import archived_segments
from tidemark.spark.read.ranges import Ranges
from tidemark.spark.read.raw import Raw
from tidemark.spark.read.segment_rows import SLICED_SEGMENTS, ddl
from tidemark.spark.read.slices import most_slices
from tidemark.spark.read.source import kafka_records
from tidemark.spark.replay.stages import StagesAgain
from tidemark.spark.work import (
    ALL_TIMES,
    EventTimeRange,
    OperatorRunner,
    ReplayTarget,
    SegmentSlicer,
)

_ENDS_OF_WORKERS = (
    "Python worker exited unexpectedly",
    "Python worker process terminated",
    "Failed to connect to Python worker",
    "ExecutorLostFailure",
    "java.net.SocketException: Connection reset",
    "java.net.SocketException: Broken pipe",
)


@dataclass(frozen=True)
class Replay:
    """A replay of a plan over ranges of its logs.

    ``slices``: key-group slices, and so tasks, per log partition.  ``event_times``: selects
    results; the operators process rows of all times.  ``raw``: the raw topics, if ingest runs
    again; the envelopes still come from the logs.  ``stages``: those that run again.
    """

    plan: Plan
    ranges: Ranges
    slices: int = 1
    event_times: EventTimeRange = ALL_TIMES
    raw: Raw | None = None
    stages: StagesAgain | None = None

    def results(
        self,
        spark: SparkSession,
        config: Config,
        target: ReplayTarget,
        driver: Address | None = None,
    ) -> DataFrame:
        """Return the rows of all tasks, lazily, with the columns of the target.

        ``driver``: where tasks send their progress.
        """
        timeout_ms = config.transaction_timeout_ms
        operating = OperatorRunner(self.plan, target, timeout_ms, self.event_times, driver)
        return self.ordered(spark, config, driver).mapInArrow(operating, target.ddl)

    def ordered(
        self, spark: SparkSession, config: Config, driver: Address | None = None
    ) -> DataFrame:
        """Return the segments, or their slices; one task has those of a slice, in order."""
        segments = self.segments(spark, config)
        whole = self.slices == 1 and (self.raw is not None or not self.ranges.archived)
        return segments if whole else self._shuffled(segments, driver)

    def segments(self, spark: SparkSession, config: Config) -> DataFrame:
        """Return the segments of the logs, or those of ingest and of stages run again.

        Returns:
            A DataFrame with the columns of ``SEGMENTS``.
        """
        logged = kafka_records(spark, config, self.ranges.of_topics).select(
            "topic", "partition", f.lit(0).alias("slice"), "offset", "value"
        )
        if self.ranges.archived:
            logged = logged.unionByName(archived_segments(spark, self.ranges.archived))
        if self.raw is not None:
            logged = self.raw.segments(spark, config, self.plan, logged, self.ranges)
        if self.stages is None:
            return logged
        read = {each.log for each in self.plan.operators}
        filled = self.stages.segments(logged, self.ranges.partitions)
        return filled.filter(f.col("topic").isin(*read))

    def _shuffled(self, segments: DataFrame, driver: Address | None) -> DataFrame:
        logs = self.ranges.partitions
        cut = segments.mapInArrow(
            SegmentSlicer(self.plan, logs, self.slices, driver), ddl(SLICED_SEGMENTS)
        )
        gathered = cut.repartitionById(len(logs) * self.slices, f.col("task"))
        return gathered.sortWithinPartitions("task", "offset")

    def run(
        self,
        spark: SparkSession,
        config: Config,
        target: ReplayTarget,
        on_progress: OnProgress = lambda _: None,
    ) -> list[Outcome]:
        """Run the replay; return the outcome of every log replay that had a segment.

        Raises:
            StateError: a segment is missing or cannot be read.
        """
        progress = Progress(self.ranges, self.slices, time.monotonic())
        with one_line_errors(), progress_listener(spark, progress, on_progress) as driver:
            rows = self.results(spark, config, target, driver).collect()
        return [read_outcome(row.outcome) for row in rows]


def with_operators(plan: Plan, names: list[str]) -> Plan:
    """Return a plan with only the operators of these names; with all, if ``names`` is empty.

    Raises:
        PipelineError: the plan has no operator of a name.
    """
    known = [each.operator.name for each in plan.operators]
    for name in names:
        if name not in known:
            raise PipelineError(f"no operator {name!r} in {plan.pipeline}: {', '.join(known)}")
    kept = [each for each in plan.operators if not names or each.operator.name in names]
    return replace(plan, operators=tuple(kept))


def slices_for(plan: Plan, ranges: Ranges, cores: int) -> int:
    """Return the number of key-group slices per log partition that keeps all cores busy."""
    partitions = max(1, len(ranges.partitions))
    return min(slices_limit(plan), -(-cores // partitions))


def slices_limit(plan: Plan) -> int:
    """Return the largest number of key-group slices that every log of a plan allows."""
    read = {each.log for each in plan.operators}
    return min(most_slices(log.partitions) for log in plan.logs if log.topic in read)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Raise the error of a task as one line, without Spark's stack trace.

    Raises:
        StateError: a task, or Spark itself, has failed.
        InfrastructureError: the JVM or a Python process of Spark has ended.
    """
    try:
        yield
    except PySparkException as error:
        text = str(error)
        messages = re.findall(r"^tidemark\.errors\.\w+: (.+)$", text, re.MULTILINE)
        if messages:
            raise StateError(messages[-1]) from None
        if any(words in text for words in _ENDS_OF_WORKERS):
            raise InfrastructureError(
                "Spark: a Python process ended in the middle of its task: it was killed, for "
                "example because the machine has no memory left, or it crashed"
            ) from None
        raise StateError(f"Spark: {_cause(text)}") from error
    except (Py4JError, ConnectionError):
        raise InfrastructureError(
            "Spark: its JVM has ended: it was killed, for example because the machine has no "
            "memory left, or it crashed"
        ) from None


def _cause(text: str) -> str:
    """Return the most useful line of a stack trace: the last line that names an error."""
    errors = re.findall(r"^(?:Caused by: )?([\w.]+(?:Error|Exception): .+)$", text, re.MULTILINE)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found: str = [*lines[:1], *errors][-1]
    return found
