"""Restore: changelogs are read back up to the commit that the committed offset names.

See docs/operations.md, "Restore".  The order matters:

1. The committed offset is known.  It belongs to a finished transaction.
2. Only then the ends of the changelogs are read, including open transactions.
3. There may be records between the visible end and this end.  They belong to the commit of the
   offset, if its end is not visible yet, or to an open transaction.  Reading waits for both.
4. The names of commits prove that the state is that of the offset.

Reading and applying run in steps of half a second, and the group is polled between steps.  So a
restore may take any time.  Pieces apply as they come.  Apart from the state, memory only holds
pieces that will be applied together, and deltas that came before the snapshot that they follow.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import polars as pl
from confluent_kafka.admin import AdminClient

from tidemark.core.operators.operator import Changes
from tidemark.core.operators.task import OperatorTask
from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.runtime.backends.backend import Backend
from tidemark.runtime.backends.database import LocalStoreError
from tidemark.runtime.backends.mirror import Record
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.range_reader import RangeReader
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.changelog_replay import ChangelogReplay
from tidemark.runtime.keyed.restore_progress import ChangelogProgress, RestoreProgress
from tidemark.serde.changelog import NO_COMMIT, SNAPSHOT, Commit, Piece

_STEP_S = 0.5
_READ_S = 0.05
_END = object()
_TOGETHER_BYTES = 32 * 2**20  # pieces of a snapshot applied at once


class StateBuilder:
    """Builds the state and clocks of an operator task from pieces of its changelog."""

    def __init__(self, task: OperatorTask) -> None:
        """``task``: a new task, before its first segment."""
        self.task = task
        self._held: list[Changes] = []
        self._held_bytes = 0
        self.handed_on = 0
        """How many rows the operator has handed on to others."""

    def take(self, piece: Piece) -> None:
        """Apply a piece, or hold it and apply it together with the next pieces."""
        if piece.changes:
            self._held.append(piece.changes)
            self._held_bytes += sum(int(f.estimated_size()) for f in piece.changes.values())
        if piece.clocks is not None:
            self.task.resume(piece.clocks, piece.next_offset, piece.place)
            self.handed_on = piece.handed_on
        enough = piece.kind != SNAPSHOT or self._held_bytes >= _TOGETHER_BYTES
        if piece.last or (enough and not piece.continues):
            self._apply()

    def _apply(self) -> None:
        if self._held:
            self.task.state.apply(_joined(self._held))
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
class ChangelogReader:
    """Puts the records of a changelog in order, and builds state from them.

    ``apart``: the last commit of the operator, if that is not the log partition's.  ``has_state``:
    whether the operator has committed state before.
    """

    replay: ChangelogReplay
    builder: StateBuilder
    apart: Commit | None = None
    has_state: bool = True

    def pieces(self) -> Iterator[Piece]:
        """Apply the pieces that are next in order; yield each piece after it is applied."""
        yield from self._applied(self.replay.pieces())

    def rest(self, commit: Commit) -> Iterator[Piece]:
        """Apply the rest up to a commit, once all records have come.

        Raises:
            StateError: the changelog is of another operator, or lacks what the commit needs.
        """
        yield from self._applied(self.replay.rest(commit))

    def _applied(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        for piece in pieces:
            self.builder.take(piece)
            yield piece


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """A log partition to restore: its committed offset, and the changelogs of its operators.

    Args:
        log: the log partition.
        offset: the committed offset, -1 if nothing is committed.
        commit: the commit that the offset names.
        ahead: whether the offset was committed before the changelogs were written.  Then they may
            end at the commit before it.
        readers: by changelog partition.
    """

    log: Partition
    offset: int
    commit: Commit
    ahead: bool
    readers: Mapping[Partition, ChangelogReader]

    def restorable(self) -> Commit:
        """Return the commit to restore: the committed one, or the one before.

        Call it when all records were read, and before the rest of them is applied.
        """
        joined = [
            each.replay
            for each in self.readers.values()
            if each.apart is None and not each.replay.is_empty
        ]
        if self.ahead and not all(replay.has(self.commit) for replay in joined):
            return Commit(self.commit.sequence - 1, self.commit.previous)
        return self.commit

    def commit_of(self, reader: ChangelogReader, commit: Commit) -> Commit:
        """Return the commit to restore from a changelog that was read to its end.

        ``commit``: the result of ``restorable``.

        Raises:
            StateError: the changelog has state, although no offset is committed.
        """
        replay = reader.replay
        if self.offset < 0 and not replay.is_empty:
            replay.require_state(commit)
            raise StateError(
                f"{self.log}: nothing is committed, but {replay.where} has state; the offsets "
                "expired or were deleted. 'tidemark reset PIPELINE --service SERVICE' starts the "
                "service afresh from its log"
            )
        if reader.apart is not None and not (commit.sequence and replay.has(commit)):
            return reader.apart
        is_new = replay.is_empty and not reader.has_state
        return NO_COMMIT if is_new else commit


class Restore:
    """Restores newly assigned log partitions, step by step.

    The order (``_walk``): first the local mirrors, then the records of Kafka after them, applied as
    they come.  Then, for each log partition, the rest up to the commit that its offset names.
    """

    def __init__(
        self,
        config: Config,
        admin: AdminClient,
        requests: Sequence[RestoreRequest],
        backend: Backend,
        patience_s: float | None = None,
    ) -> None:
        """Read the ends of the changelogs: all earlier commits are below them.

        ``patience_s``: the time to wait for an open transaction, by default its longest lifetime.
        """
        self.requests = list(requests)
        self._readers = {at: each for want in requests for at, each in want.readers.items()}
        partitions = list(self._readers)
        ends = offsets(admin, partitions, LATEST)
        begins = offsets(admin, partitions, EARLIEST)
        self.mirrors = backend.mirrors(admin, {at: (begins[at], ends[at]) for at in partitions})
        ranges = {at: (self.mirrors.begin(at, begins[at]), ends[at]) for at in partitions}
        self._ends = ends
        self._kafka = RangeReader(config, ranges, patience_s)
        self._progress = RestoreProgress(
            {at: end - begin for at, (begin, end) in ranges.items()}, time.monotonic()
        )
        self._steps = self._walk()
        self.done = False
        self.commits: dict[Partition, Commit] = {}
        """The commit restored for each log partition."""
        self.troubles: dict[Partition, StateError] = {}
        """Why the state of an operator cannot be restored, by changelog partition."""

    def step(self) -> None:
        """Read and apply for half a second.

        If what Kafka holds does not fit, ``troubles`` says why.

        Raises:
            LocalStoreError: a mirror cannot be used; the changelog must be read from Kafka.
            StateError: a transaction never ends.
        """
        stop_s = time.monotonic() + _STEP_S
        while not self.done and time.monotonic() < stop_s:
            self.done = self._next()
        self._progress.note(self._kafka.left_of, time.monotonic(), done=self.done)

    def _next(self) -> bool:
        """Continue to the next pause; return whether the restore is done."""
        return next(self._steps, _END) is _END

    def _walk(self) -> Iterator[None]:
        """Read and apply everything; pause (yield) after each piece."""
        yield from self._from_mirrors()
        yield from self._from_kafka()
        for request in list(self.requests):
            if request in self.requests:  # else it has another owner since the last pause
                yield from self._to_commits(request)

    def _from_mirrors(self) -> Iterator[None]:
        for at, key, value in self.mirrors.records():
            if at in self._readers:
                self._add(at, key, value)
                yield from self._apply(at, lambda reader: reader.pieces())
            yield

    def _from_kafka(self) -> Iterator[None]:
        while self._kafka.left:
            for at in self._read():
                if at in self._readers:  # else it has another owner since the last pause
                    yield from self._apply(at, lambda reader: reader.pieces())
            yield

    def _to_commits(self, request: RestoreRequest) -> Iterator[None]:
        self.commits[request.log] = commit = request.restorable()
        for at in list(request.readers):
            if at in self._readers:
                yield from self._apply(
                    at, lambda reader: reader.rest(request.commit_of(reader, commit))
                )
                self.mirrors.take(at, (), self._ends[at])

    def _apply(
        self, at: Partition, read: Callable[[ChangelogReader], Iterator[Piece]]
    ) -> Iterator[None]:
        """Apply the pieces of a changelog, as long as this process owns it."""
        pieces: Iterator[Piece] | None = None
        while at in self._readers:
            with self._noted(at):
                pieces = read(self._readers[at]) if pieces is None else pieces
                if next(pieces, None) is None:
                    return
            yield

    def _add(self, at: Partition, key: bytes, value: bytes | None) -> None:
        with self._noted(at):
            self._readers[at].replay.add(key, value)

    @contextmanager
    def _noted(self, at: Partition) -> Iterator[None]:
        """Note trouble with a changelog, and read no more of it.

        Raises:
            LocalStoreError: the trouble may be a mirror's.
        """
        try:
            yield
        except StateError as error:
            if not self.mirrors.are_empty:
                raise LocalStoreError(
                    f"the local copy of {at} may not fit its changelog"
                ) from error
            self.troubles[at] = error
            del self._readers[at]
            self._kafka.drop([at])

    def _read(self) -> set[Partition]:
        """Read some records from Kafka; return the partitions that they are from."""
        messages = self._kafka.read(_READ_S)
        self._progress.read_bytes(sum(map(len, messages)))
        records: dict[Partition, list[Record]] = {}
        positions: dict[Partition, int] = {}
        for message in messages:
            at = Partition(message.topic() or "", message.partition() or 0)
            if at not in self._readers:
                continue
            key, value = message.key() or b"", message.value()
            self._add(at, key, value)
            records.setdefault(at, []).append((key, value))
            positions[at] = (message.offset() or 0) + 1
        for at, read in records.items():
            self.mirrors.take(at, read, positions[at])
        return set(records)

    @property
    def progress(self) -> list[ChangelogProgress]:
        """The progress of each changelog."""
        return self._progress.of_changelogs()

    @property
    def waits_for(self) -> list[Partition]:
        """The changelogs in which a transaction of another process is open."""
        return self._kafka.waits_for

    def drop(self, log: Partition) -> None:
        """Stop restoring a log partition that has another owner now."""
        gone = [at for each in self.requests if each.log == log for at in each.readers]
        self.requests = [each for each in self.requests if each.log != log]
        for at in gone:
            self._readers.pop(at, None)
            mirror = self.mirrors.pop(at)
            if mirror is not None:
                mirror.close()
        self._kafka.drop(gone)
        self._progress.keep(self._readers.keys())

    def close(self) -> None:
        """Close the consumer and the progress bar."""
        self._progress.close()
        self._kafka.close()
