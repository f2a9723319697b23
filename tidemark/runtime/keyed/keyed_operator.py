"""One operator on one log partition of a keyed service: its task, results, changelog and mirror.

See docs/semantics.md, "A segment acts", and docs/operations.md, "Changelogs".
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tidemark.core.operators.task import OperatorTask, Output, Tally
from tidemark.core.state.block_store import BlockStore
from tidemark.core.time.segment import Segment
from tidemark.errors import StateError, UnreadableRowsError
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan
from tidemark.runtime.backends.mirror import Mirror, Record
from tidemark.runtime.backends.mirrors import taken
from tidemark.runtime.client.commit import Outbox
from tidemark.runtime.keyed.changelog import Changelog, SnapshotRule
from tidemark.runtime.keyed.changelog_replay import ChangelogReplay
from tidemark.runtime.keyed.encoders import Encoders, messages
from tidemark.runtime.keyed.last_moved import LastMoved
from tidemark.runtime.keyed.restore import ChangelogReader, StateBuilder
from tidemark.runtime.service.stats import ClockStats, instant
from tidemark.serde.changelog import Commit


@dataclass
class KeyedTally(Tally):
    """Counts of an operator in this process; ``oversized``: results that fit no message."""

    oversized: int = 0


class KeyedOperator:
    """One operator on one log partition: an ``OperatorTask`` whose changelog is in Kafka."""

    def __init__(
        self,
        plan: OperatorPlan,
        partition: int,
        rule: SnapshotRule,
        writer: str,
        store: BlockStore,
        encoders: Encoders,
        tally: KeyedTally,
    ) -> None:
        """Start before the first segment.

        Args:
            plan: of the operator.
            partition: number of the log partition, and of the partitions to write.
            rule: when to take snapshots.
            writer: name of this process in the changelog.
            store: where the blocks of state lie.
            encoders: for the ports.
            tally: counts of the operator in this process.
        """
        self.plan = plan
        self.tally = tally
        self.task = OperatorTask(plan.operator, store, tally)
        self._partition = partition
        self._encoders = encoders
        self._changelog = Changelog(rule, writer, plan.state_signature)
        self._mirror: Mirror | None = None
        self._unmirrored: list[Record] = []

    @property
    def snapshot(self) -> int | None:
        """The sequence number of the newest whole snapshot, 0 without one, None if unknown."""
        return self._changelog.snapshot

    @property
    def changelog(self) -> Partition:
        """The changelog's partition."""
        return Partition(self.plan.changelog, self._partition)

    def reader(self, snapshot: int | None) -> ChangelogReader:
        """Return the reader that restores the changelog; ``snapshot``: see ``ChangelogReplay``."""
        signature = self.plan.state_signature
        replay = ChangelogReplay(str(self.changelog), self.plan.name, signature, snapshot)
        return ChangelogReader(replay, StateBuilder(self.task))

    def restored(self, reader: ChangelogReader, mirror: Mirror | None) -> Commit:
        """Continue after a restore, and mirror later commits; return the last commit restored."""
        self._mirror = mirror
        self.task.state.purge(self.task.clock_ms)
        reader.replay.resume(self._changelog)
        return self._changelog.last

    def take(self, segments: Sequence[tuple[int, Segment]], outbox: Outbox) -> None:
        """Process segments, which come with their offsets; skip segments taken before.

        A log partition is read again if another of its operators begins at a lower offset.
        """
        new = [segment for offset, segment in segments if offset >= self.task.next_offset]
        with unreadable_rows_explained():
            for steps in self.task.steps(new):
                self._publish(steps.output, outbox)

    def _publish(self, output: Output, outbox: Outbox) -> None:
        for each in self.plan.ports:
            rows = output.frames.get(each.port.name)
            if rows is None or rows.is_empty():
                continue
            made = messages(self._encoders, self.plan.name, each, self._partition, rows)
            self.tally.oversized += made.oversized
            outbox.write(self.plan.dead_letters, 0, *made.dead)
            outbox.write(each.topic, self._partition, *made.published)

    def clock_stats(self, last_moved: LastMoved, now_ms: int) -> ClockStats:
        """Return the clock, the source it waits for, and the size of the state."""
        clock_ms = self.task.clock_ms
        return ClockStats(
            partition=self._partition,
            clock_ms=instant(clock_ms),
            unmoved_since_ms=last_moved.since_ms(self.changelog, clock_ms, now_ms),
            held_by=self.task.clocks.holder(),
            open_windows=self.task.state.open_windows(),
            state_bytes=self.task.state.size_bytes(),
        )

    def checkpoint(self, outbox: Outbox, position: int) -> Commit:
        """Write the changes since the last commit to the changelog; return the new commit."""
        task = self.task
        task.next_offset = max(task.next_offset, position)
        task.state.purge(task.clock_ms)
        records = self._changelog.commit(task.state, task.clocks.state(), task.next_offset)
        keys, values = zip(*records, strict=True)
        outbox.write(self.plan.changelog, self._partition, keys, values)
        if self._mirror is not None:
            self._unmirrored += records
        return self._changelog.last

    def committed(self, markers: int) -> None:
        """Mirror the records of the last commit; ``markers``: offsets that follow them."""
        records, self._unmirrored = self._unmirrored, []
        if self._mirror is not None and records:
            next_offset = self._mirror.next_offset + len(records) + markers
            if not taken(self._mirror, records, next_offset):
                self._mirror = None

    def close(self) -> None:
        """Close the mirror and keep it for the next owner."""
        if self._mirror is not None:
            self._mirror.close()


@contextmanager
def unreadable_rows_explained() -> Iterator[None]:
    """Add the remedy to an error about rows that an earlier pipeline wrote."""
    try:
        yield
    except UnreadableRowsError as error:
        raise StateError(
            f"{error}: 'tidemark replay --from raw' computes from raw topics, 'tidemark reset' "
            "starts afresh"
        ) from error
