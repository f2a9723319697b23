"""The replay of a changelog: it takes records in topic order and yields pieces in apply order.

See docs/operations.md, "Guarantees" and "Restore".  There are two cases:

* Every writer had transactions.  Then all readable records are committed, and the metadata of the
  committed offset names the newest whole snapshot.  Records that the snapshot replaced are dropped
  at once.  Chunks of the snapshot apply as they come.  Only the deltas written between its chunks
  are held, as bytes.
* Otherwise there may be pieces that a process wrote but could not commit.  Then all records are
  held until everything is read.  The replay follows the path from the commit that the offset names
  back over its predecessors, to a whole snapshot or to the beginning.  Pieces that are not on this
  path are ignored.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tidemark.errors import StateError
from tidemark.plan.changes import signature_changes
from tidemark.runtime.keyed.changelog import OPERATOR_KEY, Changelog, Live
from tidemark.serde.changelog import (
    DELTA,
    NO_COMMIT,
    SNAPSHOT,
    Commit,
    Piece,
    decode,
    decode_heading,
    decode_operator,
)

Place = tuple[str, int, int]
"""Kind, sequence number and chunk of a piece."""


@dataclass
class ChangelogReplay:
    """The reading side of a changelog.

    Args:
        where: the changelog's partition, for errors.
        operator: name of the operator.
        signature: the state signature of the operator, which the changelog must have too.
        snapshot: sequence number of the newest whole snapshot, 0 without one; None if the changelog
            may hold uncommitted pieces.
        last: the commit whose pieces were yielded last.
    """

    where: str
    operator: str
    signature: Mapping[str, str]
    snapshot: int | None
    last: Commit = NO_COMMIT
    _found: Mapping[str, str] | None = None
    _held: dict[Place, dict[str, bytes]] = field(default_factory=dict)  # by writer
    _live: dict[bytes, Live] = field(default_factory=dict)
    _next: Place = (DELTA, 1, 0)

    def __post_init__(self) -> None:
        if self.snapshot:
            self._next = (SNAPSHOT, self.snapshot, 0)

    @property
    def is_empty(self) -> bool:
        """Whether the changelog has no live records of state."""
        return not self._live

    def add(self, key: bytes, value: bytes | None) -> None:
        """Take the next record of the topic."""
        if key == OPERATOR_KEY:
            self._found = None if value is None else decode_operator(value)
            return
        kind, sequence, writer, chunk = self._named(key)
        place = (kind, sequence, chunk)
        if value is None:
            self._live.pop(key, None)
            self._held.get(place, {}).pop(writer, None)
            return
        self._live[key] = Live(kind, sequence, key, len(value))
        if not self._is_replaced(kind, sequence):
            self._held.setdefault(place, {})[writer] = value

    def _named(self, key: bytes) -> tuple[str, int, str, int]:
        try:
            kind, sequence, writer, chunk = key.decode().split("/")
            return kind, int(sequence), writer, int(chunk)
        except ValueError:
            raise StateError(
                f"{self.where}: a record with the key {key!r} is not of a changelog"
            ) from None

    def _is_replaced(self, kind: str, sequence: int) -> bool:
        if self.snapshot is None:
            return False
        return sequence < self.snapshot or (sequence == self.snapshot and kind == DELTA)

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces that have come and are next; none if all records must be read first."""
        while self.snapshot is not None and self._found == self.signature:
            by_writer = self._held.pop(self._next, {})
            if not by_writer:
                return
            for value in by_writer.values():
                piece = decode(value)
                if len(by_writer) > 1 or not self._follows(piece):
                    raise self._two_writers(piece)
                yield self._advanced(piece)

    def _follows(self, piece: Piece) -> bool:
        return piece.kind == SNAPSHOT or piece.commit.previous == self.last.writer

    def _two_writers(self, piece: Piece) -> StateError:
        return StateError(
            f"{self.where}: commit {piece.commit.sequence} was written by two processes, although "
            f"both used transactions. {self._advice()}"
        )

    def _advanced(self, piece: Piece) -> Piece:
        if piece.last:
            self.last = piece.commit
            self._next = (DELTA, piece.commit.sequence + 1, 0)
        else:
            self._next = (piece.kind, piece.commit.sequence, piece.chunk + 1)
        return piece

    def has(self, commit: Commit) -> bool:
        """Whether all chunks of a commit, or of the snapshot after it, are held."""
        return not commit.sequence or any(
            self._chunks(kind, *commit[:2]) for kind in (SNAPSHOT, DELTA)
        )

    def rest(self, commit: Commit) -> Iterator[Piece]:
        """Yield the rest of the pieces up to a commit, once all records have come.

        Raises:
            StateError: the changelog is of another operator, or lacks what the commit needs.
        """
        if commit.sequence:
            self.require_state(commit)
        if self.snapshot is not None:
            yield from self.pieces()
        else:
            for kind, sequence, writer, chunks in self._path(commit):
                for chunk in range(chunks):
                    yield self._advanced(decode(self._held.pop((kind, sequence, chunk))[writer]))
        if self.last[:2] != commit[:2] or self._next[2]:
            raise self._lacks(self._next[1], commit)

    def _path(self, commit: Commit) -> list[tuple[str, int, str, int]]:
        """Return kind, number, writer and chunks of pieces, from a whole snapshot to a commit."""
        path: list[tuple[str, int, str, int]] = []
        sequence, writer = commit[:2]
        while sequence and not (path and path[-1][0] == SNAPSHOT):
            kind = SNAPSHOT
            if not (chunks := self._chunks(SNAPSHOT, sequence, writer)):
                kind, chunks = DELTA, self._chunks(DELTA, sequence, writer)
            if not chunks:
                raise self._lacks(sequence, commit)
            path.append((kind, sequence, writer, chunks))
            heading, _ = decode_heading(self._held[kind, sequence, 0][writer])
            sequence, writer = sequence - 1, heading.previous
        return path[::-1]

    def _chunks(self, kind: str, sequence: int, writer: str) -> int:
        """Return the number of chunks of a piece that is held whole, else 0."""
        chunks = 0
        while writer in self._held.get((kind, sequence, chunks), ()):
            chunks += 1
        if not chunks:
            return 0
        _, last = decode_heading(self._held[kind, sequence, chunks - 1][writer])
        return chunks if last else 0

    def resume(self, changelog: Changelog) -> None:
        """Let a writer continue after the records that were read."""
        live = sorted(self._live.values(), key=lambda each: each.sequence)
        has_signature = self._found == self.signature
        changelog.resume(self.last, self.snapshot, live, has_signature=has_signature)

    def require_state(self, commit: Commit) -> None:
        """Require that the changelog has state, and that it is this operator's.

        Raises:
            StateError: it is empty, or of an operator with another signature.
        """
        if self.is_empty:
            raise StateError(
                f"{self.where}: the changelog of operator {self.operator!r} is empty, but its "
                f"log is at commit {commit.sequence}: it was deleted. {self._advice()}"
            )
        if self._found is None or self._found == self.signature:
            return
        found, declared = self._found, self.signature
        raise StateError(
            f"{self.where}: the state of operator {self.operator!r} has another signature: "
            f"{signature_changes(found, declared)}. {_kept(found, declared)}Undo the change, give "
            f"the operator another name, or: {self._advice()}"
        )

    def _lacks(self, missing: int, commit: Commit) -> StateError:
        return StateError(
            f"{self.where}: the changelog lacks commit {missing}, and the committed offset needs "
            f"all up to {commit.sequence}. {self._advice()}"
        )

    def _advice(self) -> str:
        return f"'tidemark reset PIPELINE --operator {self.operator}' starts it afresh from its log"


def _kept(found: Mapping[str, str], declared: Mapping[str, str]) -> str:
    """Return a sentence about a new stream, or about sessions of the former default lateness.

    Empty for other changes.
    """
    if found.get("key") == declared.get("key") and found.get("stream") != declared.get("stream"):
        return "It reads other rows now, or its rows ended while their log went on. "
    if declared.get("windows") != f"{found.get('windows')}, strict":
        return ""
    return (
        'Sessions are strict by default; window(..., lateness="after_merging") goes on with this '
        "state. "
    )
