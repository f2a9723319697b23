"""The changelog of one operator on one log partition: keyed state as a compacted topic.

Records, by key:

* ``delta/SEQUENCE/WRITER/CHUNK``: what the commit with that sequence number changed.  Every commit
  has one, since every commit moves the clock.
* ``snapshot/SEQUENCE/WRITER/CHUNK``: all state as it stood after that commit.  A snapshot is
  written over several commits, a bounded number of bytes in each; one that is not whole means
  nothing.
* tombstones for what a whole snapshot replaces.  They save space and carry no meaning; they are
  written when the commits that wrote the snapshot are committed.

Every piece names its writer and that of the commit before.  To restore: from the commit whose
number and writer are committed with the offset back along its predecessors to a whole snapshot or
to the beginning; then forward.  What is not on that way was written by a process that did not get
to commit it, which only a transaction rules out (docs/operations.md, "Guarantees").
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from tidemark.core.operator import Changes
from tidemark.errors import StateError
from tidemark.runtime.serde.changelog import (
    DELTA,
    NO_COMMIT,
    SNAPSHOT,
    Commit,
    Piece,
    decode,
    encode,
)

CHUNK_BYTES = 4 * 2**20
_BYTES_PER_COMMIT = 16 * 2**20

Record = tuple[bytes, bytes | None]
"""Key and value of a changelog record; a tombstone has no value."""


@dataclass(frozen=True)
class SnapshotRule:
    """When a snapshot is due: after so many commits, or bytes of deltas (at least its own size)."""

    commits: int
    bytes: int


@dataclass
class Changelog:
    """The writer's side; ``last`` is the last commit, ``writer`` names this process."""

    rule: SnapshotRule
    writer: str
    last: Commit = NO_COMMIT
    # Keys that stand for live state: replaced and not yet replaced by a snapshot.
    _keys: deque[tuple[int, bytes]] = field(default_factory=deque)
    _delta_commits: int = 0
    _delta_bytes: int = 0
    _snapshot_bytes: int = 0
    _unwritten: deque[Piece] = field(default_factory=deque)
    _written: Commit | None = None  # the snapshot whose last piece the last commit wrote

    @property
    def snapshot_due(self) -> bool:
        """Whether the next call of ``snapshot`` is worth its bytes."""
        least = max(self.rule.bytes, self._snapshot_bytes)
        return not self._unwritten and (
            self._delta_commits >= self.rule.commits or self._delta_bytes >= least
        )

    def delta(self, changes: Changes, clocks: pl.DataFrame) -> Iterator[Record]:
        """Advance to the next commit and return its records."""
        self.last = Commit(self.last.sequence + 1, self.writer, self.last.writer)
        self._delta_commits += 1
        for piece in _pieces(DELTA, self.last, [changes], clocks):
            key, value = _record(piece)
            self._keys.append((piece.sequence, key))
            self._delta_bytes += len(value)
            yield key, value

    def snapshot(self, state: Iterable[Changes], clocks: pl.DataFrame) -> None:
        """Begin a snapshot of the state after the last commit."""
        self._unwritten.extend(_pieces(SNAPSHOT, self.last, state, clocks))
        self._delta_commits = self._delta_bytes = self._snapshot_bytes = 0

    def snapshot_records(self) -> Iterator[Record]:
        """Return what this commit drops of what a snapshot replaced, and writes of the next."""
        if self._written is not None:
            yield from self._replaced(self._written)
            self._written = None
        written = 0
        while self._unwritten and written < _BYTES_PER_COMMIT:
            piece = self._unwritten.popleft()
            key, value = _record(piece)
            written += len(value)
            self._snapshot_bytes += len(value)
            self._keys.append((piece.sequence, key))
            yield key, value
            if not self._unwritten:
                self._written = piece.commit

    def _replaced(self, by: Commit) -> Iterator[Record]:
        """Return tombstones for all that the snapshot of a commit stands for."""
        kept: deque[tuple[int, bytes]] = deque()
        for number, key in self._keys:
            if number > by.sequence or key.startswith(_prefix(SNAPSHOT, by)):
                kept.append((number, key))
            else:
                yield key, None
        self._keys = kept

    def resume(self, journal: "Journal") -> None:
        """Go on after what was read back."""
        self.last = journal.last
        self._keys = deque(sorted((_sequence(key), key) for key in journal.records))
        self._delta_commits = journal.deltas
        self._delta_bytes = sum(map(len, journal.records.values()))


