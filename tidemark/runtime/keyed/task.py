"""A keyed service on Kafka: it processes segments, publishes results, keeps state in changelogs.

One commit, in this order and, by default, in one transaction (docs/operations.md, "Guarantees"):

1. panes and late rows, while segments are processed, to the same partition number as the log's;
2. the changelog of every operator of every log partition that moved, with the clock table;
3. last of all records, what operators hand on to others: rows, reports and marks (handing_on.py,
   announcements.py);
4. the offsets of those log partitions, with the commit's name and the topic id as metadata.

With at-most-once, the offsets come first (client/commit.py).

A log partition is read only after its state was restored (restore.py).  The start of a new log
partition is committed before anything is written for it.  Changelog records that no committed
offset names belong to no commit, and a restore skips them.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from confluent_kafka import TopicPartition

from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.plan.topics import own_topics
from tidemark.runtime.backends.backend import opened_backend
from tidemark.runtime.backends.database import LocalStoreError
from tidemark.runtime.client.batches import by_partition
from tidemark.runtime.client.consumer import Start
from tidemark.runtime.client.generations import Generation, Key, newest_generations
from tidemark.runtime.client.progress import encode
from tidemark.runtime.client.recorded_program import require_same_chains
from tidemark.runtime.client.silence import EndOffsets
from tidemark.runtime.client.topics import ensure, topic_ids
from tidemark.runtime.config import Config
from tidemark.runtime.faults import as_typed
from tidemark.runtime.keyed.announcements import Announcements, topics_of
from tidemark.runtime.keyed.catch_up import CatchUp
from tidemark.runtime.keyed.encoders import encoders
from tidemark.runtime.keyed.handing_on import opened_handing_on
from tidemark.runtime.keyed.log_partition import KeyedOperators, LogPartition, segments_of
from tidemark.runtime.keyed.observed import LastMoved
from tidemark.runtime.keyed.operator_starts import begin_operators, stop_without_results
from tidemark.runtime.keyed.restore import Restore
from tidemark.runtime.keyed.restore_progress import ChangelogProgress
from tidemark.runtime.keyed.shown import account_of, operator_figures, trouble_lines
from tidemark.runtime.messages.received import ReceivedMessage
from tidemark.runtime.service.commit_interval import following
from tidemark.runtime.service.idle import idle
from tidemark.runtime.service.process import Process
from tidemark.runtime.service.stats import Account
from tidemark.runtime.service.trouble_log import TroubleLog
from tidemark.runtime.wall_clock import now_ms

_log = logging.getLogger("tidemark")

_CATCH_UP_S = 0.1  # of each turn of the loop

_LOG_SEGMENTS = 64
"""How many segments of each log partition a turn takes at most, on average.

