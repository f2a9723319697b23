"""One log partition of a keyed service: its operators, and the progress they have committed.

See docs/operations.md, "Guarantees".  A keyed service owns log partitions as a member of a group
(task.py).  On Spark, a task owns a log partition during a micro-batch (spark/services/batch.py).
Both commit in the same way.
"""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidemark.core.time.announcer import Report
from tidemark.core.time.segment import Segment
from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.runtime.backends.backend import Backend
from tidemark.runtime.client.commit import Outbox
from tidemark.runtime.client.consumer import Start
from tidemark.runtime.client.generations import Generation, Key, record_of
from tidemark.runtime.client.progress import (
    ANY,
    VERSION,
    LogProgress,
    check_topic,
    decode,
    on_spark_error,
)
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.changelog import SnapshotRule
from tidemark.runtime.keyed.encoders import Encoders
from tidemark.runtime.keyed.handing_on import HandingOn
from tidemark.runtime.keyed.keyed_operator import KeyedOperator
from tidemark.runtime.keyed.lost_rows import delays_ms
from tidemark.runtime.keyed.observed import KeyedTally
from tidemark.runtime.keyed.restore import ChangelogReader, Restore, RestoreRequest
from tidemark.runtime.memory import portion_bytes
from tidemark.runtime.messages.received import ReceivedMessage
from tidemark.serde.changelog import Commit
from tidemark.serde.segments import in_batches, segment_at


@dataclass
class KeyedOperators:
    """The operators that a process runs, and the resources that each of them needs.

    ``plan``: of the pipeline.  ``writer``: name of this process in changelogs.  ``tallies``: counts
    by operator; all log partitions add to them.  ``handing_on``: for operators that hand results
    on; None if no operator does.
    """

    config: Config
    plans: Sequence[OperatorPlan]
    plan: Plan
    backend: Backend
    encoders: Encoders
    handing_on: HandingOn | None = None
    writer: str = field(default_factory=lambda: secrets.token_hex(6))
    tallies: Mapping[str, KeyedTally] = field(init=False)

    def __post_init__(self) -> None:
        self.tallies = {plan.name: KeyedTally() for plan in self.plans}

    def on(self, at: Partition) -> list[KeyedOperator]:
        """Return the operators of a log partition, before their first segment."""
        rule = SnapshotRule(self.config.snapshot_commits, self.config.snapshot_bytes)
        return [
            KeyedOperator(
                plan,
                at.number,
                rule,
                self.writer,
                self.backend.store,
                self.encoders,
                self.tallies[plan.name],
                delays_ms(self.plan, plan),
                portion_bytes(self.config.memory_bytes),
                self._handing_on(plan),
            )
            for plan in self.plans
            if plan.log == at.topic
        ]

    @property
    def hold_many_rows(self) -> bool:
        """Whether the rows held for other operators are so large that a commit is due."""
        return self.handing_on is not None and self.handing_on.is_full

    def _handing_on(self, plan: OperatorPlan) -> HandingOn | None:
        found = self.handing_on
        return found if found is not None and found.readers(plan.name) else None


