"""A keyed service on Kafka: segments in, panes and late rows out, state in changelogs.

One commit, in this order and, by default, in one transaction (docs/operations.md, "Guarantees"):

1. panes and late rows, as the segments are worked on, to the partition number of the log;
2. the changelog of every operator of every log partition that moved, with its clock table;
3. the offsets of those log partitions, with the commit's name and the topic id as metadata.

A log partition is read only after its state was restored (runtime/restore.py).  A new one is
committed, at its start, before anything is written for it: what the changelogs have from then on
without a commit to it is known to mean nothing.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Message, TopicPartition

from tidemark.core.block_store import BlockStore
from tidemark.core.clock import ClockTable
from tidemark.core.segment import NEVER_MS, Segment
from tidemark.errors import StateError
from tidemark.plan import OperatorPlan, Plan
from tidemark.runtime.backends.backend import Backend, opened_backend
from tidemark.runtime.changelog import Changelog, SnapshotRule
from tidemark.runtime.commit import Outbox
from tidemark.runtime.config import Config
from tidemark.runtime.group import Partition, Start
from tidemark.runtime.journal import Journal
from tidemark.runtime.oversized import Keys, Values, parted
from tidemark.runtime.process import Process, now_ms
from tidemark.runtime.progress import VERSION, LogProgress, check_topic, decode, encode
from tidemark.runtime.restore import Reading, Rebuilding, Restore, Wanted
from tidemark.runtime.restore_progress import Shown
from tidemark.runtime.serde.avro_results import AvroResults
from tidemark.runtime.serde.changelog import Commit
from tidemark.runtime.serde.dead_letters import encode_dead_letters
from tidemark.runtime.serde.json_results import JsonResults
from tidemark.runtime.serde.segments import decode_segment
from tidemark.runtime.silence import Ends
from tidemark.runtime.topics import ensure, own_topics, topic_ids

_YEAR_10000_MS = 253_402_300_800_000


@dataclass
class Tally:
    """What an operator did since the start: rows = accepted + late."""

    rows: int = 0
    late: int = 0
    panes: int = 0


class Running:
    """One operator on one log partition: clocks, state, and their changelog.

    ``next_offset``: what it takes next of the log; what lies before was taken already, when the
    partition is read again for the sake of another operator.
    """

    def __init__(
        self,
        plan: OperatorPlan,
        partition: int,
        rule: SnapshotRule,
        writer: str,
        store: BlockStore,
    ) -> None:
        """Start with nothing read; ``writer`` names this process in the changelog."""
        self.plan = plan
        self.clocks: ClockTable = plan.operator.clocks()
        self.state: Any = plan.operator.body.fresh(store)
        self.next_offset = 0
        self._partition = partition
        self._results = results_of(plan)
        self._changelog = Changelog(rule, writer, plan.parts)

    @property
    def snapshot(self) -> int | None:
        """Return the sequence number of the newest whole snapshot, if all since is committed."""
        return self._changelog.snapshot

    @property
    def changelog(self) -> Partition:
        """The changelog's partition."""
        return Partition(self.plan.changelog, self._partition)

    def reading(self, snapshot: int | None) -> Reading:
        """Return what is to be read back; ``snapshot`` as in ``Journal``."""
        name = self.plan.operator.name
        journal = Journal(str(self.changelog), name, self.plan.parts, snapshot)
        return Reading(journal, Rebuilding(self.state, self.clocks))

    def restored(self, reading: Reading) -> Commit:
        """Go on where what was read back ends; return that commit."""
        self.state.purge(self.clocks.clock_ms)
        self.next_offset = reading.rebuilding.next_offset
        reading.journal.resume(self._changelog)
        return self._changelog.last

    def step(self, segment: Segment, outbox: Outbox, tally: Tally) -> None:
        """Work on a segment and write what it gave."""
        output = self.plan.operator.step(segment, self.clocks, self.state)
        tally.rows += output.rows
        tally.late += output.late.height
        tally.panes += output.panes.height
        if output.panes.height:
            self._publish(*self._results.panes(output.panes), outbox)
        if output.late.height:
            keys, values = self._results.late(output.late)
            outbox.write(self.plan.late, self._partition, keys, values)

    def _publish(self, keys: Keys, values: Values, outbox: Outbox) -> None:
        """Write panes; those that fit no message become dead letters."""
        keys, values, letters = parted(self.plan.results, self._partition, keys, values)
        if letters:
            outbox.write(self.plan.dead_letters, 0, *encode_dead_letters(letters))
        outbox.write(self.plan.results, self._partition, keys, values)

    def checkpoint(self, outbox: Outbox, position: int) -> Commit:
        """Write what changed since the last commit; return the commit's name."""
        self.next_offset = max(self.next_offset, position)
        self.state.purge(self.clocks.clock_ms)
        records = self._changelog.commit(self.state, self.clocks.state(), self.next_offset)
        keys, values = zip(*records, strict=True)
        outbox.write(self.plan.changelog, self._partition, keys, values)
        return self._changelog.last


