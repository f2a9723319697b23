"""One log partition of a keyed service: its operators, and the progress they have committed.

See docs/operations.md, "Guarantees".  A keyed service owns log partitions as a member of a group
(task.py).  On Spark, a task owns a log partition during a micro-batch (spark/services/batch.py).
Both commit in the same way.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidemark.core.time.segment import Segment
from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan
from tidemark.runtime.backends.backend import Backend
from tidemark.runtime.client.commit import Outbox
from tidemark.runtime.client.consumer import Start
from tidemark.runtime.client.generations import Generation, record_of
from tidemark.runtime.client.progress import VERSION, LogProgress, check_topic, decode
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.changelog import SnapshotRule
from tidemark.runtime.keyed.encoders import Encoders
from tidemark.runtime.keyed.keyed_operator import KeyedOperator, KeyedTally
from tidemark.runtime.keyed.restore import Restore, RestoreRequest
from tidemark.serde.changelog import Commit


@dataclass
class KeyedOperators:
    """The operators that a process runs, and the resources that each of them needs.

    ``generations``: topic of the generations.  ``writer``: name of this process in changelogs.
    ``tallies``: counts by operator; all log partitions add to them.
    """

    config: Config
    plans: Sequence[OperatorPlan]
    generations: str
    backend: Backend
    encoders: Encoders
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
            )
            for plan in self.plans
            if plan.log == at.topic
        ]


@dataclass
class LogPartition:
    """A log partition that this process owns.

    ``offset``: the committed offset, -1 if nothing is committed.  ``past``: its metadata.
    ``begun``: generations that the next commit writes.
    """

    at: Partition
    offset: int
    past: LogProgress
    operators: Sequence[KeyedOperator]
    generations: str
    begun: list[Generation] = field(default_factory=list)

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
        return cls(at, offset, past, operators.on(at), operators.generations)

    @property
    def commit(self) -> Commit:
        """The last commit in the changelogs."""
        return Commit(self.past.sequence, self.past.writer, self.past.previous)

    def request(self) -> RestoreRequest:
        """Return the request to restore the state of the operators."""
        snapshots = self.past.snapshots
        readers = {
            each.changelog: each.reader(0 if self.offset < 0 else snapshots.get(each.plan.name))
            for each in self.operators
        }
        return RestoreRequest(self.at, self.offset, self.commit, self.past.ahead, readers)

    def restored(self, restore: Restore, request: RestoreRequest, *, certain: bool) -> None:
        """Continue after a restore; ``certain``: see ``passed``."""
        (commit,) = {
            each.restored(request.readers[each.changelog], restore.mirrors.pop(each.changelog))
            for each in self.operators
        }
        self.passed(commit, ahead=False, certain=certain)

    def take(self, segments: Sequence[tuple[int, Segment]], outbox: Outbox) -> Iterator[int]:
        """Process segments, which come with their offsets, with all operators.

        Yields where ``checkpoint`` may be called, with the position to give it: the offset of the
        first segment that some operator has not processed as a whole.
        """
        first = segments[0][0]
        for each in self.operators:
            for _ in each.take(segments, outbox):
                yield max(first, min(it.task.next_offset for it in self.operators))

    def checkpoint(self, outbox: Outbox, position: int, *, ahead: bool, certain: bool) -> None:
        """Write the changelogs of all operators up to a position in the log."""
        records, self.begun = [record_of(each) for each in self.begun], []
        outbox.write(self.generations, 0, [key for key, _ in records], [row for _, row in records])
        (commit,) = {each.checkpoint(outbox, position) for each in self.operators}
        self.passed(commit, ahead=ahead, certain=certain)

    def passed(self, commit: Commit, *, ahead: bool, certain: bool) -> None:
        """Set the progress to a commit.

        Args:
            commit: the last commit of the changelogs.
            ahead: whether offsets are committed before changelogs are written.
            certain: whether the changelogs hold committed records only.
        """
        snapshots = {
            each.plan.name: each.snapshot
            for each in self.operators
            if certain and each.snapshot is not None
        }
        topic_id, begun = self.past.topic_id, self.past.begun
        self.past = LogProgress(VERSION, topic_id, *commit, begun, ahead, snapshots)

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
        raise StateError(
            f"{at}: Spark works on it; end 'tidemark run --on spark PIPELINE', or if that was "
            "killed, release the partition with --release"
        )
    return past
