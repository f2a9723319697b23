"""Pieces of keyed state as records of a changelog topic: ``schemas/changelog.avsc``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from tidemark.core.operators.operator import Changes
from tidemark.core.operators.portions import BEGIN, Place
from tidemark.serde.avro import AvroType
from tidemark.serde.frames import (
    decode_frame,
    decode_tables,
    encode_frame,
    encode_tables,
)

DELTA = "delta"
SNAPSHOT = "snapshot"

_PIECE = AvroType.of_file("changelog", "changelog_1", "changelog_2")
_OPERATOR = AvroType.of_file("operator")


class Commit(NamedTuple):
    """A commit of a log partition: its number, its writer, and the writer of the commit before.

    If several writers try for a number, only one succeeds: the writer whose name is committed with
    the offset.  So number and writer identify a commit and, through ``previous``, all before it.
    """

    sequence: int = 0
    writer: str = ""
    previous: str = ""


NO_COMMIT = Commit()
"""The state before the first commit of a log partition."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the changes of a commit, or of a snapshot after it; its number is ``chunk``.

    ``next_offset``: the offset of the log that the operator reads next.  ``place``: how much of the
    segment there is processed.  ``handed_on``: how many rows the operator has handed on to others
    until there.  ``clocks``: in the last chunk, the clock table before that segment,
    as ``ClockTable.state`` returns it.  ``continues``: whether the changes continue in the next
    chunk.
    """

    kind: str  # DELTA | SNAPSHOT
    commit: Commit
    chunk: int
    next_offset: int
    changes: Changes
    clocks: pl.DataFrame | None = None
    last: bool = False
    continues: bool = False
    place: Place = BEGIN
    handed_on: int = 0


def encode(piece: Piece) -> bytes:
    """Return a piece as the value of a changelog record."""
    return _PIECE.encode(
        {
            "kind": piece.kind,
            **piece.commit._asdict(),
            "chunk": piece.chunk,
            "last": piece.last,
            "continues": piece.continues,
            "next_offset": piece.next_offset,
            "rows": piece.place.rows,
            "published_ms": piece.place.published_ms,
            "handed_on": piece.handed_on,
            "clocks": None if piece.clocks is None else encode_frame(piece.clocks),
            "tables": encode_tables(piece.changes),
        }
    )


def decode(data: bytes) -> Piece:
    """Return the piece in the value of a changelog record.

    Raises:
        StateError: the bytes have another schema, or are damaged.
    """
    record = _PIECE.decode(data)
    clocks = record["clocks"]
    return Piece(
        kind=record["kind"],
        commit=_commit(record),
        chunk=record["chunk"],
        next_offset=record["next_offset"],
        changes=decode_tables(record["tables"], "ChangelogPiece"),
        clocks=None if clocks is None else decode_frame(clocks, "ChangelogPiece, clocks"),
        last=record["last"],
        continues=record["continues"],
        place=Place(record["rows"], record["published_ms"]),
        handed_on=record["handed_on"],
    )


def decode_heading(data: bytes) -> tuple[Commit, bool]:
    """Return the commit of a piece, and whether it is the last piece; does not decode frames."""
    record = _PIECE.decode(data)
    return _commit(record), record["last"]


def _commit(record: dict[str, Any]) -> Commit:
    return Commit(record["sequence"], record["writer"], record["previous"])


def encode_operator(parts: Mapping[str, str]) -> bytes:
    """Return the state signature of an operator as the value of a changelog record."""
    return _OPERATOR.encode({"parts": dict(parts)})


def decode_operator(data: bytes) -> dict[str, str]:
    """Return the state signature of an operator.

    Raises:
        StateError: the bytes have another schema, or are damaged.
    """
    parts: dict[str, str] = _OPERATOR.decode(data)["parts"]
    return parts
