"""Pieces of a changelog survive their bytes."""

from dataclasses import replace

import pytest

from tests.serde.samples import ROWS, SEGMENT
from tidemark.core.time.clock import ClockTable
from tidemark.errors import StateError
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
