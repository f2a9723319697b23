"""The changelog of one operator on one log partition: keyed state as a compacted topic.

Records, by key:

* ``operator``: the state signature, such as key, windows and aggregates.
* ``delta/SEQUENCE/WRITER/CHUNK``: the changes of the commit with that sequence number.  Every
  commit has a delta, since every commit moves the clock.
* ``snapshot/SEQUENCE/WRITER/CHUNK``: all state after that commit.  A snapshot is written over
  several commits, a bounded number of bytes in each.  An incomplete snapshot is ignored.
* Tombstones for the records that a whole snapshot replaces.  They only save space.  They are
  written after the commits that wrote the snapshot have succeeded.

Every piece names its writer and the writer of the commit before.  Without transactions a process
may write pieces that it cannot commit, and these names identify them (docs/operations.md,
"Guarantees").  changelog_replay.py reads a changelog back.

Bounds (docs/operations.md, "Changelogs").  A snapshot begins when the live records of the topic
reach 1.5 times the size of the state.  For a small state it begins at a fixed size.  While a
snapshot is written, each commit adds at least twice the bytes of its delta to the snapshot.  So
these deltas are less than half of the snapshot, and the live records never exceed three times the
state.  Each byte of a delta costs at most two bytes of snapshots.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import polars as pl

from tidemark.core.operators.operator import Changes, State
from tidemark.core.operators.portions import BEGIN, Place
from tidemark.runtime.client.producer import Record
from tidemark.serde.changelog import (
    DELTA,
    NO_COMMIT,
    SNAPSHOT,
    Commit,
    Piece,
    encode,
    encode_operator,
)

CHUNK_BYTES = 4 * 2**20
"""Approximate upper limit of the size of a record."""

OPERATOR_KEY = b"operator"

_ASKED_EVERY = 16  # commits between two calls of size_bytes(), which may be slow


@dataclass(frozen=True)
class SnapshotRule:
    """When to take a snapshot.

    ``bytes``: a topic with fewer bytes needs no snapshot for its size.  ``commits``: this number of
    deltas, even small ones, takes as long to read back as ``bytes`` of state.
    """

    commits: int
    bytes: int

    def is_due(self, live_bytes: int, deltas: int, state_bytes: int) -> bool:
        """Return whether the size of the topic or the number of deltas requires a snapshot."""
        worth_bytes = deltas * self.bytes // self.commits
        return live_bytes >= max(self.bytes, state_bytes * 3 // 2) or worth_bytes >= max(
            self.bytes, state_bytes
        )


@dataclass(frozen=True, slots=True)
class Live:
    """A record without a tombstone: no snapshot has replaced it yet."""

    kind: str
    sequence: int
    key: bytes
    size_bytes: int


class Changelog:
    """The writing side of a changelog.

    ``last``: the last commit.  ``writer``: the name of this process.  ``snapshot``: sequence number
    of the newest whole snapshot, 0 without one; None if an uncommitted one may exist.
    """

    def __init__(self, rule: SnapshotRule, writer: str, signature: Mapping[str, str]) -> None:
        """``signature``: the state signature of the operator, which the first commit writes."""
        self.rule = rule
        self.writer = writer
        self.last = NO_COMMIT
        self.snapshot: int | None = 0
        self._signature: Mapping[str, str] | None = signature
        self._live: deque[Live] = deque()
        self._live_bytes = 0
        self._deltas = 0  # since the last snapshot began
        self._unwritten: Iterator[Piece] | None = None
        self._replacing = False  # whether the last commit finished a snapshot
        self._begun_bytes = self._written_bytes = 0
        self._ratio = 1.0  # bytes of a snapshot, divided by size_bytes() of the state
        self._joins = False  # whether the next commit writes all state

    def join(self, commit: Commit) -> None:
        """Follow ``commit`` of the log partition, at which the operator has no state.

        The next commit writes a whole snapshot, so that a restore needs none of the earlier ones.
        """
        self.last, self._joins = commit, True

    def commit(
        self,
        state: State,
        clocks: pl.DataFrame,
        next_offset: int,
        place: Place = BEGIN,
        handed_on: int = 0,
    ) -> list[Record]:
        """Advance to the next commit and return its records."""
        self.last = Commit(self.last.sequence + 1, self.writer, self.last.writer)
        records = [*self._signature_records(), *self._replaced()]
        before_bytes = self._live_bytes
        end = Piece(DELTA, self.last, 0, next_offset, {}, clocks, place=place, handed_on=handed_on)
        pieces = chunks(end, [state.changes()])
        records += map(self._record, pieces)
        delta_bytes = self._live_bytes - before_bytes
        self._deltas += 1
        joins, self._joins = self._joins, False
        if joins or self._is_due(state, delta_bytes):
            records += self._begin(state, replace(end, kind=SNAPSHOT))
        records += self._next_chunks(None if joins else max(CHUNK_BYTES, 2 * delta_bytes))
        return records

    def _signature_records(self) -> list[Record]:
        signature, self._signature = self._signature, None
        return [] if signature is None else [(OPERATOR_KEY, encode_operator(signature))]

    def _replaced(self) -> Iterator[Record]:
        """Return tombstones for the records replaced by a snapshot that the last commit ended."""
        by, finished, self._replacing = self.snapshot or 0, self._replacing, False
        if not finished:
            return iter(())
        own = f"{SNAPSHOT}/{by}/{self.writer}/".encode()
        return self._tombstones(
            lambda it: it.sequence < by or (it.sequence == by and not it.key.startswith(own))
        )

    def _is_due(self, state: State, delta_bytes: int) -> bool:
        rule = self.rule
        if not rule.is_due(self._live_bytes, self._deltas, 0) and self._unwritten is None:
            return False
        if self.last.sequence % min(_ASKED_EVERY, rule.commits) and delta_bytes < rule.bytes // 8:
            return False
        if self._unwritten is not None:  # begin again if most of the state is gone
            return state.size_bytes() < self._begun_bytes // 2
        state_bytes = int(state.size_bytes() * self._ratio)
        return rule.is_due(self._live_bytes, self._deltas, state_bytes)

    def _begin(self, state: State, end: Piece) -> Iterator[Record]:
        """Begin a snapshot of the state; return tombstones for an unfinished one."""
        self._unwritten = chunks(end, state.snapshot())
        self._begun_bytes, self._written_bytes, self._deltas = state.size_bytes(), 0, 0
        if self.snapshot is None:
            return iter(())
        return self._tombstones(lambda it: it.kind == SNAPSHOT and it.sequence != self.snapshot)

    def _next_chunks(self, at_least_bytes: int | None) -> Iterator[Record]:
        """Return the chunks that this commit writes of an unfinished snapshot; None: all."""
        until_bytes = None if at_least_bytes is None else self._written_bytes + at_least_bytes
        while self._unwritten is not None and (
            until_bytes is None or self._written_bytes < until_bytes
        ):
            piece = next(self._unwritten)
            key, value = self._record(piece)
            self._written_bytes += len(value)
            if piece.last:
                self._finish(piece.commit.sequence)
            yield key, value

    def _finish(self, sequence: int) -> None:
        self._unwritten, self.snapshot, self._replacing = None, sequence, True
        if self._written_bytes >= CHUNK_BYTES:  # in a smaller snapshot, most bytes are overhead
            self._ratio = self._written_bytes / max(1, self._begun_bytes)

    def _tombstones(self, replaced: Callable[[Live], bool]) -> Iterator[Record]:
        kept: deque[Live] = deque()
        for live in self._live:
            if replaced(live):
                self._live_bytes -= live.size_bytes
                yield live.key, None
            else:
                kept.append(live)
        self._live = kept

    def _record(self, piece: Piece) -> tuple[bytes, bytes]:
        key, value = record(piece)
        self._live.append(Live(piece.kind, piece.commit.sequence, key, len(value)))
        self._live_bytes += len(value)
        return key, value

    def resume(
        self, last: Commit, snapshot: int | None, live: Iterable[Live], *, has_signature: bool
    ) -> None:
        """Continue after a replay; ``has_signature``: whether the topic has the signature."""
        self.last, self.snapshot = last, snapshot
        self._signature = None if has_signature else self._signature
        self._live = deque(live)
        self._live_bytes = sum(each.size_bytes for each in self._live)
        self._deltas = last.sequence - (snapshot or 0)


def record(piece: Piece) -> tuple[bytes, bytes]:
    """Return a piece as a record."""
    sequence, writer, _ = piece.commit
    return f"{piece.kind}/{sequence}/{writer}/{piece.chunk}".encode(), encode(piece)


def chunks(end: Piece, state: Iterable[Changes]) -> Iterator[Piece]:
    """Yield changes in chunks of about CHUNK_BYTES at most, each built when it is read.

    ``end``: the last chunk, without changes and number.
    """
    held = replace(end, clocks=None)
    for changes in state:
        groups = list(_chunked(changes))
        for number, frames in enumerate(groups, 1):
            if held.changes:
                yield held
                held = replace(held, chunk=held.chunk + 1)
            held = replace(held, changes=frames, continues=number < len(groups))
    yield replace(held, clocks=end.clocks, last=True)


def _chunked(changes: Changes) -> Iterator[dict[str, pl.DataFrame]]:
    frames: dict[str, pl.DataFrame] = {}
    room = CHUNK_BYTES
    for name, frame in changes.items():
        for part in _frame_parts(frame):
            size = int(part.estimated_size())
            if frames and (size > room or name in frames):
                yield frames
                frames, room = {}, CHUNK_BYTES
            frames[name] = part
            room -= size
    if frames:
        yield frames


def _frame_parts(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    parts = int(frame.estimated_size()) // CHUNK_BYTES + 1
    return frame.iter_slices(max(1, -(-frame.height // parts)))