def results_of(plan: OperatorPlan) -> JsonResults | AvroResults:
    """Return what encodes an operator's panes and late rows."""
    operator = plan.operator
    if plan.format == "json":
        return JsonResults(operator.key, list(plan.values), list(operator.columns))
    key = {name: operator.columns[name] for name in operator.key}
    return AvroResults(plan.results, key, plan.values, operator.columns, plan.identity)


@dataclass
class _Log:
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
        self.past = LogProgress(VERSION, self.past.topic_id, *commit, ahead, snapshots)

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
    batch: int = 64
    gathers: bool = False
    _logs: dict[Partition, _Log] = field(default_factory=dict)
    _moved: set[Partition] = field(default_factory=set)
    _stepped: set[Partition] = field(default_factory=set)
    _restores: list[Restore] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ends = Ends(self.process.admin)
        self._tallies = {plan.operator.name: Tally() for plan in self.operators}
        self._rule = SnapshotRule(self.config.snapshot_commits, self.config.snapshot_bytes)
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
        self._restores.append(Restore(self.config, self.process.admin, wanted))

    def _log(self, start: Start, topic_id: str) -> _Log:
        at = start.partition
        running = [
            Running(plan, at.number, self._rule, self._writer, self.backend.store)
            for plan in self.operators
            if plan.log == at.topic
        ]
        offset = -1 if start.metadata is None else start.offset
        return _Log(offset, _past(start, topic_id), running)

    def dropped(self, partitions: Sequence[Partition]) -> None:
        """Forget log partitions that others own now."""
        for partition in partitions:
            self._logs.pop(partition, None)
            for restore in self._restores:
                restore.drop(partition)

    def take(self, messages: Sequence[Message]) -> None:
        """Run segments through the operators of their log."""
        for message in messages:
            at = Partition(message.topic() or "", message.partition() or 0)
            offset = message.offset() or 0
            segment = decode_segment(message.value() or b"")
            for running in self._logs[at].running:
                if offset < running.next_offset:
                    continue
                tally = self._tallies[running.plan.operator.name]
                running.step(segment, self.process.outbox, tally)
            self._moved.add(at)

    def tick(self) -> None:
        """Go on restoring; step over what only the broker sees."""
        for restore in list(self._restores):
            restore.step()
            if restore.done:
                self._restores.remove(restore)
                self._finish(restore)
        if self._logs and self._ends.poll(self._logs, now_ms()) is not None:
            self.process.member.refresh_positions()
            positions = self.process.member.positions
            self._stepped |= {
                at for at, log in self._logs.items() if positions[at] > log.offset >= 0
            }

    def _finish(self, restore: Restore) -> None:
        restore.close()
        for want in restore.wanted:
            log = self._logs[want.log]
            (commit,) = {
                running.restored(want.changelogs[running.changelog]) for running in log.running
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
        positions = self.process.member.positions
        lag = sum(end - positions.get(at, end) for at, end in self._ends.known.items())
        shown: dict[str, object] = {}
        for name, tally in self._tallies.items():
            prefix = f"{name}." if len(self._tallies) > 1 else ""
            shown[f"{prefix}rows"] = tally.rows
            shown[f"{prefix}accepted"] = tally.rows - tally.late
            shown[f"{prefix}late"] = tally.late
            shown[f"{prefix}panes"] = tally.panes
            shown[f"{prefix}clock"] = _shown(self._clocks(name))
        return {**shown, "lag": max(0, lag)}

    def _clocks(self, name: str) -> Iterable[int]:
        for log in self._logs.values():
            for running in log.running:
                if running.plan.operator.name == name:
                    yield running.clocks.clock_ms


def _past(start: Start, topic_id: str) -> LogProgress:
    """Return how far the last owner of a log partition got."""
    at = start.partition
    if start.metadata is None:
        return LogProgress(VERSION, topic_id)
    if not start.metadata:
        raise StateError(
            f"{at}: the committed offset {start.offset} has lost its metadata, so nobody knows "
            "which state belongs to it; 'tidemark reset PIPELINE --service SERVICE' starts the "
            "service afresh from its log"
        )
    past = decode(start.metadata, LogProgress, str(at))
    check_topic(past, topic_id, str(at))
    return past


def _shown(clocks: Iterable[int]) -> str:
    lowest_ms = min(clocks, default=NEVER_MS)
    if not 0 <= lowest_ms < _YEAR_10000_MS:
        return "-" if lowest_ms == NEVER_MS else str(lowest_ms)
    return datetime.fromtimestamp(lowest_ms / 1000, UTC).isoformat(timespec="milliseconds")


def run(config: Config, plan: Plan, service: str) -> None:
    """Run a keyed service of a pipeline until it is told to stop."""
    operators = plan.of_service(service)
    logs = sorted({operator.log for operator in operators})
    with closing(opened_backend(config)) as backend:
        process = Process(config, f"{plan.pipeline}.{service}", logs)
        ensure(process.admin, own_topics(plan), config.replication_factor)
        process.run(KeyedTask(config, operators, process, backend))
