"""A keyed service on Kafka: segments in, panes and late rows out, state in changelogs.

One commit, in this order and, by default, in one transaction (docs/operations.md, "Guarantees"):

1. panes and late rows, as the segments are worked on, to the partition number of the log;
2. the changelog of every operator of every log partition that moved, with its clock table;
3. the offsets of those log partitions, with the commit's name and the topic id as metadata.

A log partition is read only after its state was restored (runtime/keyed/restore.py).  A new one is
committed, at its start, before anything is written for it: what the changelogs have from then on
without a commit to it is known to mean nothing.
"""

import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime

from confluent_kafka import Message, TopicPartition

from tidemark.core.time.segment import NEVER_MS
from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.runtime.backends.backend import Backend, opened_backend
from tidemark.runtime.backends.database import LocalStoreError
from tidemark.runtime.client.batches import by_partition
from tidemark.runtime.client.consumer import Start
from tidemark.runtime.client.progress import VERSION, LogProgress, check_topic, decode, encode
from tidemark.runtime.client.silence import EndOffsets
from tidemark.runtime.client.topics import ensure, own_topics, topic_ids
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.changelog import SnapshotRule
from tidemark.runtime.keyed.encoders import Encoder, encoders
from tidemark.runtime.keyed.last_moved import LastMoved
from tidemark.runtime.keyed.restore import Restore, Wanted
from tidemark.runtime.keyed.restore_progress import Shown
from tidemark.runtime.keyed.running import Running, Tally
from tidemark.runtime.service.process import Process
from tidemark.runtime.service.stats import Account, OperatorStats, RestoreStats, clock_sources
from tidemark.runtime.wall_clock import now_ms
from tidemark.serde.changelog import Commit
from tidemark.serde.segments import segment_at, together

_log = logging.getLogger("tidemark")

_YEAR_10000_MS = 253_402_300_800_000


@dataclass
class OwnedLog:
    """One log partition that this process owns."""

    offset: int  # the committed one, -1 where nothing is
    past: LogProgress
    running: Sequence[Running]

    @property
    def commit(self) -> Commit:
        """The last commit of the changelogs."""
        return Commit(self.past.sequence, self.past.writer, self.past.previous)

    def passed(self, commit: Commit, *, ahead: bool, certain: bool) -> None:
        """Stand after a commit; ``certain``: nothing is in the changelogs that is not committed."""
        snapshots = {
            running.plan.operator.name: running.snapshot
            for running in self.running
            if certain and running.snapshot is not None
        }
        topic_id, begun = self.past.topic_id, self.past.begun
        self.past = LogProgress(VERSION, topic_id, *commit, begun, ahead, snapshots)

    def wanted(self, log: Partition) -> Wanted:
        """Return what must be read back."""
        fresh = self.offset < 0
        changelogs = {
            running.changelog: running.reading(
                0 if fresh else self.past.snapshots.get(running.plan.operator.name)
            )
            for running in self.running
        }
        return Wanted(log, self.offset, self.commit, self.past.ahead, changelogs)


