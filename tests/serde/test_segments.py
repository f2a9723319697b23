"""Segments and their frames survive their bytes; damaged bytes are an error that says so."""

from contextlib import suppress
from dataclasses import replace

import fastavro
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serde.samples import ROWS, SEGMENT
from tidemark.core.time.segment import Segment
from tidemark.errors import StateError
from tidemark.serde.avro import schema_file
from tidemark.serde.frames import decode_frame, encode_frame
from tidemark.serde.segments import decode_segment, encode_segment

TYPES: list[pl.DataType] = [
    *(pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64(), pl.Int128()),
    *(pl.UInt8(), pl.UInt16(), pl.UInt32(), pl.UInt64(), pl.UInt128()),
    *(pl.Float32(), pl.Float64(), pl.Decimal(10, 2), pl.Boolean()),
    *(pl.String(), pl.Date(), pl.Time(), pl.Duration("us")),
    *(pl.Datetime("ms"), pl.Datetime("us", "Europe/Berlin")),
]


def same(one: Segment, other: Segment) -> bool:
    """Whether segments are equal, frames and their types included."""
    frames = one.streams.keys() == other.streams.keys() and all(
        frame.equals(other.streams[name]) and frame.schema == other.streams[name].schema
        for name, frame in one.streams.items()
    )
    return frames and replace(one, streams={}) == replace(other, streams={})


def test_segment_survives_its_bytes():
    assert same(decode_segment(encode_segment(SEGMENT)), SEGMENT)


def test_heartbeat_survives_its_bytes():
    heartbeat = replace(SEGMENT, streams={})

    assert same(decode_segment(encode_segment(heartbeat)), heartbeat)


def test_rows_taken_from_larger_frames_survive():
    sliced = replace(SEGMENT, streams={"moves": pl.concat([ROWS, ROWS])[1:3]})

    assert same(decode_segment(encode_segment(sliced)), sliced)


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_columns_of_every_type_survive(type_: pl.DataType):
    columns = pl.Series("n", [1, None, 3]).cast(type_).to_frame()

    for frame in (columns, columns[1:], columns.clear(), pl.concat([columns, columns])):
        decoded = decode_frame(encode_frame(frame), "columns")
        assert decoded.equals(frame)
        assert decoded.schema == frame.schema


def test_columns_of_different_types_survive_together():
    wide = pl.Series([2**100, None], dtype=pl.Int128)
    frame = ROWS.with_columns(wide.alias("wide"), pl.Series("e", ["x", None], pl.Enum(["y", "x"])))
    decoded = decode_frame(encode_frame(frame), "columns")

    assert decoded.equals(frame)
    assert decoded.schema == frame.schema


def test_only_the_streams_asked_for_are_decoded():
    data = encode_segment(SEGMENT)

    assert list(decode_segment(data, ["more"]).streams) == ["more"]
    assert decode_segment(data, []).streams == {}


def test_segment_is_an_avro_single_object():
    data = encode_segment(SEGMENT)
    canonical = fastavro.schema.to_parsing_canonical_form(schema_file("segment"))
    crc = fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")

    assert data[:2] == b"\xc3\x01"
    assert data[2:10].hex() == crc


@given(st.data())
def test_damaged_segment_is_a_state_error_or_a_segment(data: st.DataObject):
    encoded = bytearray(encode_segment(SEGMENT))
    end = data.draw(st.integers(0, len(encoded)))
    flips = data.draw(st.dictionaries(st.integers(0, len(encoded) - 1), st.integers(1, 255)))
    for at, bits in flips.items():
        encoded[at] ^= bits
    with suppress(StateError):
        decode_segment(bytes(encoded[:end]))


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data + b"\0"])
def test_cut_or_longer_segment_is_a_state_error(damage):
    with pytest.raises(StateError, match="Segment"):
        decode_segment(damage(encode_segment(SEGMENT)))


def test_rows_that_are_no_rows_are_a_state_error():
    odd = replace(SEGMENT, streams={"moves": pl.DataFrame({"a": [1]})})

    with pytest.raises(StateError, match="'moves'"):
        decode_segment(encode_segment(odd))
