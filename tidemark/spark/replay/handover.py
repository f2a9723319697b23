"""Hand-over: Spark replays the logs to an exact cut, and the live services continue from there.

A hand-over has four steps.  It may fail after each of them; a second run completes it.

1. Check: the groups of the services are empty.  The result topics are empty too, unless their
   records are to be deleted.
2. In ONE transaction: delete old state, and mark the offset of every log partition with the run of
   the hand-over.  From now on services refuse to start.
3. Spark's tasks write results and state (handover_tasks.py).  Each task commits its progress in
   its own transactions.  So a repeated task, or a repeated run, skips what is written.
4. In ONE transaction: commit the offsets of all log partitions, at the cut, with the numbers of
   their snapshots.

With ``--from raw``, the group of ingest takes part in every step.  Its offsets stay; its watermarks
become those of ingest run again (tidemark/spark/replay/ingest_position.py).

With chains, it takes part too, because step 3 first writes logs anew (new_logs.py).
"""

import logging
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tidemark.errors import ConfigurationError, StateError
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.plan.topics import own_topics
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.offline_group import commit_for_group, delete_records, require_empty
from tidemark.runtime.client.producer import Record
from tidemark.runtime.client.progress import LogProgress, decode, encode
from tidemark.runtime.client.recorded_program import replayed_program
from tidemark.runtime.client.topics import ensure
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.fresh_start import FreshStart, Scope, partitions_of
from tidemark.runtime.retry import retry
from tidemark.serde.changelog import Commit
from tidemark.spark.outcome import Outcome, read_outcome
from tidemark.spark.progress import OnProgress, Progress, progress_listener
from tidemark.spark.read.live_position import committed_positions, result_topics
from tidemark.spark.read.ranges import Ranges
from tidemark.spark.read.raw import Raw
from tidemark.spark.read.segment_rows import ddl
from tidemark.spark.replay.handover_tasks import (
    REPORTS,
    LiveTopics,
    StateWriter,
    StoredState,
    hand_over_name,
    progress_group,
)
from tidemark.spark.replay.ingest_position import IngestPosition
from tidemark.spark.replay.new_logs import NewLogs, reports_of_stages, require_progress_topics
from tidemark.spark.replay.replay import Replay, one_line_errors
from tidemark.spark.replay.stages import StagesAgain
from tidemark.spark.replay.under_way import HandOverRun, UnderWay

_log = logging.getLogger("tidemark")

_PATIENCE_S = 300.0
_PAUSE_S = 1.0


