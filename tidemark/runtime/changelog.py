"""The changelog of one operator on one log partition: keyed state as a compacted topic.

Records, by key:

* ``delta/SEQUENCE/CHUNK``: what the commit with that sequence number changed.  Every commit has
  one, since every commit moves the clock.
* ``snapshot/SEQUENCE/CHUNK``: all state as it stood after that commit.  A snapshot is written over
  several commits, a bounded number of bytes in each; one that is not whole means nothing.
* tombstones for what a whole snapshot replaces.  They save space and carry no meaning.

To restore: the newest whole snapshot, then every later delta.  Their numbers must follow each
other without a gap and end with the number that was committed with the offset.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from tidemark.core.operator import Changes
from tidemark.errors import StateError
from tidemark.runtime.serde.changelog import DELTA, SNAPSHOT, Piece, decode, encode

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
    """The writer's side; ``sequence`` is that of the last commit."""

    rule: SnapshotRule
    sequence: int = 0
    # Keys that stand for live state: replaced and not yet replaced by a snapshot.
    _keys: deque[tuple[int, bytes]] = field(default_factory=deque)
    _delta_commits: int = 0
    _delta_bytes: int = 0
    _snapshot_bytes: int = 0
    _unwritten: deque[Piece] = field(default_factory=deque)

    @property
    def snapshot_due(self) -> bool:
        """Whether the next call of ``snapshot`` is worth its bytes."""
        least = max(self.rule.bytes, self._snapshot_bytes)
        return not self._unwritten and (
            self._delta_commits >= self.rule.commits or self._delta_bytes >= least
        )

    def delta(self, changes: Changes, clocks: pl.DataFrame) -> Iterator[Record]:
        """Advance to the next commit and return its records."""
        self.sequence += 1
        self._delta_commits += 1
        for piece in _pieces(DELTA, self.sequence, [changes], clocks):
            key, value = _record(piece)
            self._keys.append((self.sequence, key))
            self._delta_bytes += len(value)
            yield key, value

    def snapshot(self, state: Iterable[Changes], clocks: pl.DataFrame) -> None:
        """Begin a snapshot of the state after the last commit."""
        self._unwritten.extend(_pieces(SNAPSHOT, self.sequence, state, clocks))
        self._delta_commits = self._delta_bytes = self._snapshot_bytes = 0

    def snapshot_records(self) -> Iterator[Record]:
        """Return what this commit writes of a snapshot under way, and then what it replaces."""
        written = 0
        while self._unwritten and written < _BYTES_PER_COMMIT:
            piece = self._unwritten.popleft()
            key, value = _record(piece)
            written += len(value)
            self._snapshot_bytes += len(value)
            self._keys.append((piece.sequence, key))
            yield key, value
            if not self._unwritten:
                yield from self._replaced(piece.sequence)

    def _replaced(self, sequence: int) -> Iterator[Record]:
        """Return tombstones for all that the snapshot of ``sequence`` stands for."""
        kept: deque[tuple[int, bytes]] = deque()
        for number, key in self._keys:
            if number > sequence or key.startswith(_prefix(SNAPSHOT, sequence)):
                kept.append((number, key))
            else:
                yield key, None
        self._keys = kept

    def resume(self, journal: "Journal") -> None:
        """Go on after what was read back."""
        self.sequence = journal.sequence
        self._keys = deque(sorted((_sequence(key), key) for key in journal.records))
        self._delta_commits = journal.deltas
        self._delta_bytes = sum(map(len, journal.records.values()))


@dataclass
class Journal:
    """The reader's side: the records of a changelog, the latest of each key."""

    where: str
    records: dict[bytes, bytes] = field(default_factory=dict)
    sequence: int = 0
    deltas: int = 0

    def add(self, key: bytes, value: bytes | None) -> None:
        """Take the next record."""
        if value is None:
            self.records.pop(key, None)
        else:
            self.records[key] = value

    def pieces(self, committed: int) -> Iterator[Piece]:
        """Return whole pieces in the order in which they apply, up to the committed one."""
        by_kind = _by_kind_and_sequence(self.records)
        snapshots, deltas = by_kind[SNAPSHOT], by_kind[DELTA]
        whole = [number for number, found in snapshots.items() if _is_whole(found)]
        self.sequence = max(whole, default=0)
        if whole:
            yield _joined(snapshots[self.sequence])
        for number in sorted(number for number in deltas if number > self.sequence):
            if number != self.sequence + 1 or not _is_whole(deltas[number]):
                raise self._broken(committed)
            yield _joined(deltas[number])
            self.sequence = number
            self.deltas += 1
        if self.sequence != committed:
            raise self._broken(committed)

    def _broken(self, committed: int) -> StateError:
        return StateError(
            f"{self.where}: the changelog goes without a gap to commit {self.sequence}, the offset "
            f"was committed with {committed}; start the pipeline afresh with 'tidemark reset'"
        )


def _pieces(
    kind: str, sequence: int, changes: Iterable[Changes], clocks: pl.DataFrame
) -> list[Piece]:
    """Cut named frames into pieces of at most about CHUNK_BYTES."""
    cut = [frames for each in changes for frames in _cut(each)] or [{}]
    return [
        Piece(kind, sequence, chunk, len(cut), clocks, frames) for chunk, frames in enumerate(cut)
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


def _by_kind_and_sequence(records: Mapping[bytes, bytes]) -> dict[str, dict[int, dict[int, Piece]]]:
    found: dict[str, dict[int, dict[int, Piece]]] = {DELTA: {}, SNAPSHOT: {}}
    for piece in map(decode, records.values()):
        found[piece.kind].setdefault(piece.sequence, {})[piece.chunk] = piece
    return found


def _is_whole(pieces: Mapping[int, Piece]) -> bool:
    return len(pieces) == next(iter(pieces.values())).chunks


def _record(piece: Piece) -> tuple[bytes, bytes]:
    return _prefix(piece.kind, piece.sequence) + str(piece.chunk).encode(), encode(piece)


def _prefix(kind: str, sequence: int) -> bytes:
    return f"{kind}/{sequence}/".encode()


def _sequence(key: bytes) -> int:
    return int(key.split(b"/")[1])
