"""Stages that run again before the operators that read their results, one after the other."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tidemark.partition import Partition
from tidemark.plan.physical import DerivedPlan, LogPlan, OperatorPlan, Plan
from tidemark.spark.read.segment_rows import SEGMENTS, ddl
from tidemark.spark.stage_segments import StageAssembler
from tidemark.spark.stage_tasks import (
    PLACED_ROWS,
    MarkReader,
    RemadeStage,
    SegmentRouter,
    StageRunner,
)

_ORDER = PLACED_ROWS.names[:-1]
_ROUTED = ddl(PLACED_ROWS)


@dataclass(frozen=True)
class StagesAgain:
    """Stages of a plan that run again, in the order in which rows pass them.

    ``whole``: see ``RemadeStage``.
    """

    plan: Plan
    stages: tuple[DerivedPlan, ...]
    whole: bool = False

    @classmethod
    def of_chain(cls, plan: Plan) -> "StagesAgain | None":
        """Return all stages of a plan, for a hand-over; None without a chain."""
        return cls(plan, plan.derived, whole=True) if plan.derived else None

    @classmethod
    def before(
        cls, operators: Iterable[OperatorPlan], plan: Plan, stages: Collection[str]
    ) -> "StagesAgain | None":
        """Return those of some stages whose rows operators read, directly or through others.

        Returns None if the operators read no such rows.  ``plan``: the whole plan.
        """
        sources = {each.name: each.operator.sources for each in plan.operators}
        wanted = {each.name for each in operators}
        found: list[DerivedPlan] = []
        for derived in reversed(plan.derived):
            if any(derived.source in sources[name] for name in wanted):
                wanted.add(derived.operator)
                if derived.operator in stages:
                    found.insert(0, derived)
        return cls(plan, tuple(found)) if found else None

    @property
    def operators(self) -> tuple[OperatorPlan, ...]:
        """The stages as operators."""
        names = {each.operator for each in self.stages}
        return tuple(each for each in self.plan.operators if each.name in names)

    @property
    def made_logs(self) -> list[LogPlan]:
        """The logs with no other rows than those of these stages: they need not exist."""
        sources = {each.source for each in self.stages}
        return [log for log in self.plan.logs if log.topics <= sources]

    def segments(self, segments: DataFrame, logs: Sequence[Partition]) -> DataFrame:
        """Return the segments of all logs with the rows that the stages make.

        ``segments``: of ``logs``, the partitions of all logs that these stages read and feed.
        """
        for derived in self.stages:
            stage = remade_stage(self.plan, derived, logs, whole=self.whole)
            segments = _with_stage(segments, stage)
        return segments


def remade_stage(
    plan: Plan, derived: DerivedPlan, logs: Sequence[Partition], *, whole: bool = False
) -> RemadeStage:
    """Return a stage of a plan that runs again.

    ``logs``: the partitions of the logs.  ``whole``: see ``RemadeStage``.
    """
    operators = tuple(each for each in plan.operators if each.name == derived.operator)
    (operator,) = operators
    fed = {log.topic for log in plan.fed_by(derived)}
    return RemadeStage(
        replace(plan, operators=operators),
        derived,
        sum(at.topic == operator.log for at in logs),
        tuple(at for at in logs if at.topic in fed),
        whole,
    )


def _with_stage(segments: DataFrame, stage: RemadeStage) -> DataFrame:
    own = [Partition(stage.operator.log, number) for number in range(stage.partitions)]
    is_fed = f.col("topic").isin(*{at.topic for at in stage.fed})
    fed = segments.filter(is_fed)
    marks = fed.mapInArrow(MarkReader(stage), _ROUTED)
    input_ = segments.filter(f.col("topic") == stage.operator.log)
    input_ = input_.mapInArrow(SegmentRouter(own), _ROUTED)
    rows = gathered(marks.unionByName(input_), len(own)).mapInArrow(StageRunner(stage), _ROUTED)
    recorded = fed.mapInArrow(SegmentRouter(stage.fed), _ROUTED)
    filled = gathered(recorded.unionByName(rows), len(stage.fed)).mapInArrow(
        StageAssembler(stage), ddl(SEGMENTS)
    )
    # The next stages and the operators read them, and each time the stage would run again.
    kept = filled.persist(StorageLevel.DISK_ONLY)
    return segments.filter(~is_fed).unionByName(kept)


def gathered(rows: DataFrame, tasks: int) -> DataFrame:
    """Gather rows (``PLACED_ROWS``) in the task of their column ``to``, in order."""
    return rows.repartitionById(tasks, f.col("to")).sortWithinPartitions(*_ORDER)
