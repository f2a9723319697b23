"""Restoring keyed state: changelogs read back to where the committed offset says they stand.

The order matters.  ``committed`` has answered, so the offset is that of a finished transaction;
only then the changelogs' ends are asked for, uncommitted ones.  What is between a committed end
and those is either the commit itself, whose end is not visible yet, or a transaction still open:
reading waits for both.  The names of commits prove that the state is that of the offset.

Reading and applying go in steps of half a second, between which the group is polled, so a restore
may take any time.  Pieces apply as they come: besides the state, only deltas that overtook the
snapshot they follow are held, and what applies together.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from confluent_kafka.admin import AdminClient

from tidemark.core.operators.operator import Changes
from tidemark.core.time.clock import ClockTable
from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.runtime.backends.backend import Backend
from tidemark.runtime.backends.database import LocalStoreError
from tidemark.runtime.backends.mirror import Record
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.range_reader import RangeReader
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.journal import Journal
from tidemark.runtime.keyed.restore_progress import RestoreProgress, Shown
from tidemark.serde.changelog import SNAPSHOT, Commit, Piece

_STEP_S = 0.5
_READ_S = 0.05
_TOGETHER_BYTES = 32 * 2**20  # of a snapshot, applied at once


class Rebuilding:
    """State and clocks of one operator on one log partition, made from pieces."""

    def __init__(self, state: Any, clocks: ClockTable) -> None:
        """Start with what nothing was read into."""
        self.state = state
        self.clocks = clocks
        self.next_offset = 0
        self._held: list[Changes] = []
        self._held_bytes = 0

    def take(self, piece: Piece) -> None:
        """Apply a piece, or hold it to apply it with the next ones."""
        if piece.changes:
            self._held.append(piece.changes)
            self._held_bytes += sum(int(f.estimated_size()) for f in piece.changes.values())
        if piece.clocks is not None:
            self.clocks.apply(piece.clocks)
            self.next_offset = piece.next_offset
        enough = piece.kind != SNAPSHOT or self._held_bytes >= _TOGETHER_BYTES
        if piece.last or (enough and not piece.continues):
            self._apply()

    def _apply(self) -> None:
        if self._held:
            self.state.apply(_joined(self._held))
        self._held, self._held_bytes = [], 0


def _joined(pieces: Sequence[Changes]) -> Changes:
    if len(pieces) == 1:
        return pieces[0]
    names = dict.fromkeys(name for piece in pieces for name in piece)
    return {
        name: pl.concat([piece[name] for piece in pieces if name in piece], how="diagonal")
        for name in names
    }


@dataclass(frozen=True, slots=True)
class Reading:
    """A changelog, and what is made of it."""

    journal: Journal
    rebuilding: Rebuilding


@dataclass(frozen=True, slots=True)
class Wanted:
    """A log partition, where its last owner stood, and the changelogs of its operators.

    ``offset``: the committed one, -1 where nothing is.  ``ahead``: it was committed before the
    changelogs, which may have got no further than the commit before.
    """

    log: Partition
    offset: int
    commit: Commit
    ahead: bool
    changelogs: Mapping[Partition, Reading]

    def restorable(self) -> Commit:
        """Return the commit to restore: the committed one, or the one before."""
        journals = [reading.journal for reading in self.changelogs.values()]
        if self.offset < 0 and any(not journal.is_empty for journal in journals):
            raise StateError(
                f"{self.log}: nothing is committed, but {journals[0].where} has state; the offsets "
                "expired or were deleted. 'tidemark reset PIPELINE --service SERVICE' starts the "
                "service afresh from its log"
            )
        if self.ahead and not all(journal.has(self.commit) for journal in journals):
            return Commit(self.commit.sequence - 1, self.commit.previous)
        return self.commit


class Restore:
    """The changelogs of newly assigned log partitions, read and applied step by step."""

    def __init__(
        self,
        config: Config,
        admin: AdminClient,
        wanted: Sequence[Wanted],
        backend: Backend,
        patience_s: float | None = None,
    ) -> None:
        """Take the ends at once: everything committed before is below them.

        ``patience_s``: how long to wait for an open transaction; by default as long as it may live.
        """
        self.wanted = list(wanted)
        self._readings = {at: each for want in wanted for at, each in want.changelogs.items()}
        partitions = list(self._readings)
        ends = offsets(admin, partitions, LATEST)
        begins = offsets(admin, partitions, EARLIEST)
        self.mirrors = backend.mirrors(admin, {at: (begins[at], ends[at]) for at in partitions})
        ranges = {at: (self.mirrors.begin(at, begins[at]), ends[at]) for at in partitions}
        self._ends = ends
        self._reader = RangeReader(config, ranges, patience_s)
        self._progress = RestoreProgress(
            {at: end - begin for at, (begin, end) in ranges.items()}, time.monotonic()
        )
        self._work = self._worked_off()
        self.done = False

    def step(self) -> None:
        """Read and apply for a while.

        Raises:
            LocalStoreError: what a mirror holds is of no use; it must be read from Kafka.
            StateError: what Kafka holds does not fit.
        """
        stop_s = time.monotonic() + _STEP_S
        while not self.done and time.monotonic() < stop_s:
            self.done = self._next()
        self._progress.note(self._reader.left_of, time.monotonic(), done=self.done)

    def _next(self) -> bool:
        try:
            return next(self._work, True)
        except StateError as error:
            if self.mirrors.are_empty:
                raise
            raise LocalStoreError(f"a mirror does not join its changelog: {error}") from error

    def _worked_off(self) -> Iterator[bool]:
        """Read and apply everything, with a pause after each piece, in which this is not done."""
        for at, key, value in self.mirrors.records():
            reading = self._readings[at]
            reading.journal.add(key, value)
            yield from self._applied(at, reading, reading.journal.pieces())
            yield False
        while self._reader.left:
            for at in self._read():
                if at in self._readings:  # else it went to another owner in a pause
                    reading = self._readings[at]
                    yield from self._applied(at, reading, reading.journal.pieces())
            yield False
        for want in list(self.wanted):
            if want not in self.wanted:
                continue
            commit = want.restorable()
            for at, reading in want.changelogs.items():
                yield from self._applied(at, reading, reading.journal.rest(commit))
                self.mirrors.take(at, (), self._ends[at])

    def _read(self) -> set[Partition]:
        """Read some records; return whose."""
        messages = self._reader.read(_READ_S)
        self._progress.read_bytes(sum(map(len, messages)))
        records: dict[Partition, list[Record]] = {}
        positions: dict[Partition, int] = {}
        for message in messages:
            at = Partition(message.topic() or "", message.partition() or 0)
            key, value = message.key() or b"", message.value()
            self._readings[at].journal.add(key, value)
            records.setdefault(at, []).append((key, value))
            positions[at] = (message.offset() or 0) + 1
        for at, read in records.items():
            self.mirrors.take(at, read, positions[at])
        return set(records)

    def _applied(self, at: Partition, reading: Reading, pieces: Iterator[Piece]) -> Iterator[bool]:
        for piece in pieces:
            if at not in self._readings:
                return  # it went to another owner in the pause
            reading.rebuilding.take(piece)
            yield False

    @property
    def shown(self) -> list[Shown]:
        """Return how far each changelog is."""
        return self._progress.shown()

    @property
    def waits_for(self) -> list[Partition]:
        """Return the changelogs with an open transaction of another process that it waits for."""
        return self._reader.waits_for

    def drop(self, log: Partition) -> None:
        """Leave out a log partition that went to another owner meanwhile."""
        gone = [want for want in self.wanted if want.log == log]
        self.wanted = [want for want in self.wanted if want.log != log]
        for at in [at for want in gone for at in want.changelogs]:
            del self._readings[at]
            mirror = self.mirrors.pop(at)
            if mirror is not None:
                mirror.close()
        self._reader.drop([at for want in gone for at in want.changelogs])
        self._progress.keep(self._readings.keys())

    def close(self) -> None:
        """Let go of the broker."""
        self._progress.close()
        self._reader.close()
