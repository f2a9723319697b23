"""Pieces of keyed state as messages of a changelog topic: ``schemas/changelog.avsc``."""

from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from tidemark.core.operator import Changes
from tidemark.runtime.serde.avro import AvroType
from tidemark.runtime.serde.frames import (
    decode_frame,
    decode_tables,
    encode_frame,
    encode_tables,
)

DELTA = "delta"
SNAPSHOT = "snapshot"

_PIECE = AvroType.of_file("changelog")


class Commit(NamedTuple):
    """A commit of a log partition: its number, its writer, and the writer of the one before it.

    Only one of the writers that try for a number succeeds, namely the one whose name is committed
    with the offset; so a commit, and with it every commit before, is named without doubt.
    """

    sequence: int = 0
    writer: str = ""
    previous: str = ""


NO_COMMIT = Commit()
"""Before the first commit of a log partition."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Chunk ``chunk`` of the ``chunks`` that a commit's changes, or all state after it, have.

    ``clocks`` is the operator's clock table after the commit, as ``ClockTable.state`` gives it.
    """

    kind: str  # DELTA | SNAPSHOT
    sequence: int
    chunk: int
    chunks: int
    clocks: pl.DataFrame
    changes: Changes
    writer: str = ""
    previous: str = ""

    @property
    def commit(self) -> Commit:
        """The commit that this is a piece of."""
        return Commit(self.sequence, self.writer, self.previous)


def encode(piece: Piece) -> bytes:
    """Return a piece as the value of a changelog record."""
    return _PIECE.encode(
        {
            "kind": piece.kind,
            "sequence": piece.sequence,
            "writer": piece.writer,
            "previous": piece.previous,
            "chunk": piece.chunk,
            "chunks": piece.chunks,
            "clocks": encode_frame(piece.clocks),
            "tables": encode_tables(piece.changes),
        }
    )


def decode(data: bytes) -> Piece:
    """Read a piece.

    Raises:
        StateError: the bytes are no piece of this version, or damaged.
    """
    record = _PIECE.decode(data)
    return Piece(
        kind=record["kind"],
        sequence=record["sequence"],
        writer=record["writer"],
        previous=record["previous"],
        chunk=record["chunk"],
        chunks=record["chunks"],
        clocks=decode_frame(record["clocks"], "ChangelogPiece, clocks"),
        changes=decode_tables(record["tables"], "ChangelogPiece"),
    )
