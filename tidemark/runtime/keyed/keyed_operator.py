"""One operator on one log partition of a keyed service: its task, results, changelog and mirror.

See docs/semantics.md, "A segment acts", and docs/operations.md, "Changelogs".
"""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

import polars as pl
from msgspec.structs import replace

from tidemark.core.operators.output import Output
from tidemark.core.operators.portions import BEGIN, TARGET_BYTES, RowLimit, bytes_of
from tidemark.core.operators.ports import PANES
from tidemark.core.operators.task import OperatorTask
from tidemark.core.state.block_store import BlockStore
from tidemark.core.time.announcer import TaskProgress
from tidemark.core.time.segment import NEVER_MS, Segment
from tidemark.errors import StateError, UnreadableRowsError
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan, PortPlan
from tidemark.runtime.backends.mirror import Mirror, Record
from tidemark.runtime.backends.mirrors import taken
from tidemark.runtime.client.commit import Outbox
from tidemark.runtime.client.generations import Generation
from tidemark.runtime.keyed.changelog import Changelog, SnapshotRule
from tidemark.runtime.keyed.changelog_replay import ChangelogReplay
from tidemark.runtime.keyed.encoders import Encoders, messages
from tidemark.runtime.keyed.handing_on import HandingOn
from tidemark.runtime.keyed.lost_rows import (
    FirstMarks,
    are_whole,
    lost_of_stages,
    without_lost_rows,
)
from tidemark.runtime.keyed.observed import KeyedTally, LastMoved, RecentAges
from tidemark.runtime.keyed.restore import ChangelogReader, StateBuilder
from tidemark.runtime.service.stats import ClockStats, instant, instant_text
from tidemark.serde.changelog import Commit

_log = logging.getLogger("tidemark")

_BATCH_ROWS = 2**20
"""Rows of a batch of segments at most ..."""