@dataclass
class KeyedTask:
    """The work of a keyed service; ``operators`` are those it runs."""

    config: Config
    operators: Sequence[OperatorPlan]
    process: Process
    backend: Backend
    results: Mapping[str, Encoder]
    batch: int = 64
    gathers: bool = False
    _logs: dict[Partition, OwnedLog] = field(default_factory=dict)
    _moved: set[Partition] = field(default_factory=set)
    _stepped: set[Partition] = field(default_factory=set)
    _restores: list[Restore] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ends = EndOffsets(self.process.admin)
        self._tallies = {plan.operator.name: Tally() for plan in self.operators}
        self._rule = SnapshotRule(self.config.snapshot_commits, self.config.snapshot_bytes)
        self._last_moved = LastMoved()
        self._writer = secrets.token_hex(6)
        self._ahead = self.config.guarantee == "at-most-once"
        self._certain = self.config.guarantee == "exactly-once"

    def assigned(self, starts: Sequence[Start]) -> None:
        """Begin to restore new log partitions; they are not read until that is done."""
        ids = topic_ids(self.process.admin, {start.partition.topic for start in starts})
        for start in starts:
            self._logs[start.partition] = self._log(start, ids[start.partition.topic])
        wanted = [self._logs[start.partition].wanted(start.partition) for start in starts]
        self.process.member.pause([start.partition for start in starts])
        self._restores.append(Restore(self.config, self.process.admin, wanted, self.backend))

    def _log(self, start: Start, topic_id: str) -> OwnedLog:
        offset = -1 if start.metadata is None else start.offset
        return OwnedLog(offset, past_of(start, topic_id), self._running(start.partition))

    def _running(self, at: Partition) -> list[Running]:
        return [
            Running(
                plan,
                at.number,
                self._rule,
                self._writer,
                self.backend.store,
                self.results[plan.operator.name],
            )
            for plan in self.operators
            if plan.log == at.topic
        ]

    def dropped(self, partitions: Sequence[Partition]) -> None:
        """Forget log partitions that others own now."""
        self._mirror()
        for partition in partitions:
            log = self._logs.pop(partition, None)
            for running in log.running if log is not None else ():
                running.close()
            for restore in self._restores:
                restore.drop(partition)

    def _mirror(self) -> None:
        """Mirror the last commit: whoever asks for more after it knows that it succeeded."""
        for log in self._logs.values():
            for running in log.running:
                running.committed(markers=int(self._certain))

    def take(self, messages: Sequence[Message]) -> None:
        """Run segments through the operators of their log."""
        topics = {plan.log for plan in self.operators}
        for at, found in by_partition(messages, topics).items():
            for values in together((m.offset() or 0, m.value() or b"") for m in found):
                segments = [(offset, segment_at(at, offset, value)) for offset, value in values]
                for running in self._logs[at].running:
                    tally = self._tallies[running.plan.operator.name]
                    running.take(segments, self.process.outbox, tally)
            self._moved.add(at)

    def tick(self) -> None:
        """Go on restoring; step over what only the broker sees."""
        self._mirror()
        for restore in list(self._restores):
            self._step(restore)
            if restore.done:
                self._restores.remove(restore)
                self._finish(restore)
        if self._logs and self._ends.poll(self._logs, now_ms()) is not None:
            self.process.member.refresh_positions()
            positions = self.process.member.positions
            self._stepped |= {
                at for at, log in self._logs.items() if positions[at] > log.offset >= 0
            }

    def _step(self, restore: Restore) -> None:
        """Go on restoring; begin again without mirrors that are of no use."""
        try:
            restore.step()
        except LocalStoreError as error:
            if restore.mirrors.are_empty:
                raise
            _log.warning("state is restored from Kafka alone: %s", error)
            restore.mirrors.discard()
            restore.close()
            self._restores.remove(restore)
            logs = {want.log: self._logs[want.log] for want in restore.wanted}
            for at, log in logs.items():
                log.running = self._running(at)
            wanted = [log.wanted(at) for at, log in logs.items()]
            self._restores.append(Restore(self.config, self.process.admin, wanted, self.backend))

    def _finish(self, restore: Restore) -> None:
        restore.close()
        for want in restore.wanted:
            log = self._logs[want.log]
            (commit,) = {
                running.restored(
                    want.changelogs[running.changelog], restore.mirrors.pop(running.changelog)
                )
                for running in log.running
            }
            log.passed(commit, ahead=False, certain=self._certain)
            if log.offset < 0:
                self._stepped.add(want.log)
        self.process.settle()
        self.process.member.resume([want.log for want in restore.wanted])

    @property
    def restoring(self) -> Sequence[Shown]:
        """Return how far each changelog is that is being read back."""
        return [shown for restore in self._restores for shown in restore.shown]

    def checkpoint(self) -> Sequence[TopicPartition]:
        """Write changelogs; return the offsets of the log partitions that moved."""
        self._mirror()
        for at in sorted(self._moved):
            log, position = self._logs[at], self.process.member.positions[at]
            (commit,) = {
                running.checkpoint(self.process.outbox, position) for running in log.running
            }
            log.passed(commit, ahead=self._ahead, certain=self._certain)
        offsets = []
        for at in sorted(self._moved | self._stepped):
            log = self._logs[at]
            log.offset = self.process.member.positions[at]
            offsets.append(TopicPartition(*at, log.offset, metadata=encode(log.past)))
        self._moved.clear()
        self._stepped.clear()
        return offsets

    def waits(self) -> Sequence[str]:
        """Return which state is still to be restored, and how far it is."""
        open_at = {at for restore in self._restores for at in restore.waits_for}
        return [
            f"restoring {shown}" + (", waiting for an open transaction" * (shown.at in open_at))
            for shown in self.restoring
        ]

    def figures(self) -> Mapping[str, object]:
        """Return counts since the start, the lag, and the lowest clock, per operator."""
        shown: dict[str, object] = {}
        for name, tally in self._tallies.items():
            prefix = f"{name}." if len(self._tallies) > 1 else ""
            shown[f"{prefix}rows"] = tally.rows
            shown[f"{prefix}accepted"] = tally.rows - tally.late
            shown[f"{prefix}late"] = tally.late
            shown[f"{prefix}panes"] = tally.panes
            shown[f"{prefix}clock"] = _shown(self._clocks(name))
        return {**shown, "lag": self._ends.lag(self.process.member.positions)}

    def account(self, now_ms: int) -> Account:
        """Return counts since the start, clocks and state of each operator, and restores."""
        tallies = self._tallies.values()
        return Account(
            rows_in=sum(tally.rows for tally in tallies),
            rows_out=sum(tally.panes for tally in tallies),
            ends=self._ends.known,
            late=sum(tally.late for tally in tallies),
            dead_letters=sum(tally.dead for tally in tallies),
            operators=[self._operator_stats(plan, now_ms) for plan in self.operators],
            restores=[
                RestoreStats(shown.at.topic, shown.at.number, shown.done, shown.total, shown.eta_s)
                for shown in self.restoring
            ],
        )

    def _operator_stats(self, plan: OperatorPlan, now_ms: int) -> OperatorStats:
        tally = self._tallies[plan.operator.name]
        restoring = {want.log for restore in self._restores for want in restore.wanted}
        running = [
            each
            for at, log in sorted(self._logs.items())
            if at not in restoring
            for each in log.running
            if each.plan is plan
        ]
        clocks = [each.clocks for each in running]
        lowest = min(clocks, key=lambda clock: clock.clock_ms, default=None)
        return OperatorStats(
            plan.operator.name,
            plan.log,
            tally.rows,
            tally.late,
            tally.panes,
            [each.clock_stats(self._last_moved, now_ms) for each in running],
            [] if lowest is None else clock_sources(lowest),
        )

    def _clocks(self, name: str) -> Iterable[int]:
        for log in self._logs.values():
            for running in log.running:
                if running.plan.operator.name == name:
                    yield running.clocks.clock_ms


