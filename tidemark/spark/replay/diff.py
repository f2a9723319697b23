"""Compares live results with a replay, message by message, in Spark.

Both sides are messages of the same topics from the same encoder, so equal results have equal bytes
(tidemark/spark/replay/matching.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.runtime.config import Config
from tidemark.spark.read.live_position import LivePosition, result_topics
from tidemark.spark.read.ranges import Offsets, Ranges
from tidemark.spark.read.raw import Raw
from tidemark.spark.read.segment_rows import ddl
from tidemark.spark.read.source import kafka_records
from tidemark.spark.replay.matching import (
    LEFT,
    RIGHT,
    Difference,
    TopicDiff,
    first_differences,
    totals,
    windows,
)
from tidemark.spark.replay.replay import Replay, one_line_errors
from tidemark.spark.targets.messages import Messages
from tidemark.spark.targets.stage_rows import MESSAGES, HandsOn, RecordedRows, handovers

_SHOWN = 20


@dataclass(frozen=True)
class Comparison:
    """Live results, on the left, and a replay up to the live position, on the right."""

    plan: Plan
    live: LivePosition
    ranges: Ranges
    slices: int = 1
    raw: Raw | None = None

    @property
    def _handovers(self) -> tuple[HandsOn, ...]:
        return handovers(self.plan)

    def topics(self, spark: SparkSession, config: Config) -> list[TopicDiff]:
        """Compare all results, and the rows that stages hand on.

        Returns a ``TopicDiff`` per topic, also without messages.
        """
        stages = self._handovers
        with one_line_errors():
            found = totals(windows(self._messages(spark, config, self.plan.operators, stages)))
        names = [*result_topics(self.plan.operators), *(each.topic for each in stages)]
        return [found.get(name, TopicDiff(name, 0, 0, 0, 0, 0)) for name in names]

    def differences(
        self, spark: SparkSession, config: Config, topics: Iterable[str], limit: int = _SHOWN
    ) -> list[Difference]:
        """Return the first windows that differ in these topics, with their messages."""
        differing = frozenset(topics)
        stages = [each for each in self._handovers if each.topic in differing]
        names = {each.derived.operator for each in stages}
        operators = [
            each
            for each in self.plan.operators
            if each.name in names or not differing.isdisjoint(each.topics)
        ]
        with one_line_errors():
            return first_differences(
                spark, lambda: self._messages(spark, config, operators, stages), limit
            )

    def _messages(
        self,
        spark: SparkSession,
        config: Config,
        operators: Sequence[OperatorPlan],
        stages: Sequence[HandsOn],
    ) -> DataFrame:
        """Return the messages of both sides, with the columns of matching.py."""
        sides = [self._replay(spark, config, each, stages) for each in self._together(operators)]
        if stages:
            sides.append(self._recorded(spark, config, stages))
        live = kafka_records(spark, config, self._results(operators)).select(
            "topic", "partition", f.lit(LEFT).alias("side"), f.col("offset").alias("place"),
            f.lit(True).alias("sure"), f.col("offset").alias("at"), "key", "value",
        )  # fmt: skip
        return reduce(DataFrame.unionByName, sides, live)

    def _recorded(
        self, spark: SparkSession, config: Config, stages: Sequence[HandsOn]
    ) -> DataFrame:
        """Return the rows of stages that the logs hold."""
        logs = {each.log.topic for each in stages}
        ends = self.live.results.ends
        ranges = self.ranges.to({at: end for at, end in ends.items() if at.topic in logs})
        segments = Replay(self.plan, ranges).ordered(spark, config)
        found = segments.mapInArrow(RecordedRows(stages), ddl(MESSAGES))
        return found.withColumnRenamed("log_offset", "at").withColumn("side", f.lit(LEFT))

    def _results(self, operators: Sequence[OperatorPlan]) -> Ranges:
        wanted = set(result_topics(operators))
        begins, ends = self.live.results.begins, self.live.results.ends
        kept = [at for at in ends if at.topic in wanted]
        return Ranges({at: begins[at] for at in kept}, {at: ends[at] for at in kept})

    def _together(self, operators: Sequence[OperatorPlan]) -> list[tuple[OperatorPlan, ...]]:
        """Return operators that are replayed together: of a service, with equal begins."""
        found: list[tuple[OperatorPlan, ...]] = []
        for each in operators:
            for index, others in enumerate(found):
                if all(self._agree(each, other) for other in others):
                    found[index] = (*others, each)
                    break
            else:
                found.append((each,))
        return found

    def _agree(self, left: OperatorPlan, right: OperatorPlan) -> bool:
        same_log = left.log == right.log
        return left.service == right.service and (
            not same_log or self._begins(left) == self._begins(right)
        )

    def _begins(self, operator: OperatorPlan) -> Offsets:
        return self.live.state_begins[operator.name]

    def _replay(
        self,
        spark: SparkSession,
        config: Config,
        operators: tuple[OperatorPlan, ...],
        stages: Sequence[HandsOn],
    ) -> DataFrame:
        """Replay operators of a service, from the begin of their state to its commit."""
        service = operators[0].service
        begins = {at: first for each in operators for at, first in self._begins(each).items()}
        after = self.live.after[service]
        read = [at for at in self.ranges.partitions if at in begins]
        ranges = self.ranges.to({at: after[at] for at in read}, begins)
        plan = replace(self.plan, operators=operators)
        job = Replay(plan, ranges, self.slices, raw=self.raw)
        before, lost_until_ms = self.live.before[service], self.live.lost_until_ms
        target = Messages(before, config, lost_until_ms, stages)
        messages = job.results(spark, config, target)
        return messages.withColumnRenamed("log_offset", "at").withColumn("side", f.lit(RIGHT))
