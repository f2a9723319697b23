"""Pieces of a changelog survive their bytes."""

from dataclasses import replace

import pytest

from tests.serde.samples import ROWS, SEGMENT
from tidemark.core.operators.portions import BEGIN, Place
from tidemark.core.time.clock import ClockTable
from tidemark.errors import StateError
from tidemark.serde.avro import AvroType
from tidemark.serde.changelog import (
    DELTA,
    Commit,
    Piece,
    decode,
    decode_heading,
    decode_operator,
    encode,
    encode_operator,
)
from tidemark.serde.frames import encode_tables
from tidemark.serde.segments import encode_segment


def test_changelog_piece_survives_its_bytes():
    clocks = ClockTable(["moves"])
    clocks.enter(SEGMENT)
    clocks.leave(SEGMENT)
    changes = {"runs": ROWS, "ends": ROWS.clear()}
    commit = Commit(7, "w", "v")
    piece = Piece(DELTA, commit, 1, 9, changes, clocks.state(), last=True, continues=True)
    back = decode(encode(piece))

    assert (back.kind, back.commit, back.chunk, back.next_offset) == (DELTA, commit, 1, 9)
    assert back.last
    assert back.continues
    assert back.clocks is not None
    assert back.clocks.equals(clocks.state())
    assert decode(encode(replace(piece, clocks=None))).clocks is None
    assert decode_heading(encode(piece)) == (commit, True)
    assert back.changes.keys() == piece.changes.keys()
    for name, frame in piece.changes.items():
        assert back.changes[name].equals(frame)
        assert back.changes[name].schema == frame.schema


def test_an_operator_survives_its_bytes_and_is_no_piece():
    parts = {"key": "player: String", "windows": "tumbling(1m)"}
    assert decode_operator(encode_operator(parts)) == parts
    with pytest.raises(StateError, match="ChangelogPiece"):
        decode(encode_operator(parts))


def test_segment_is_no_changelog_piece():
    with pytest.raises(StateError, match="ChangelogPiece"):
        decode(encode_segment(SEGMENT))


def test_a_place_within_a_segment_survives_its_bytes():
    for place in (BEGIN, Place(20_000), Place(20_000, -5)):
        piece = Piece(DELTA, Commit(7, "w", "v"), 0, 9, {}, last=True, place=place)
        assert decode(encode(piece)).place == place


def test_the_count_of_rows_handed_on_survives_its_bytes():
    piece = Piece(DELTA, Commit(7, "w", "v"), 0, 9, {}, last=True, handed_on=2**40)
    assert decode(encode(piece)).handed_on == 2**40


@pytest.mark.parametrize("schema", ["changelog_1", "changelog_2"])
def test_a_piece_of_an_older_schema_is_still_read(schema):
    piece = Piece(DELTA, Commit(7, "w", "v"), 0, 9, {"runs": ROWS}, last=True)
    record = {
        "kind": DELTA,
        **piece.commit._asdict(),
        "chunk": 0,
        "last": True,
        "continues": False,
        "next_offset": 9,
        "clocks": None,
        "tables": encode_tables(piece.changes),
    }
    back = decode(AvroType.of_file(schema).encode(record))
    assert (back.commit, back.next_offset, back.place) == (piece.commit, 9, BEGIN)
    assert back.handed_on == 0
    assert back.changes["runs"].equals(ROWS)