@dataclass
class LogPartition:
    """A log partition that this process owns.

    ``offset``: the committed offset, -1 if nothing is committed.  ``past``: its metadata.
    ``generations``: topic of the generations.  ``apart``: by operator, the last commit of those
    whose state is not at the commit of the log partition.
    """

    at: Partition
    offset: int
    past: LogProgress
    operators: Sequence[KeyedOperator]
    generations: str
    apart: dict[str, Commit] = field(default_factory=dict)
    _joined: list[str] = field(default_factory=list)  # by the last commit, which may have failed

    @classmethod
    def from_commit(
        cls, start: Start, topic_id: str, operators: KeyedOperators, *, by_spark: bool = False
    ) -> "LogPartition":
        """Return a log partition at the commit of its last owner, before its state is restored.

        Raises:
            StateError: the committed offset names no state, or others work on the partition.
        """
        past = past_of(start, topic_id, by_spark=by_spark)
        offset = -1 if start.metadata is None else start.offset
        at = start.partition
        return cls(at, offset, past, operators.on(at), operators.plan.generations)

    @property
    def commit(self) -> Commit:
        """The last commit of the log partition, and of the operators that have joined it."""
        return Commit(self.past.sequence, self.past.writer, self.past.previous)

    @property
    def lagging(self) -> list[KeyedOperator]:
        """The operators that work, and have not taken all segments below the offset."""
        return [each for each in self.operators if each.is_behind and each.trouble is None]

    @property
    def hands_on(self) -> bool:
        """Whether other operators read the results of some of these."""
        return any(each.hands_on for each in self.operators)

    @property
    def troubles(self) -> list[KeyedOperator]:
        """The operators that do not work."""
        return [each for each in self.operators if each.trouble is not None]

    @property
    def is_stopped(self) -> bool:
        """Whether no operator works."""
        return all(each.is_stopped for each in self.operators)

    def request(self, generations: Mapping[Key, Generation]) -> RestoreRequest:
        """Return the request to restore the state of the operators that have no trouble."""
        readers = {
            each.changelog: self._reader(each, generations)
            for each in self.operators
            if not each.is_stopped
        }
        return RestoreRequest(self.at, self.offset, self.commit, self.past.ahead, readers)

    def _reader(
        self, operator: KeyedOperator, generations: Mapping[Key, Generation]
    ) -> ChangelogReader:
        name = operator.plan.name
        known = generations.get((name, self.at.number))
        has_state = known is not None and not known.unused
        if name in self.past.apart:
            return operator.reader(None, Commit(*self.past.apart[name]), has_state=has_state)
        snapshot = 0 if self.offset < 0 else self.past.snapshots.get(name)
        return operator.reader(snapshot, has_state=has_state)

    def restored(self, restore: Restore, request: RestoreRequest, *, certain: bool) -> None:
        """Continue after a restore; ``certain``: see ``_snapshots``."""
        commit = restore.commits[request.log]
        found: set[Commit] = set()
        apart = {name: Commit(*last) for name, last in self.past.apart.items()}
        for each in self.operators:
            name, mirror = each.plan.name, restore.mirrors.pop(each.changelog)
            trouble = restore.troubles.get(each.changelog)
            if trouble is not None:
                each.stop(trouble)
            if each.is_stopped:
                apart.setdefault(name, commit)
                if mirror is not None:
                    mirror.close()
                continue
            reader = request.readers[each.changelog]
            at = each.restored(reader, mirror)
            each.is_behind = (
                name in self.past.behind
                or name in apart
                or (ANY in self.past.behind and each.task.next_offset < self.offset)
            )
            if at[:2] == commit[:2]:
                apart.pop(name, None)
                found.add(at)
            else:
                apart[name], each.is_behind = at, True
        self.apart = apart
        snapshots = self._snapshots(certain=certain)
        self.passed(found.pop() if found else commit, ahead=False, snapshots=snapshots)

    def take(self, segments: Sequence[tuple[int, Segment]], outbox: Outbox) -> Iterator[int]:
        """Process segments, which come with their offsets, with the operators that are not behind.

        ``CatchUp`` gives the segments to the others.  Yields where ``checkpoint`` may be called,
        with the position to give it: the offset of the first segment that some of these operators
        has not processed as a whole.
        """
        first, end = segments[0][0], segments[-1][0] + 1
        taking = [each for each in self.operators if not each.is_behind]
        for each in taking:
            for _ in each.take(segments, outbox):
                offsets = (it.task.next_offset for it in taking if it.trouble is None)
                yield max(first, min(offsets, default=end))

    def checkpoint(self, outbox: Outbox, position: int, *, ahead: bool, certain: bool) -> None:
        """Write the changelogs of all operators that work, up to a position in the log."""
        writing = [each for each in self.operators if not each.is_stopped]
        if not writing:
            return
        records = [record_of(found) for each in writing for found in each.new_generation()]
        outbox.write(self.generations, 0, [key for key, _ in records], [row for _, row in records])
        for name in self._joined:
            self.apart.pop(name, None)
        self._joined = [each.plan.name for each in writing if each.plan.name in self.apart]
        for each in writing:
            if each.plan.name in self.apart:
                each.join(self.commit)
        (commit,) = {each.checkpoint(outbox, position) for each in writing}
        for each in writing:
            if each.trouble is not None:
                each.is_stopped = True
                self.apart[each.plan.name] = commit
        self.passed(commit, ahead=ahead, snapshots=self._snapshots(certain=certain))

    def progress(self) -> Iterator[Report]:
        """Yield what operators have reached that hand results on, unless it was reported."""
        for each in self.operators:
            if (found := each.progress()) is not None:
                yield each.plan.name, found

    def _snapshots(self, *, certain: bool) -> Mapping[str, int]:
        """Return the newest snapshots, if the changelogs hold committed records only."""
        return {
            each.plan.name: each.snapshot
            for each in self.operators
            if certain and each.snapshot is not None and not each.is_stopped
        }

    def passed(self, commit: Commit, *, ahead: bool, snapshots: Mapping[str, int]) -> None:
        """Set the progress to a commit.

        Args:
            commit: the last commit of the changelogs.
            ahead: whether offsets are committed before changelogs are written.
            snapshots: by operator, the newest whole snapshots.
        """
        self.past = LogProgress(
            VERSION,
            self.past.topic_id,
            *commit,
            self.past.begun,
            ahead,
            dict(snapshots),
            apart={name: (each.sequence, each.writer) for name, each in self.apart.items()},
            behind=[each.plan.name for each in self.lagging],
        )

    def committed(self, *, markers: int) -> None:
        """Mirror the records of the last commit; ``markers``: offsets that follow them."""
        for each in self.operators:
            each.committed(markers)

    def close(self) -> None:
        """Close the mirrors and keep them for the next owner."""
        for each in self.operators:
            each.close()


def past_of(start: Start, topic_id: str, *, by_spark: bool = False) -> LogProgress:
    """Return the committed progress of a log partition.

    Raises:
        StateError: the committed offset names no state, or the log partition is Spark's.
    """
    at = start.partition
    if start.metadata is None:
        return LogProgress(VERSION, topic_id, begun=start.offset)
    if not start.metadata:
        raise StateError(
            f"{at}: the committed offset {start.offset} has no metadata, so it names no state; "
            "'tidemark reset PIPELINE --service SERVICE' starts the service afresh from its log"
        )
    past = decode(start.metadata, LogProgress, str(at))
    check_topic(past, topic_id, str(at))
    if past.handing_over:
        raise StateError(
            f"{at}: a hand-over from Spark is under way; if it has failed, "
            "'tidemark replay PIPELINE --into-live' completes it, or 'tidemark reset PIPELINE "
            "--service SERVICE --delete-results' starts the service afresh"
        )
    if past.on_spark and not by_spark:
        raise on_spark_error(at)
    return past


def segments_of(
    at: Partition, messages: Iterable[ReceivedMessage]
) -> Iterator[list[tuple[int, Segment]]]:
    """Yield the segments in messages of a log partition, with their offsets, in batches.

    Raises:
        StateError: a message is no segment that this version reads.
    """
    for values in in_batches((m.offset() or 0, m.value() or b"") for m in messages):
        yield [(offset, segment_at(at, offset, value)) for offset, value in values]
