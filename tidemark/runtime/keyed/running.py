"""One operator on one log partition, as a keyed service runs it (runtime/keyed/task.py)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidemark.core.operators.operator import Output
from tidemark.core.state.block_store import BlockStore
from tidemark.core.time.clock import ClockTable
from tidemark.core.time.segment import Segment
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan
from tidemark.runtime.backends.mirror import Mirror, Record
from tidemark.runtime.backends.mirrors import taken
from tidemark.runtime.client.commit import Outbox
from tidemark.runtime.keyed.changelog import Changelog, SnapshotRule
from tidemark.runtime.keyed.encoders import Encoder
from tidemark.runtime.keyed.journal import Journal
from tidemark.runtime.keyed.last_moved import LastMoved
from tidemark.runtime.keyed.oversized import Keys, Values, parted
from tidemark.runtime.keyed.restore import Reading, Rebuilding
from tidemark.runtime.service.stats import ClockStats, instant
from tidemark.serde.changelog import Commit
from tidemark.serde.dead_letters import encode_dead_letters


@dataclass
class Tally:
    """What an operator did since the start: rows = accepted + late."""

    rows: int = 0
    late: int = 0
    panes: int = 0
    dead: int = 0  # panes that fit no message


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
        results: Encoder,
    ) -> None:
        """Start with nothing read.

        ``writer`` names this process in the changelog; ``results`` encodes panes and late rows.
        """
        self.plan = plan
        self.clocks: ClockTable = plan.operator.clocks()
        self.state: Any = plan.operator.body.fresh(store)
        self.next_offset = 0
        self._partition = partition
        self._results = results
        self._changelog = Changelog(rule, writer, plan.parts)
        self._mirror: Mirror | None = None
        self._unmirrored: list[Record] = []

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

    def restored(self, reading: Reading, mirror: Mirror | None) -> Commit:
        """Go on where what was read back ends, and mirror what follows; return that commit."""
        self._mirror = mirror
        self.state.purge(self.clocks.clock_ms)
        self.next_offset = reading.rebuilding.next_offset
        reading.journal.resume(self._changelog)
        return self._changelog.last

    def take(self, segments: Sequence[tuple[int, Segment]], outbox: Outbox, tally: Tally) -> None:
        """Work on segments, given with their offsets, but for those that were taken before."""
        new = [segment for offset, segment in segments if offset >= self.next_offset]
        for steps in self.plan.operator.steps(new, self.clocks, self.state):
            self._write(steps.output, outbox, tally)

    def _write(self, output: Output, outbox: Outbox, tally: Tally) -> None:
        tally.rows += output.rows
        tally.late += output.late.height
        tally.panes += output.panes.height
        if output.panes.height:
            tally.dead += self._publish(*self._results.panes(output.panes), outbox)
        if output.late.height:
            keys, values = self._results.late(output.late)
            outbox.write(self.plan.late, self._partition, keys, values)

    def _publish(self, keys: Keys, values: Values, outbox: Outbox) -> int:
        """Write panes; return how many fit no message and became dead letters."""
        keys, values, letters = parted(self.plan.results, self._partition, keys, values)
        if letters:
            outbox.write(self.plan.dead_letters, 0, *encode_dead_letters(letters))
        outbox.write(self.plan.results, self._partition, keys, values)
        return len(letters)

    def clock_stats(self, last_moved: LastMoved, now_ms: int) -> ClockStats:
        """Return where the clock stands, and what its state holds."""
        clock_ms = self.clocks.clock_ms
        return ClockStats(
            partition=self._partition,
            clock_ms=instant(clock_ms),
            unmoved_since_ms=last_moved.since_ms(self.changelog, clock_ms, now_ms),
            held_by=self.clocks.holder(),
            open_windows=self.state.open_windows(),
            state_bytes=self.state.size_bytes(),
        )

    def checkpoint(self, outbox: Outbox, position: int) -> Commit:
        """Write what changed since the last commit; return the commit's name."""
        self.next_offset = max(self.next_offset, position)
        self.state.purge(self.clocks.clock_ms)
        records = self._changelog.commit(self.state, self.clocks.state(), self.next_offset)
        keys, values = zip(*records, strict=True)
        outbox.write(self.plan.changelog, self._partition, keys, values)
        if self._mirror is not None:
            self._unmirrored += records
        return self._changelog.last

    def committed(self, markers: int) -> None:
        """Mirror what the last commit wrote, with so many markers behind it in the topic."""
        records, self._unmirrored = self._unmirrored, []
        if self._mirror is not None and records:
            next_offset = self._mirror.next_offset + len(records) + markers
            if not taken(self._mirror, records, next_offset):
                self._mirror = None

    def close(self) -> None:
        """Leave the mirror for the next owner."""
        if self._mirror is not None:
            self._mirror.close()
