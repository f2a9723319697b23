"""Replays, hand-overs and comparisons from start to end, for ``tidemark replay`` and ``diff``."""

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from types import ModuleType

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from tidemark.errors import ConfigurationError
from tidemark.plan.physical import LogPlan, Plan
from tidemark.runtime.archive.archive import Archive
from tidemark.runtime.client import clients
from tidemark.runtime.client.generations import recorded_epochs
from tidemark.runtime.config import Config
from tidemark.spark.outcome import Outcome
from tidemark.spark.progress import OnProgress
from tidemark.spark.read.live_position import find_live_position
from tidemark.spark.read.ranges import (
    Offsets,
    Ranges,
    as_of,
    earliest,
    log_partitions,
    parse,
    resolve,
)
from tidemark.spark.read.raw import Raw
from tidemark.spark.read.recorded_stages import changed_stages
from tidemark.spark.replay.diff import Comparison
from tidemark.spark.replay.folders import Folder, FoldersDiff, compare
from tidemark.spark.replay.handover import HandOver
from tidemark.spark.replay.matching import Difference, TopicDiff
from tidemark.spark.replay.replay import Replay, slices_for, slices_limit
from tidemark.spark.replay.stages import StagesAgain
from tidemark.spark.replay.under_way import UnderWay, find_under_way
from tidemark.spark.session import spark_session
from tidemark.spark.targets.files import Files
from tidemark.spark.targets.topics import Topics
from tidemark.spark.work import ALL_TIMES, EventTimeRange, ReplayTarget

_log = logging.getLogger("tidemark")

Sessions = Callable[[], AbstractContextManager[SparkSession]]
"""Starts Spark; called only after every check that does not need Spark."""


@dataclass(frozen=True)
class ReplayInput:
    """The input of a replay, as the options of ``tidemark replay`` state it.

    ``archive``: the place of the archive, empty without one.  ``from_raw``: run ingest again.
    """

    from_offsets: str | None = None
    to_offsets: str | None = None
    as_of_ms: int | None = None
    event_times: EventTimeRange = ALL_TIMES
    archive: str = ""
    from_raw: bool = False


@dataclass(frozen=True)
class ReplayResult:
    """The outcomes and the duration of a replay; ``took_s`` does not include ``startup_s``."""

    outcomes: Sequence[Outcome]
    startup_s: float
    took_s: float


@dataclass(frozen=True)
class DiffResult:
    """The result of a comparison of live results with a replay.

    ``truncated_topics``: a line for each result partition that lacks its first messages.
    ``behind``: the number of offsets that the services have not processed yet.
    """

    topics: Sequence[TopicDiff]
    differences: Sequence[Difference]
    truncated_topics: Sequence[str]
    behind: int

    @property
    def equal(self) -> bool:
        """Whether live and replay have the same results."""
        return not any(topic.different for topic in self.topics)


def replay(
    config: Config,
    plan: Plan,
    replay_input: ReplayInput,
    output: str,
    sessions: Sessions,
    slices: int | None,
    on_progress: OnProgress = lambda _: None,
    whole: Plan | None = None,
) -> ReplayResult:
    """Replay a plan to files or topics.

    Args:
        config: of the broker.
        plan: the plan.
        replay_input: what to read.
        output: ``parquet:DIR`` or ``topics``.
        sessions: starts Spark.
        slices: key-group slices per log partition; None for enough to keep all cores busy.
        on_progress: called with the progress every second.
        whole: the plan with all operators, if ``plan`` has only some of them.

    Raises:
        ConfigurationError: the output has another form, or is not empty.
        StateError: records are missing or damaged.
    """
    run = secrets.token_hex(4)
    stages = _stages_again(config, plan, whole or plan, from_raw=replay_input.from_raw)
    ranges = _ranges(config, plan, replay_input, stages)
    raw = _raw(config, plan, replay_input.from_raw)
    job = _Job(
        config,
        Replay(plan, ranges, slices or 0, replay_input.event_times, raw, stages),
        sessions,
        on_progress,
    )
    if output.startswith("parquet:"):
        return _to_files(job, Files(output.removeprefix("parquet:"), run))
    if output != "topics":
        raise ConfigurationError(f"output {output!r} is neither parquet:DIR nor topics")
    topics = Topics(config, plan.pipeline, run)
    topics.prepare(plan)
    return job.run(topics)


def into_live(
    config: Config,
    plan: Plan,
    replay_input: ReplayInput,
    sessions: Sessions,
    slices: int | None,
    *,
    delete_results: bool = False,
    on_progress: OnProgress = lambda _: None,
) -> ReplayResult:
    """Replay the logs into the live topics; live services continue at the end of the range.

    Arguments as of ``replay``.  ``delete_results``: delete the existing results first.

    Raises:
        ConfigurationError: a service runs, or results exist and ``delete_results`` is false.
        StateError: records are missing or damaged.
    """
    stages = StagesAgain.of_chain(plan)
    admin = clients.admin(config)
    under_way = find_under_way(config, admin, plan)
    ranges = _ranges(config, plan, replay_input, stages, under_way)
    raw = _raw(config, plan, replay_input.from_raw)
    job = HandOver(config, admin, plan, ranges, delete_results, raw, stages, under_way)
    run = job.check()
    with _started(sessions) as (spark, startup_s):
        began_s = time.monotonic()
        wanted = 1 if stages is not None else slices or 0
        run = run or job.begin(_slices(spark, plan, ranges, wanted))
        outcomes = job.work(spark, run, on_progress)
        return ReplayResult(outcomes, startup_s, time.monotonic() - began_s)