def past_of(start: Start, topic_id: str, *, by_spark: bool = False) -> LogProgress:
    """Return how far the last owner of a log partition got.

    Raises:
        StateError: what is committed is of no use, or the log partition is Spark's.
    """
    at = start.partition
    if start.metadata is None:
        return LogProgress(VERSION, topic_id, begun=start.offset)
    if not start.metadata:
        raise StateError(
            f"{at}: the committed offset {start.offset} has lost its metadata, so nobody knows "
            "which state belongs to it; 'tidemark reset PIPELINE --service SERVICE' starts the "
            "service afresh from its log"
        )
    past = decode(start.metadata, LogProgress, str(at))
    check_topic(past, topic_id, str(at))
    if past.handing_over:
        raise StateError(
            f"{at}: a hand-over from Spark is under way; where it has ended without success, "
            "'tidemark replay PIPELINE --into-live' completes it, or 'tidemark reset PIPELINE "
            "--service SERVICE --delete-results' starts the service afresh"
        )
    if past.on_spark and not by_spark:
        raise StateError(
            f"{at}: Spark works on it; end 'tidemark run --on spark PIPELINE', or where that was "
            "killed, give it back with --release"
        )
    return past


def _shown(clocks: Iterable[int]) -> str:
    lowest_ms = min(clocks, default=NEVER_MS)
    if not 0 <= lowest_ms < _YEAR_10000_MS:
        return "-" if lowest_ms == NEVER_MS else str(lowest_ms)
    return datetime.fromtimestamp(lowest_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _following(config: Config) -> Config:
    """Return the settings with a shorter interval between commits than that of ingest.

    Segments come when ingest commits.  At the same interval the two drift apart, and segments wait
    for up to all of it; at a shorter one a commit is due whenever they come, and not more often.
    """
    interval_ms = max(1, config.commit_interval_ms * 3 // 4)
    return config.model_copy(update={"commit_interval_ms": interval_ms})


def run(config: Config, plan: Plan, service: str) -> None:
    """Run a keyed service of a pipeline until it is told to stop."""
    operators = plan.of_service(service)
    logs = sorted({operator.log for operator in operators})
    with closing(opened_backend(config)) as backend:
        process = Process(_following(config), plan.pipeline, service, logs)
        ensure(process.admin, own_topics(plan), config.replication_factor)
        results = encoders(config, operators)
        process.run(KeyedTask(config, operators, process, backend, results))
