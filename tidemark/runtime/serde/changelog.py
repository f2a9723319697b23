"""Pieces of keyed state as messages of a changelog topic: ``schemas/changelog.avsc``."""

from dataclasses import dataclass

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


def encode(piece: Piece) -> bytes:
    """Return a piece as the value of a changelog record."""
    return _PIECE.encode(
        {
            "kind": piece.kind,
            "sequence": piece.sequence,
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
        chunk=record["chunk"],
        chunks=record["chunks"],
        clocks=decode_frame(record["clocks"], "ChangelogPiece, clocks"),
        changes=decode_tables(record["tables"], "ChangelogPiece"),
    )
