"""The changelog of one operator on one log partition: keyed state as a compacted topic.

Records, by key:

* ``operator``: what the state depends on, such as key, windows and aggregates.
* ``delta/SEQUENCE/WRITER/CHUNK``: what the commit with that sequence number changed.  Every commit
  has one, since every commit moves the clock.
* ``snapshot/SEQUENCE/WRITER/CHUNK``: all state as it stood after that commit.  A snapshot is
  written over several commits, a bounded number of bytes in each; one that is not whole means
  nothing.
* tombstones for what a whole snapshot replaces.  They save space and carry no meaning; they are
  written when the commits that wrote the snapshot are committed.

Every piece names its writer and that of the commit before, so that what a process wrote and could
not commit, which only a transaction rules out, is told apart (docs/operations.md, "Guarantees").
Reading it back: runtime/keyed/changelog_replay.py.

Bounds (docs/operations.md, "Changelogs").  A snapshot begins when what is live in the topic has
reached one and a half times the size of the state, or a fixed size where the state is small.
While it is written, twice the bytes of the deltas go into it at least, so that those are less than
half of it, and all together never more than three times the state.  Each byte of a delta thus costs
at most two of snapshots.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import polars as pl

from tidemark.core.operators.operator import Changes, State
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
"""About the most in one record."""

OPERATOR_KEY = b"operator"

_ASKED_EVERY = 16  # commits between two looks at the size of the state, which may take a while


@dataclass(frozen=True)
class SnapshotRule:
    """When a snapshot is worth its bytes.

    ``bytes``: as long as the topic holds less, it is never for its size.  ``commits``: so many
    deltas take as long to read back as ``bytes`` of state, however small they are.
    """

    commits: int
    bytes: int

    def is_due(self, live_bytes: int, deltas: int, state_bytes: int) -> bool:
        """Say whether to begin one: for the size of the topic, or the number of deltas."""
        worth_bytes = deltas * self.bytes // self.commits
        return live_bytes >= max(self.bytes, state_bytes * 3 // 2) or worth_bytes >= max(
            self.bytes, state_bytes
        )


@dataclass(frozen=True, slots=True)
class Live:
    """A record that stands for live state: replaced and not yet replaced by a snapshot."""

    kind: str
    sequence: int
    key: bytes
    size_bytes: int


class Changelog:
    """The writer's side; ``last`` is the last commit, ``writer`` names this process.

    ``snapshot``: sequence number of the newest whole one, 0 where there is none, None where a
    writer of unknown fate may have written one.
    """

    def __init__(self, rule: SnapshotRule, writer: str, parts: Mapping[str, str]) -> None:
        """``parts``: what the state depends on, to be told once."""
        self.rule = rule
        self.writer = writer
        self.last = NO_COMMIT
        self.snapshot: int | None = 0
        self._parts: Mapping[str, str] | None = parts
        self._live: deque[Live] = deque()
        self._live_bytes = 0
        self._deltas = 0  # since the last snapshot began
        self._unwritten: Iterator[Piece] | None = None
        self._replacing = False  # whether the last commit finished a snapshot
        self._begun_bytes = self._written_bytes = 0
        self._ratio = 1.0  # of a snapshot's bytes to those that the state said

    def commit(self, state: State, clocks: pl.DataFrame, next_offset: int) -> list[Record]:
        """Advance to the next commit and return its records."""
        self.last = Commit(self.last.sequence + 1, self.writer, self.last.writer)
        records = [*self._told(), *self._replaced()]
        before_bytes = self._live_bytes
        pieces = chunks(DELTA, self.last, [state.changes()], clocks, next_offset)
        records += map(self._record, pieces)
        delta_bytes = self._live_bytes - before_bytes
        self._deltas += 1
        if self._is_due(state, delta_bytes):
            records += self._begin(state, clocks, next_offset)
        records += self._next_chunks(max(CHUNK_BYTES, 2 * delta_bytes))
        return records

    def _told(self) -> list[Record]:
        parts, self._parts = self._parts, None
        return [] if parts is None else [(OPERATOR_KEY, encode_operator(parts))]

    def _replaced(self) -> Iterator[Record]:
        """Return tombstones for what the snapshot stands for that the last commit finished."""
        by, finished, self._replacing = self.snapshot or 0, self._replacing, False
        if not finished:
            return iter(())
        return self._tombstones(
            lambda it: it.sequence < by or (it.sequence == by and it.kind == DELTA)
        )

    def _is_due(self, state: State, delta_bytes: int) -> bool:
        rule = self.rule
        if not rule.is_due(self._live_bytes, self._deltas, 0) and self._unwritten is None:
            return False
        if self.last.sequence % min(_ASKED_EVERY, rule.commits) and delta_bytes < rule.bytes // 8:
            return False
        if self._unwritten is not None:  # of a state most of which is gone: not worth finishing
            return state.size_bytes() < self._begun_bytes // 2
        state_bytes = int(state.size_bytes() * self._ratio)
        return rule.is_due(self._live_bytes, self._deltas, state_bytes)

    def _begin(self, state: State, clocks: pl.DataFrame, next_offset: int) -> Iterator[Record]:
        """Take a snapshot of the state, and drop what is left of one that was never finished."""
        self._unwritten = chunks(SNAPSHOT, self.last, state.snapshot(), clocks, next_offset)
        self._begun_bytes, self._written_bytes, self._deltas = state.size_bytes(), 0, 0
        if self.snapshot is None:
            return iter(())
        return self._tombstones(lambda it: it.kind == SNAPSHOT and it.sequence != self.snapshot)

    def _next_chunks(self, at_least_bytes: int) -> Iterator[Record]:
        """Return what this commit writes of a snapshot under way."""
        until_bytes = self._written_bytes + at_least_bytes
        while self._unwritten is not None and self._written_bytes < until_bytes:
            piece = next(self._unwritten)
            key, value = self._record(piece)
            self._written_bytes += len(value)
            if piece.last:
                self._finish(piece.commit.sequence)
            yield key, value

    def _finish(self, sequence: int) -> None:
        self._unwritten, self.snapshot, self._replacing = None, sequence, True
        if self._written_bytes >= CHUNK_BYTES:  # of less, most is overhead
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
        self, last: Commit, snapshot: int | None, live: Iterable[Live], *, told: bool
    ) -> None:
        """Go on after what was read back; ``told``: what the state depends on is there."""
        self.last, self.snapshot = last, snapshot
        self._parts = None if told else self._parts
        self._live = deque(live)
        self._live_bytes = sum(each.size_bytes for each in self._live)
        self._deltas = last.sequence - (snapshot or 0)


def record(piece: Piece) -> tuple[bytes, bytes]:
    """Return a piece as a record."""
    sequence, writer, _ = piece.commit
    return f"{piece.kind}/{sequence}/{writer}/{piece.chunk}".encode(), encode(piece)


def chunks(
    kind: str, commit: Commit, state: Iterable[Changes], clocks: pl.DataFrame, next_offset: int
) -> Iterator[Piece]:
    """Cut changes into chunks of about CHUNK_BYTES at most, each made when it is asked for."""
    held = Piece(kind, commit, 0, next_offset, {})
    for changes in state:
        cut = list(_cut(changes))
        for number, frames in enumerate(cut, 1):
            if held.changes:
                yield held
                held = replace(held, chunk=held.chunk + 1)
            held = replace(held, changes=frames, continues=number < len(cut))
    yield replace(held, clocks=clocks, last=True)


def _cut(changes: Changes) -> Iterator[dict[str, pl.DataFrame]]:
    frames: dict[str, pl.DataFrame] = {}
    room = CHUNK_BYTES
    for name, frame in changes.items():
        for slice_ in _slices(frame):
            size = int(slice_.estimated_size())
            if frames and (size > room or name in frames):
                yield frames
                frames, room = {}, CHUNK_BYTES
            frames[name] = slice_
            room -= size
    if frames:
        yield frames


def _slices(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    parts = int(frame.estimated_size()) // CHUNK_BYTES + 1
    return frame.iter_slices(max(1, -(-frame.height // parts)))