@dataclass
class Journal:
    """The reader's side: the records of a changelog, the latest of each key."""

    where: str
    records: dict[bytes, bytes] = field(default_factory=dict)
    last: Commit = NO_COMMIT
    deltas: int = 0
    _pieces: dict[str, dict[tuple[int, str], dict[int, Piece]]] | None = None

    def add(self, key: bytes, value: bytes | None) -> None:
        """Take the next record."""
        self._pieces = None
        if value is None:
            self.records.pop(key, None)
        else:
            self.records[key] = value

    def has(self, commit: Commit) -> bool:
        """Whether the commit was written in full."""
        return not commit.sequence or any(
            _is_whole(found.get(commit[:2])) for found in self._by_kind().values()
        )

    def pieces(self, committed: Commit) -> Iterator[Piece]:
        """Return whole pieces in the order in which they apply, up to the committed one."""
        by_kind = self._by_kind()
        way: list[Piece] = []
        sequence, writer = committed[:2]
        while sequence and not (way and way[-1].kind == SNAPSHOT):
            found = next(
                (
                    by_kind[kind][sequence, writer]
                    for kind in (SNAPSHOT, DELTA)
                    if _is_whole(by_kind[kind].get((sequence, writer)))
                ),
                None,
            )
            if found is None:
                raise self._broken(sequence, committed)
            way.append(_joined(found))
            sequence, writer = sequence - 1, way[-1].previous
        self.last = way[0].commit if way else NO_COMMIT
        self.deltas = sum(piece.kind == DELTA for piece in way)
        return reversed(way)

    def _by_kind(self) -> dict[str, dict[tuple[int, str], dict[int, Piece]]]:
        if self._pieces is None:
            self._pieces = {DELTA: {}, SNAPSHOT: {}}
            for piece in map(decode, self.records.values()):
                found = self._pieces[piece.kind].setdefault(piece.commit[:2], {})
                found[piece.chunk] = piece
        return self._pieces

    def _broken(self, missing: int, committed: Commit) -> StateError:
        return StateError(
            f"{self.where}: the changelog lacks commit {missing}, the offset was committed with "
            f"{committed.sequence}; start the pipeline afresh with 'tidemark reset'"
        )


def _pieces(
    kind: str, commit: Commit, changes: Iterable[Changes], clocks: pl.DataFrame
) -> list[Piece]:
    """Cut named frames into pieces of at most about CHUNK_BYTES."""
    cut = [frames for each in changes for frames in _cut(each)] or [{}]
    return [
        Piece(kind, commit.sequence, chunk, len(cut), clocks, frames, *commit[1:])
        for chunk, frames in enumerate(cut)
    ]


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


def _joined(pieces: Mapping[int, Piece]) -> Piece:
    ordered = [pieces[chunk] for chunk in sorted(pieces)]
    names = dict.fromkeys(name for piece in ordered for name in piece.changes)
    return replace(
        ordered[-1],
        changes={
            name: pl.concat([p.changes[name] for p in ordered if name in p.changes], how="diagonal")
            for name in names
        },
    )


def _is_whole(pieces: Mapping[int, Piece] | None) -> bool:
    return pieces is not None and len(pieces) == next(iter(pieces.values())).chunks


def _record(piece: Piece) -> tuple[bytes, bytes]:
    return _prefix(piece.kind, piece.commit) + str(piece.chunk).encode(), encode(piece)


def _prefix(kind: str, commit: Commit) -> bytes:
    return f"{kind}/{commit.sequence}/{commit.writer}/".encode()


def _sequence(key: bytes) -> int:
    return int(key.split(b"/")[1])
