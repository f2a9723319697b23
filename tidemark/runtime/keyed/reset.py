"""Reset: a pipeline starts afresh from its raw topics, a service or an operator from its log.

Order of steps (docs/operations.md, "Reset").  A crash may follow any step; a second run completes
the reset.

1. Require that the groups are empty, read the ends of the topics, and show the plan.
2. For a whole pipeline, delete the records of its logs.
3. In ONE transaction, drop state and commit offsets.  State is dropped by empty snapshots, which
   replace everything in the changelogs.  The offsets are committed for a group without members.
4. With ``--delete-results``, delete the results that existed in step 1.

An operator's changelog contains the offset of the log from which the operator continues.  So one
operator can start afresh alone: it catches up with the others, whose offset stays (catch_up.py).

Ingest refuses an operator whose stream has changed.  The reset takes its output out of the recorded
program.  Ingest then builds the changed stream in a new log.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tidemark.partition import Partition
from tidemark.plan.physical import LogPlan, Plan
from tidemark.plan.placement import placed
from tidemark.plan.topics import own_topics
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.generations import records_of_epochs
from tidemark.runtime.client.offline_group import await_empty, commit_for_group, delete_records
from tidemark.runtime.client.producer import Record
from tidemark.runtime.client.progress import VERSION, SourceProgress, encode
from tidemark.runtime.client.recorded_program import (
    AcceptedChanges,
    accepted_changes,
    begun_program,
    recorded_logs,
    recorded_program,
)
from tidemark.runtime.client.topics import ensure, require_raw, short_ids, topic_ids
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.fresh_start import FreshStart, Scope, partitions_of
from tidemark.runtime.keyed.reset_checks import (
    oldest_ms,
    require_no_hand_over,
    require_no_readers,
    require_resettable,
)
from tidemark.runtime.service.stats import instant_text
from tidemark.runtime.wall_clock import now_ms


@dataclass
class Reset:
    """One reset: the constructor reads the topics, ``lines`` shows the plan, ``run`` does it."""

    config: Config
    admin: AdminClient
    scope: Scope
    _raw: dict[str, int] = field(default_factory=dict)  # partitions of raw topics, if they are read
    _logs: list[str] = field(default_factory=list)  # whose records to delete
    _ends: dict[Partition, int] = field(default_factory=dict)  # of the records to delete
    _accepted: AcceptedChanges | None = None

    def __post_init__(self) -> None:
        """Check that the reset can work, and read the ends of the topics.

        Raises:
            ConfigurationError: a group has members, a raw topic is missing, or a log does not have
                what the operators need.
        """
        self._await_empty(self.scope.services)
        if not self.scope.is_whole:  # with empty logs, streams have the names of the compiler
            require_no_hand_over(self.config, self.admin, self.scope.plan)
            compiled = self.scope.plan
            self._place(compiled)
            if self._accepted:
                self._await_empty(["ingest"])
                self._place(compiled)  # ingest may have recorded another program meanwhile
            require_no_readers(self.scope.plan, self.scope.operators)
        if self.scope.is_whole:
            self._raw = require_raw(self.admin, self.scope.plan)
        ensure(self.admin, own_topics(self.scope.plan), self.config.replication_factor)
        if not self.scope.is_whole and self.scope.to == "earliest":
            logs = dict.fromkeys(each.log for each in self.scope.operators)
            require_resettable(
                self.config,
                self.admin,
                self.scope.plan,
                self.scope.operators,
                partitions_of(self.admin, logs),
                delete_results=self.scope.delete_results,
            )
        if self.scope.is_whole:
            self._logs = recorded_logs(self.config, self.admin, self.scope.plan)
        emptied = partitions_of(self.admin, [*self._results(), *self._logs])
        self._ends = offsets(self.admin, emptied, LATEST)

    def _await_empty(self, services: Sequence[str]) -> None:
        await_empty(self.config, self.admin, [*map(self.scope.plan.group, services)])

    def _place(self, compiled: Plan) -> None:
        """Place the plan by the record as it is now, and find the changes to accept."""
        recorded = recorded_program(self.config, self.admin, compiled.generations)
        self.scope = replace(self.scope, plan=placed(compiled, recorded))
        names = [each.name for each in self.scope.operators]
        self._accepted = accepted_changes(self.scope.plan, recorded, names)

    def _results(self) -> list[str]:
        topics = [name for each in self.scope.operators for name in each.topics]
        return [*topics, self.scope.plan.dead_letters] if self.scope.is_whole else topics

    def lines(self) -> Iterator[str]:
        """Yield the plan, a line for each change."""
        scope = self.scope
        where = {"earliest": "the first", "latest": "the end of the"}[scope.to]
        oldest = self._oldest()
        if scope.is_whole:
            for topic in self._raw:
                yield f"read raw topic {topic} from {where} record on{oldest(topic)}"
            for log in self._logs:
                yield f"delete the records of log {log}: {self._count([log])}"
        else:
            if self._accepted:
                outputs = ", ".join(self._accepted.outputs)
                yield f"let the next start of ingest build {outputs} from the raw topics"
            for log in dict.fromkeys(each.log for each in scope.operators):
                yield f"read log {log} from {where} segment on{oldest(log)}"
        for each in scope.operators:
            yield f"drop the state of operator {each.operator.name} in {each.changelog}"
        for topic in self._results():
            what = "delete" if scope.delete_results else "keep"
            yield f"{what} the records of {topic}: {self._count([topic])}"
        if not scope.delete_results:
            yield "new results follow the kept ones; --delete-results deletes them instead"

    def _oldest(self) -> Callable[[str], str]:
        """Return a function that says of what time the first record of a topic is."""
        if self.scope.to == "latest":
            return lambda _: ""
        topics = self._raw or [each.log for each in self.scope.operators]
        partitions = partitions_of(self.admin, dict.fromkeys(topics))
        found = oldest_ms(self.config, self.admin, partitions)
        return lambda name: f", which is of {instant_text(found[name])}" if name in found else ""

    def _count(self, topics: Sequence[str]) -> str:
        partitions = partitions_of(self.admin, topics)
        begins = offsets(self.admin, partitions, EARLIEST)
        return f"{sum(self._ends[at] - begins[at] for at in partitions):,} offsets"

    def run(self) -> None:
        """Reset: do all steps of the plan."""
        self._delete(self._logs)
        writes: dict[Partition, list[Record]] = {}
        commits: dict[str, list[TopicPartition]] = {}
        if self.scope.is_whole:
            commits[self.scope.plan.group("ingest")] = self._raw_offsets()
            logs = {at: self._ends[at] for at in partitions_of(self.admin, self._logs)}
            writes[Partition(self.scope.plan.generations, 0)] = [
                begun_program(self.config, self.admin, self.scope.plan),
                *records_of_epochs(self.admin, logs),
            ]
        elif self._accepted:
            writes[Partition(self.scope.plan.generations, 0)] = [self._accepted.record]
        for service in self.scope.services:
            if service != "ingest":
                fresh = FreshStart(self.config, self.admin, self.scope, service)
                commits[self.scope.plan.group(service)] = fresh.offsets()
                for at, records in fresh.records.items():
                    writes.setdefault(at, []).extend(records)
        name = f"{self.scope.plan.pipeline}.reset"
        commit_for_group(self.config, self.admin, name, writes, commits)
        if self.scope.delete_results:
            self._delete(self._results())

    def _raw_offsets(self) -> list[TopicPartition]:
        ids = topic_ids(self.admin, self._raw)
        spec = EARLIEST if self.scope.to == "earliest" else LATEST
        starts = offsets(self.admin, partitions_of(self.admin, self._raw), spec)
        log_ids = short_ids(self.admin, [log.topic for log in self.scope.plan.logs])
        return [
            TopicPartition(
                *at,
                offset,
                metadata=encode(
                    SourceProgress(
                        VERSION,
                        ids[at.topic],
                        offset,
                        silent_since_ms=now_ms(),
                        logs=[log_ids[log.topic] for log in self._fed_by(at.topic)],
                    )
                ),
            )
            for at, offset in starts.items()
        ]

    def _fed_by(self, topic: str) -> list[LogPlan]:
        return [log for log in self.scope.plan.logs if log.reads(topic)]

    def _delete(self, topics: Sequence[str]) -> None:
        """Delete the records that existed when the reset was planned."""
        delete_records(self.admin, {at: self._ends[at] for at in partitions_of(self.admin, topics)})