@dataclass(frozen=True)
class _Job:
    config: Config
    replay: Replay
    sessions: Sessions
    on_progress: OnProgress

    def run(self, target: ReplayTarget) -> ReplayResult:
        with _started(self.sessions) as (spark, startup_s):
            began_s = time.monotonic()
            slices = _slices(spark, self.replay.plan, self.replay.ranges, self.replay.slices)
            job = replace(self.replay, slices=slices)
            outcomes = job.run(spark, self.config, target, self.on_progress)
            return ReplayResult(outcomes, startup_s, time.monotonic() - began_s)


def _to_files(job: _Job, files: Files) -> ReplayResult:
    files.prepare()
    try:
        result = job.run(files)
    except BaseException:
        files.discard()
        raise
    files.complete(result.outcomes, job.replay.plan, job.replay.ranges)
    return result


def diff(
    config: Config,
    plan: Plan,
    sessions: Sessions,
    slices: int | None,
    archive: str = "",
    *,
    from_raw: bool = False,
) -> DiffResult:
    """Compare the published results of the services with a replay of the segments they have read.

    Args:
        config: of the broker.
        plan: the plan.
        sessions: starts Spark.
        slices: key-group slices per log partition; None for enough to keep all cores busy.
        archive: the place of an archive with segments that the logs no longer have.
        from_raw: run ingest again, over the raw topics.

    Raises:
        StateError: the logs no longer have all segments.
    """
    admin = clients.admin(config)
    live = find_live_position(admin, config, plan)
    ranges = resolve(admin, plan, live.earliest, archive=_archive(archive))
    raw = _raw(config, plan, from_raw)
    with sessions() as spark:
        slices_ = _slices(spark, plan, ranges, slices or 0)
        comparison = Comparison(plan, live, ranges, slices_, raw)
        topics = comparison.topics(spark, config)
        differing = [topic.topic for topic in topics if topic.different]
        found = comparison.differences(spark, config, differing) if differing else []
    truncated_topics = [
        f"{at} begins at {first}" for at, first in live.results.begins.items() if first
    ]
    behind = sum(
        max(0, ranges.ends[at] - offset)
        for offsets in live.after.values()
        for at, offset in offsets.items()
    )
    return DiffResult(topics, found, truncated_topics, behind)


def diff_folders(left: str, right: str, sessions: Sessions) -> FoldersDiff:
    """Compare the results of two replays to Parquet files, each as ``parquet:DIR``.

    Raises:
        ConfigurationError: one is not a folder of results, or its replay is not complete.
    """
    a, b = (Folder.open(_folder(each)) for each in (left, right))
    with sessions() as spark:
        return compare(spark, a, b)


def _folder(place: str) -> str:
    if not place.startswith("parquet:"):
        raise ConfigurationError(f"{place!r} is not a folder of results: write it as parquet:DIR")
    return place.removeprefix("parquet:")


def _stages_again(config: Config, plan: Plan, whole: Plan, *, from_raw: bool) -> StagesAgain | None:
    """Return the stages that run again: from raw topics all of them, else those that changed."""
    changed = {} if from_raw else changed_stages(config, clients.admin(config), whole)
    names = [each.operator for each in whole.derived] if from_raw else [*changed]
    for name, why in changed.items():
        _log.info("stage %s runs again over its log: %s", name, why)
    return StagesAgain.before(plan.operators, whole, names)


def _ranges(
    config: Config,
    plan: Plan,
    replay_input: ReplayInput,
    stages: StagesAgain | None = None,
    under_way: UnderWay | None = None,
) -> Ranges:
    """Return the ranges of the logs that operators of a plan and stages read.

    ``under_way``: a hand-over that has begun to write logs anew.
    """
    admin = clients.admin(config)
    made: Sequence[LogPlan] = ()
    if stages is not None:
        others = (each for each in stages.operators if each not in plan.operators)
        plan, made = replace(plan, operators=(*plan.operators, *others)), stages.made_logs
    begins: Offsets = recorded_epochs(config, admin, plan.generations)
    ends: Offsets = {}
    if under_way is not None:
        begins, ends = {**begins, **under_way.begins}, under_way.ends
    logs = {*log_partitions(admin, plan, made)}
    begins = {at: first for at, first in begins.items() if at in logs}
    ends = {at: end for at, end in ends.items() if at in logs}
    if replay_input.from_offsets == "earliest":
        begins = earliest(admin, plan, made)
    elif replay_input.from_offsets is not None:
        begins = {**begins, **parse(replay_input.from_offsets)}
    if replay_input.to_offsets is not None:
        ends = parse(replay_input.to_offsets)
    elif replay_input.as_of_ms is not None:
        ends = as_of(admin, plan, replay_input.as_of_ms, made)
    return resolve(admin, plan, begins, ends, _archive(replay_input.archive), made)


def _raw(config: Config, plan: Plan, wanted: bool) -> Raw | None:
    return Raw.of(config, clients.admin(config), plan) if wanted else None


def _archive(place: str) -> Archive | None:
    return Archive(place) if place else None


@contextmanager
def session_for(module: ModuleType, master: str, memory: str) -> Iterator[SparkSession]:
    """Yield a session whose executors can import the pipeline's module."""
    with spark_session(master, memory) as spark:
        if not str(spark.sparkContext.master).startswith("local"):
            # Remote executors have Tidemark, but not the user's module.
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        yield spark


@contextmanager
def _started(sessions: Sessions) -> Iterator[tuple[SparkSession, float]]:
    """Yield a session and the seconds that its start took."""
    began_s = time.monotonic()
    with sessions() as spark:
        yield spark, time.monotonic() - began_s


def _slices(spark: SparkSession, plan: Plan, ranges: Ranges, requested: int) -> int:
    """Return the key-group slices per log partition: as requested, or by cores if 0."""
    cores = spark.sparkContext.defaultParallelism
    return min(requested or slices_for(plan, ranges, cores), slices_limit(plan))