A step costs each operator of a log partition some ms whatever it holds, so a process that is behind
takes several segments of each in one step.
"""


@dataclass
class KeyedTask:
    """The work of a keyed service: all operators of the service, on its log partitions."""

    config: Config
    operators: KeyedOperators
    process: Process
    gathers: bool = False
    _logs: dict[Partition, LogPartition] = field(default_factory=dict)
    _moved: set[Partition] = field(default_factory=set)
    _stepped: set[Partition] = field(default_factory=set)
    _restores: list[Restore] = field(default_factory=list)
    _next: dict[Partition, int] = field(default_factory=dict)  # while segments are in progress
    _catch_ups: dict[Partition, CatchUp] = field(default_factory=dict)
    _generations: Mapping[Key, Generation] = field(default_factory=dict)
    _stepped_over_reports: bool = False

    def __post_init__(self) -> None:
        self._ends = EndOffsets(self.process.admin)
        self._last_moved = LastMoved()
        self._trouble_log = TroubleLog()
        self._ahead = self.config.guarantee == "at-most-once"
        self._certain = self.config.guarantee == "exactly-once"
        plan, plans = self.operators.plan, self.operators.plans
        self._announcements = Announcements(plan, plans, may_lack_marks=self._ahead)

    @property
    def batch(self) -> int:
        """The largest number of messages in a turn."""
        return _LOG_SEGMENTS * max(1, len(self._logs))

    def starting(self, starts: Sequence[Start]) -> Sequence[Start]:
        """Return where partitions start."""
        return self._announcements.starting(self.process.admin, starts)

    def assigned(self, starts: Sequence[Start]) -> None:
        """Begin to restore new log partitions; they are paused until that is done."""
        ids = topic_ids(self.process.admin, {start.partition.topic for start in starts})
        logs = {
            at: LogPartition.from_commit(start, ids[at.topic], self.operators)
            for start in starts
            if not self._announcements.covers(at := start.partition)
        }
        self._logs |= logs
        self.process.member.pause(list(logs))
        self._generations = newest_generations(
            self.config, self.process.admin, self.operators.plan.generations
        )
        others = [start for start in starts if start.partition not in logs]
        self._announcements.assigned(others, ids, self._generations)
        if logs:
            self._restore(list(logs.values()))

    def _restore(self, logs: Sequence[LogPartition]) -> None:
        stop_without_results(self.process.admin, logs, self._generations)
        requests = [log.request(self._generations) for log in logs]
        backend = self.operators.backend
        self._restores.append(Restore(self.config, self.process.admin, requests, backend))

    def dropped(self, partitions: Sequence[Partition]) -> None:
        """Forget log partitions that other processes own now."""
        self._mirror()
        self._announcements.dropped(self.process.admin, partitions)
        self._stepped.difference_update(partitions)
        for partition in partitions:
            log = self._logs.pop(partition, None)
            if log is not None:
                log.close()
            if partition in self._catch_ups:
                self._catch_ups.pop(partition).close()
            for restore in self._restores:
                restore.drop(partition)

    def _mirror(self) -> None:
        """Mirror the last commit: work that follows it proves that it succeeded."""
        for log in self._logs.values():
            log.committed(markers=int(self._certain))

    def take(self, messages: Sequence[ReceivedMessage]) -> None:
        """Process segments with the operators of their log; commit in between where it is due."""
        found = by_partition(messages, self.process.topics)
        for at in [*filter(self._announcements.covers, found)]:
            self._announcements.read(at, found.pop(at))
        self._next = {at: each[0].offset() or 0 for at, each in found.items()}
        for at, each in found.items():
            for segments in segments_of(at, each):
                for position in self._logs[at].take(segments, self.process.outbox):
                    self._next[at] = position
                    self._moved.add(at)
                    self._settle_if_full()
            self._moved.add(at)
            del self._next[at]

    def _settle_if_full(self) -> None:
        is_full = self.process.outbox.is_full or self.operators.hold_many_rows
        if is_full and not self._ahead:
            self.process.settle_within_take()

    def _position(self, at: Partition) -> int:
        """Return the position to commit: the one of the member, but for segments in progress."""
        return self._next.get(at, self.process.member.positions[at])

    def tick(self) -> None:
        """Continue restores; note positions that moved over transaction markers."""
        self._mirror()
        for restore in list(self._restores):
            self._step(restore)
            if restore.done:
                self._restores.remove(restore)
                self._finish(restore)
        self._catch_up()
        self._report_troubles()
        positions = self.process.member.positions
        if positions and self._ends.poll(positions, now_ms()) is not None:
            self.process.member.refresh_positions()
            self._stepped_over_reports = self._announcements.stepped(positions)
            self._stepped |= {
                at for at, log in self._logs.items() if positions[at] > log.offset >= 0
            }

    def _step(self, restore: Restore) -> None:
        """Continue a restore; begin again without mirrors if one of them cannot be used."""
        try:
            restore.step()
        except LocalStoreError as error:
            if restore.mirrors.are_empty:
                raise
            _log.warning("state is restored from Kafka alone: %s", error)
            restore.mirrors.discard()
            restore.close()
            self._restores.remove(restore)
            logs = [self._logs[request.log] for request in restore.requests]
            for log in logs:
                log.operators = self.operators.on(log.at)
            self._restore(logs)

    def _finish(self, restore: Restore) -> None:
        restore.close()
        logs = [self._logs[request.log] for request in restore.requests]
        known = {log.at: dict(log.past.apart) for log in logs}
        for log, request in zip(logs, restore.requests, strict=True):
            log.restored(restore, request, certain=self._certain)
        begin_operators(self.process.admin, logs, self._generations)
        for log in logs:
            if log.offset < 0 or log.past.apart != known[log.at] or log.hands_on:
                self._stepped.add(log.at)
        self.process.settle()
        self.process.member.resume([log.at for log in logs if not log.is_stopped])

    def _catch_up(self) -> None:
        """Let operators that lag process the next segments."""
        positions = self.process.member.positions
        restoring = {request.log for restore in self._restores for request in restore.requests}
        for at, log in self._logs.items():
            if at in restoring or not log.lagging:
                continue
            if at not in self._catch_ups:
                self._catch_ups[at] = CatchUp(self.config, log, positions[at], _LOG_SEGMENTS)
            for _ in self._catch_ups[at].step(positions[at], self.process.outbox, _CATCH_UP_S):
                self._moved.add(at)
                self._settle_if_full()
            if not log.lagging:
                self._catch_ups.pop(at).close()

    def _report_troubles(self) -> None:
        """Log which operators have stopped.

        Raises:
            StateError: no operator of this process works.
        """
        lines = self._trouble_lines()
        if lines and not self._restores and all(log.is_stopped for log in self._logs.values()):
            raise StateError("; ".join(lines))
        self._trouble_log.report(lines, time.monotonic())

    def _trouble_lines(self) -> list[str]:
        service = self.process.name.rpartition(".")[2]
        where = self.config.pipeline, service, self.config.bootstrap_servers
        return [as_typed(line, *where) for line in trouble_lines(self._logs.values())]

    @property
    def restoring(self) -> Sequence[ChangelogProgress]:
        """Return the progress of each changelog in a restore."""
        return [each for restore in self._restores for each in restore.progress]

    def checkpoint(self) -> Sequence[TopicPartition]:
        """Write changelogs; return the offsets of the log partitions that moved."""
        self._mirror()
        for at in sorted(self._moved):
            self._logs[at].checkpoint(
                self.process.outbox, self._position(at), ahead=self._ahead, certain=self._certain
            )
            if self._logs[at].is_stopped:
                self.process.member.pause([at])
        offsets = []
        moved = sorted(self._moved | self._stepped)
        for at in moved:
            log = self._logs[at]
            log.offset = self._position(at)
            offsets.append(TopicPartition(*at, log.offset, metadata=encode(log.past)))
        self._moved.clear()
        self._stepped.clear()
        return [*offsets, *self._hand_on(moved)]

    def _hand_on(self, moved: Sequence[Partition]) -> Sequence[TopicPartition]:
        """Write what operators hand on; return the offsets of progress topics."""
        handing_on = self.operators.handing_on
        if handing_on is not None:
            reports = [report for at in moved for report in self._logs[at].progress()]
            handing_on.write(self.process.outbox, reports)
            if self._certain:
                self._announcements.hear(reports)
            if handing_on.holds_reports:
                self._stepped.update(moved)
        commits, self._stepped_over_reports = bool(moved) or self._stepped_over_reports, False
        outbox, positions = self.process.outbox, self.process.member.positions
        return self._announcements.write(outbox, positions, commits=commits)

    def committed(self, now_ms: int) -> None:
        """Count how old the results are that the commit has shown."""
        for tally in self.operators.tallies.values():
            tally.committed(now_ms)

    def waits(self) -> Sequence[str]:
        """Return a text for each changelog that is not restored yet, with its progress."""
        waiting = {at for restore in self._restores for at in restore.waits_for}
        why = ", waiting for an open transaction"
        restoring = [f"restoring {each}{why * (each.at in waiting)}" for each in self.restoring]
        return [*restoring, *self._trouble_lines()]

    def figures(self) -> Mapping[str, object]:
        """Return counts since the start and the lowest clock per operator, and the lag."""
        positions = {**self.process.member.positions, **self._behind()}
        shown = operator_figures(self.operators.tallies, self._logs.values())
        return {**shown, "lag": self._ends.lag(positions)}

    def _behind(self) -> dict[Partition, int]:
        """Return the lowest next offset of operators that catch up, by log partition."""
        return {
            at: min(each.task.next_offset for each in log.lagging)
            for at, log in self._logs.items()
            if log.lagging
        }

    def account(self, now_ms: int) -> Account:
        """Return counts since the start, clocks and state of each operator, and restores."""
        restoring = {request.log for restore in self._restores for request in restore.requests}
        ready = [log for at, log in sorted(self._logs.items()) if at not in restoring]
        return account_of(
            self.operators,
            ready,
            self.restoring,
            self._ends,
            self._behind(),
            self._last_moved,
            now_ms,
        )


def run(config: Config, plan: Plan, service: str) -> None:
    """Run a keyed service of a pipeline until a signal stops it."""
    if not plan.of_service(service):
        idle(config, plan, service)
        return
    with closing(opened_backend(config)) as backend:
        settings = following(config)
        process = Process(settings, plan, service, lambda _, plan: topics_of(plan, service))
        require_same_chains(process.plan, process.recorded)
        ensure(process.admin, own_topics(process.plan), config.replication_factor)
        operators = process.plan.of_service(service)
        encoding = encoders(config, operators)
        certain = config.guarantee == "exactly-once"
        handing_on = opened_handing_on(
            config, process.admin, process.plan, operators, certain=certain
        )
        keyed = KeyedOperators(config, operators, process.plan, backend, encoding, handing_on)
        process.run(KeyedTask(config, keyed, process))