@dataclass
class HandOver:
    """A hand-over at the end of ``ranges``.

    ``delete_results``: delete the existing results first.  ``raw``: the raw topics, if ingest runs
    again.  ``stages``: those of the plan, which run again.  With one of these two, ``ranges`` must
    be the whole logs.  ``under_way``: the hand-over that is under way.
    """

    config: Config
    admin: AdminClient
    plan: Plan
    ranges: Ranges
    delete_results: bool = False
    raw: Raw | None = None
    stages: StagesAgain | None = None
    under_way: UnderWay | None = None

    @property
    def groups(self) -> dict[str, str]:
        """The consumer group of each keyed service."""
        return {name: self.plan.group(name) for name in self.plan.keyed_services()}

    @property
    def _ingest(self) -> IngestPosition | None:
        if self.raw is None and self.stages is None:
            return None
        return IngestPosition(self.config, self.admin, self.plan, self.raw is not None)

    @property
    def _new_logs(self) -> NewLogs | None:
        if self.stages is None:
            return None
        return NewLogs(
            self.config, self.admin, self.plan, self.ranges, self.stages, self.raw, self.under_way
        )

    def _require_empty(self) -> None:
        ingest = [self._ingest.group] if self._ingest is not None else []
        require_empty(self.admin, [*ingest, *self.groups.values()])

    def check(self) -> HandOverRun | None:
        """Check that the hand-over is possible; return the run to complete, if one is under way.

        Raises:
            ConfigurationError: a group has members, or a result topic has records.
        """
        self._require_empty()
        if self._ingest is not None:
            self._ingest.require_logs(self.ranges)
        ensure(self.admin, own_topics(self.plan), self.config.replication_factor)
        if self.stages is not None:
            require_progress_topics(self.config, self.admin, self.plan)
        if self.delete_results:
            return None
        if self.under_way is not None and self._completes(self.under_way.run):
            self._require_behind(self.under_way.run)
            return self.under_way.run
        names = result_topics(self.plan.operators)
        results = partitions_of(self.admin, names)
        begins = offsets(self.admin, results, EARLIEST)
        for at, end in offsets(self.admin, results, LATEST).items():
            if end > begins[at]:
                raise ConfigurationError(
                    f"{at} has results: a hand-over would write them again; --delete-results "
                    "deletes those of all operators first"
                )
        return None

    def _completes(self, run: HandOverRun) -> bool:
        from_raw = self.raw is not None
        return run.fingerprint == self.plan.fingerprint and run.from_raw == from_raw

    def _require_behind(self, run: HandOverRun) -> None:
        """Require that the first attempt of the run wrote no results beyond the cut.

        Raises:
            ConfigurationError: it did.
        """
        if self.stages is not None:  # it has no other end than that of the logs
            return
        for slice_ in range(run.slices):
            group = progress_group(self.plan.pipeline, slice_)
            for noted in committed_positions(self.config, group, self.ranges.partitions):
                at = Partition(noted.topic, noted.partition)
                if noted.metadata == run.name and noted.offset > self.ranges.ends[at]:
                    raise ConfigurationError(
                        f"{at}: an incomplete hand-over has written results up to offset "
                        f"{noted.offset}, beyond the requested end {self.ranges.ends[at]}; request "
                        "a later end, or --delete-results"
                    )

    def begin(self, slices: int) -> HandOverRun:
        """Delete old state and mark all offsets (step 2); return the new run."""
        if self.delete_results:
            self._delete_results()
        name, from_raw = f"hand-over-{secrets.token_hex(4)}", self.raw is not None
        run = HandOverRun(name, slices, self.plan.fingerprint, from_raw)
        new = self._new_logs
        begun = {} if new is None else new.begun()
        made_of = {at: (self.ranges.begins[at], self.ranges.ends[at]) for at in begun}
        writes: dict[Partition, list[Record]] = {}
        commits: dict[str, list[TopicPartition]] = {}
        for service, group in self.groups.items():
            begins = {**self.ranges.begins, **begun}
            fresh = FreshStart(self.config, self.admin, Scope(self.plan), service, begins)
            commits[group] = [
                msgspec.structs.replace(run, made_of=made_of.get(at)).marked(each, begun.get(at))
                if at in self.ranges.ends
                else each  # a progress topic
                for each in fresh.offsets()
                for at in [Partition(each.topic, each.partition)]
            ]
            for at, records in fresh.records.items():
                writes.setdefault(at, []).extend(records)
        if self._ingest is not None:
            commits[self._ingest.group] = self._ingest.marked(msgspec.json.encode(run).decode())
        name = hand_over_name(self.plan.pipeline)
        commit_for_group(self.config, self.admin, name, writes, commits)
        if new is not None:
            self.under_way = UnderWay(run, made_of, begun)
        return run

    def _delete_results(self) -> None:
        results = partitions_of(self.admin, result_topics(self.plan.operators))
        delete_records(self.admin, offsets(self.admin, results, LATEST))

    def work(self, spark: SparkSession, run: HandOverRun, on_progress: OnProgress) -> list[Outcome]:
        """Write results and state on Spark, then commit the offsets (steps 3 and 4)."""
        raw = self.raw
        if (new := self._new_logs) is not None:
            self.ranges, raw = new.complete(spark, run), None
        logs = self.ranges.partitions
        target = LiveTopics(self.config, self.plan.pipeline, run.name, tuple(logs))
        state_writer = StateWriter(self.plan, self.config, run.name, dict(self.ranges.ends))
        job = Replay(self.plan, self.ranges, run.slices, raw=raw)
        progress = Progress(self.ranges, run.slices, time.monotonic())
        with one_line_errors(), progress_listener(spark, progress, on_progress) as driver:
            state = job.results(spark, self.config, target, driver)
            gathered = state.repartitionById(len(logs), f.col("log"))
            ordered = gathered.sortWithinPartitions("log", "operator", "slice", "chunk")
            rows = ordered.mapInArrow(state_writer, ddl(REPORTS)).collect()
        outcomes = [read_outcome(row.data) for row in rows if not row.stored]
        stored = [msgspec.msgpack.decode(row.data, type=StoredState) for row in rows if row.stored]
        self._commit(stored, outcomes, run)
        return outcomes

    def _commit(self, stored: list[StoredState], outcomes: list[Outcome], run: HandOverRun) -> None:
        """Commit the offsets at the cut, from which the live services continue."""
        numbers = {Partition(each.topic, each.partition): each.sequence for each in stored}
        self._await_empty()
        commits = {
            group: list(self._offsets(service, group, numbers, run))
            for service, group in self.groups.items()
        }
        writes: dict[Partition, list[Record]] = {}
        if self._ingest is not None:
            commits[self._ingest.group] = self._ingest.moved(outcomes)
        if self.stages is not None:
            writes = dict(reports_of_stages(self.config, self.admin, self.plan, outcomes))
        elif self.raw is not None:
            record = replayed_program(self.config, self.admin, self.plan)
            writes[Partition(self.plan.generations, 0)] = [record]
        name = hand_over_name(self.plan.pipeline)
        commit_for_group(self.config, self.admin, name, writes, commits)

    def _await_empty(self) -> None:
        """Wait until the groups are empty; a service that somebody starts refuses and ends.

        Raises:
            ConfigurationError: a group still has members.
        """
        retry(
            self._require_empty,
            lambda error: isinstance(error, ConfigurationError),
            for_s=_PATIENCE_S,
            pause_s=_PAUSE_S,
            on_wait=lambda error: _log.warning("%s, to end the hand-over", error),
        )

    def _offsets(
        self, service: str, group: str, numbers: Mapping[Partition, int], run: HandOverRun
    ) -> Iterator[TopicPartition]:
        """Yield the offsets to commit for a service.

        A log partition without state, because it has no segments, keeps its offset of step 2.

        Raises:
            StateError: an offset lacks the mark of step 2.
        """
        plans = self.plan.of_service(service)
        wanted = [at for at in self.ranges.partitions if at.topic in {p.log for p in plans}]
        for committed in committed_positions(self.config, group, wanted):
            at = Partition(committed.topic, committed.partition)
            past = decode(committed.metadata or "", LogProgress, str(at))
            if not past.handing_over:
                raise StateError(
                    f"{at}: another process has committed an offset during the hand-over"
                )
            offset, progress = committed.offset, msgspec.structs.replace(past, handing_over="")
            if at in numbers:
                names = [each.operator.name for each in plans if each.log == at.topic]
                snapshots = dict.fromkeys(names, numbers[at])
                commit = Commit(numbers[at], run.name, run.name)
                first = self.ranges.begins[at]
                progress = LogProgress(
                    past.version, past.topic_id, *commit, begun=first, snapshots=snapshots
                )
                offset = self.ranges.ends[at]
            yield TopicPartition(*at, offset, metadata=encode(progress))