_BATCH_PORTIONS = 8
"""... and the approximate size of its results, in portions."""


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
        delays_ms: Mapping[str, int],
        portion_bytes: int = TARGET_BYTES,
        handing_on: HandingOn | None = None,
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
            delays_ms: of the watermarks of the raw topics that it reads.
            portion_bytes: the approximate size of the results of a step.
            handing_on: takes results for other operators; None if none reads them.
        """
        self.plan = plan
        self.tally = tally
        self.task = OperatorTask(plan.operator, store, tally, portion_bytes)
        self._partition = partition
        self._encoders = encoders
        self._changelog = Changelog(rule, writer, plan.state_signature)
        self._mirror: Mirror | None = None
        self._unmirrored: list[Record] = []
        self._portion_bytes = portion_bytes
        self._limit = RowLimit(_BATCH_ROWS, _BATCH_PORTIONS * portion_bytes)
        self._delays_ms = delays_ms
        self._first_marks = FirstMarks(delays_ms)
        self._generation: Generation | None = None
        self._is_generation_new = False
        self._handing_on = handing_on
        self._handed_on = 0
        self._reported: TaskProgress | None = None
        self._ages = RecentAges()
        self.trouble: StateError | None = None
        """Why the operator takes no more segments; None if it works."""
        self.is_stopped = False
        """Whether it writes nothing more: it has trouble, and what it did before is written."""
        self.is_behind = False
        """Whether it has not taken all segments that the other operators have taken."""

    @property
    def where(self) -> str:
        """The operator and its log partition, for messages."""
        return f"operator {self.plan.name} on {self.plan.log}/{self._partition}"

    @property
    def hands_on(self) -> bool:
        """Whether other operators read its results."""
        return self._handing_on is not None

    @property
    def snapshot(self) -> int | None:
        """The sequence number of the newest whole snapshot, 0 without one, None if unknown."""
        return self._changelog.snapshot

    @property
    def changelog(self) -> Partition:
        """The changelog's partition."""
        return Partition(self.plan.changelog, self._partition)

    def reader(
        self, snapshot: int | None, apart: Commit | None = None, *, has_state: bool = True
    ) -> ChangelogReader:
        """Return the reader that restores the changelog.

        ``snapshot``: see ``ChangelogReplay``; the others: see ``ChangelogReader``.
        """
        signature = self.plan.state_signature
        replay = ChangelogReplay(str(self.changelog), self.plan.name, signature, snapshot)
        return ChangelogReader(replay, StateBuilder(self.task), apart, has_state)

    def restored(self, reader: ChangelogReader, mirror: Mirror | None) -> Commit:
        """Continue after a restore, and mirror later commits; return the last commit restored."""
        self._mirror = mirror
        self.task.state.purge(self.task.clock_ms)
        self._handed_on = reader.builder.handed_on
        reader.replay.resume(self._changelog)
        return self._changelog.last

    def stop(self, trouble: StateError) -> None:
        """Write nothing more: the state cannot be restored."""
        self.trouble, self.is_stopped = trouble, True

    def begin(self, generation: Generation, *, is_new: bool) -> None:
        """Begin to take segments, after a restore; ``is_new``: the next commit writes it."""
        self._generation, self._is_generation_new = generation, is_new
        heard = (name for name, each in self.task.clocks.sources.items() if each.spoken)
        self._first_marks = FirstMarks(self._delays_ms, heard)

    def new_generation(self) -> Iterator[Generation]:
        """Yield the generation if the last commit has not written it."""
        if self._generation is not None and self._is_generation_new:
            self._is_generation_new = False
            yield self._generation

    def _note_lost_rows(self, segments: Iterable[Segment]) -> None:
        """Note the windows that lack rows from before the beginning of the log."""
        known = len(self._first_marks.lost_stages)
        found = filter(None, map(self._first_marks.lost_until_ms, segments))
        lost_ms = max(found, default=None)
        lost = self._first_marks.lost_stages[known:]
        if results := lost_of_stages(lost, self.plan.operator.sources):
            _log.warning(
                "%s: its log lacks %s; its own results may lack rows of these. 'tidemark reset "
                "PIPELINE' computes them from the raw topics",
                self.where,
                results,
            )
        before = self._generation
        if lost_ms is None or before is None or lost_ms <= (before.lost_until_ms or NEVER_MS):
            return
        self._generation = replace(before, lost_until_ms=lost_ms)
        self._is_generation_new = True
        _log.warning(
            "%s: its log lacks rows with event times up to %s; %s",
            self.where,
            instant_text(lost_ms),
            without_lost_rows(self.plan.results.port, self._readers()),
        )

    def _readers(self) -> Sequence[str]:
        return () if self._handing_on is None else self._handing_on.readers(self.plan.name)

    def _whole(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the panes of windows that lack no rows from before the beginning of the log."""
        lost_ms = None if self._generation is None else self._generation.lost_until_ms
        if lost_ms is None:
            return rows
        whole = rows.filter(are_whole(rows, self.plan.operator, lost_ms))
        self.tally.incomplete += rows.height - whole.height
        return whole

    def join(self, commit: Commit) -> None:
        """Follow ``commit`` of the log partition; the next commit writes all state."""
        self._changelog.join(commit)

    def take(self, segments: Sequence[tuple[int, Segment]], outbox: Outbox) -> Iterator[None]:
        """Process segments, which come with their offsets; skip segments taken before.

        Yields where ``checkpoint`` may be called: between batches, and within a segment.  If rows
        cannot be read, ``trouble`` says why, and nothing of their batch is processed.
        """
        task = self.task
        new = deque(each for each in segments if each[0] >= task.next_offset)
        self._note_lost_rows(segment for _, segment in new)
        while new and self.trouble is None:
            batch = self._batch(new)
            task.next_offset = batch[0][0]
            results_bytes = 0
            try:
                for steps in task.steps([segment for _, segment in batch]):
                    self._publish(steps.output, outbox)
                    results_bytes += bytes_of(steps.output.frames)
                    if steps.can_pause:
                        yield
            except UnreadableRowsError as error:
                self.trouble = unreadable(error, self.plan.name)
                yield  # a checkpoint stops the operator
                return
            task.next_offset = batch[-1][0] + 1
            rows = sum(segment.height for _, segment in batch)
            self._limit.took(rows, results_bytes, full=bool(new))
            yield

    def _batch(self, new: deque[tuple[int, Segment]]) -> Sequence[tuple[int, Segment]]:
        """Remove and return the next segments to process in one step: one if batches save nothing.

        A batch publishes its results at once, so their size bounds its rows.
        """
        batch = [new.popleft()]
        if self.task.operator.body.can_batch and self.task.place == BEGIN:
            rows = batch[0][1].height
            while new and (rows := rows + new[0][1].height) <= self._limit.rows:
                batch.append(new.popleft())
        return batch

    def _publish(self, output: Output, outbox: Outbox) -> None:
        for each in self.plan.ports:
            rows = output.frames.get(each.port.name)
            if rows is None or rows.is_empty():
                continue
            if each.port.kind == PANES:
                rows = self._whole(rows)
            self.tally.published(each, rows)
            self._hand_on(each, rows, outbox)
            if not each.topic:
                continue
            for some in _portions(rows, self._portion_bytes):
                made = messages(self._encoders, self.plan.name, each, self._partition, some)
                self.tally.add_oversized(made.oversized_reasons)
                outbox.write(self.plan.dead_letters, 0, *made.dead)
                outbox.write(each.topic, self._partition, *made.published)

    def _hand_on(self, port: PortPlan, rows: pl.DataFrame, outbox: Outbox) -> None:
        if self._handing_on is not None and port is self.plan.results and rows.height:
            self._handed_on, dead = self._handing_on.take(
                self.plan.name, rows, self._partition, self._handed_on, outbox
            )
            self.tally.add_refused(self.plan.name, dead)

    def progress(self) -> TaskProgress | None:
        """Return what the operator has reached, for the operators that read its results.

        None if no operator reads them, or if it has reached nothing new since the last call.
        """
        if self._handing_on is None or self._generation is None or self.is_stopped:
            return None
        watermark_ms, is_idle = self.task.reached()
        is_idle = is_idle and self.task.place == BEGIN  # else a restored segment is in progress
        number = self._generation.number
        found = TaskProgress(self._partition, number, watermark_ms, is_idle)
        if found == self._reported:
            return None
        self._reported = found
        return found

    def clock_stats(self, last_moved: LastMoved, now_ms: int) -> ClockStats:
        """Return the clock, the source it waits for, open windows, and the size of the state."""
        clock_ms, state = self.task.clock_ms, self.task.state
        open_windows = state.open_windows()
        ages = self._ages.of(state, open_windows, clock_ms, now_ms)
        return ClockStats(
            partition=self._partition,
            clock_ms=instant(clock_ms),
            unmoved_since_ms=last_moved.since_ms(self.changelog, clock_ms, now_ms),
            held_by=self.task.clocks.holder(),
            open_windows=open_windows,
            state_bytes=state.size_bytes(),
            active_rules=self.plan.operator.body.active_rules(state),
            oldest_begin_ms=ages.oldest_begin_ms,
            oldest_end_ms=ages.oldest_end_ms,
            ages=list(ages.counts),
        )

    def checkpoint(self, outbox: Outbox, position: int) -> Commit:
        """Write the changes since the last commit to the changelog; return the new commit.

        ``position``: the offset of the first segment that some operator has not taken as a whole.
        """
        task = self.task
        if not self.is_behind and self.trouble is None:
            task.next_offset = max(task.next_offset, position)
        task.state.purge(task.published_ms)
        clocks, next_offset, place = task.position()
        records = self._changelog.commit(task.state, clocks, next_offset, place, self._handed_on)
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


def _portions(rows: pl.DataFrame, most_bytes: int) -> Iterator[pl.DataFrame]:
    """Yield rows in portions, so that only few are in memory as messages."""
    portions = int(rows.estimated_size()) // most_bytes + 1
    return rows.iter_slices(max(1, -(-rows.height // portions)))


def unreadable(error: UnreadableRowsError, operator: str) -> StateError:
    """Return an error about rows that an earlier pipeline wrote, with its remedy."""
    return StateError(
        f"operator {operator!r} cannot read its log: {error}. Undo the change, or compute "
        "everything from the raw topics: 'tidemark reset PIPELINE --delete-results'"
    )
