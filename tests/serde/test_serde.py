import hashlib
import json
import math
import struct
from base64 import b64decode
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal

import fastavro
import polars as pl
import pytest
from fastavro.validation import validate
from hypothesis import given
from hypothesis import strategies as st

from tidemark.core.time.clock import ClockTable
from tidemark.core.time.segment import FOREVER_MS, NEVER_MS, ROW_COLUMNS, Segment, SourceMark
from tidemark.core.windows.pane import PANE_COLUMNS
from tidemark.errors import PipelineError, StateError
from tidemark.serde.avro import schema_file
from tidemark.serde.avro_results import AvroResults
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
from tidemark.serde.dead_letters import KEPT_BYTES, encode_dead_letters
from tidemark.serde.frames import decode_frame, encode_frame
from tidemark.serde.json_results import JsonResults
from tidemark.serde.records import DeadLetter
from tidemark.serde.segments import decode_segment, encode_segment

VALUES = {
    "key": pl.String(),
    "n": pl.Int64(),
    "x": pl.Float64(),
    "ok": pl.Boolean(),
    "tags": pl.List(pl.String()),
}
ROWS = pl.DataFrame(
    [
        (0, 5, 0, -1, NEVER_MS, "a", 2**63 - 1, 0.1, True, ["x", None]),
        (1, 0, 3, FOREVER_MS, 7, None, None, None, None, None),
    ],
    schema={**ROW_COLUMNS, **VALUES},
    orient="row",
)
SEGMENT = Segment(
    epoch=2,
    part=1,
    sources=(
        SourceMark("moves/0", 5, 6, NEVER_MS, 7),
        SourceMark("größe/12", 0, 1, 7, FOREVER_MS, idle=True, silence_ms=99),
    ),
    partitions={"moves": 1, "größe": 13},
    ingested_at_ms=1_700_000_000_000,
    streams={"moves": ROWS, "more": ROWS.select(*ROW_COLUMNS, "key").clear()},
)


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
    assert back.clocks.equals(piece.clocks)
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


KEY = {"key": pl.String(), "n": pl.Int64()}
AGGREGATES = {"pops": pl.Int64(), "mean": pl.Float64()}
PANES = pl.DataFrame(
    [
        ("a", 1, 0, 10, 2, "on_time", True, False, 5, 0.1),
        ('"\n\u2028é', 2, 10, 20, 3, "late", False, True, None, None),
        (None, 3, -20, -10, 1, "late", True, False, None, -0.0),
    ],
    schema={**KEY, **PANE_COLUMNS, **AGGREGATES},
    orient="row",
)
LATE = pl.DataFrame(
    [("moves/0", 5, 0, 3, 100, "a", 1, 0, 10, 90), ("a.b-c/12", 6, 1, 4, 200, None, 2, 0, 10, 190)],
    schema={
        **ROW_COLUMNS,
        "@source": pl.String(),
        **KEY,
        "start": pl.Int64(),
        "end": pl.Int64(),
        "late_by_ms": pl.Int64(),
    },
    orient="row",
)


def json_results() -> JsonResults:
    return JsonResults(list(KEY), list(AGGREGATES), list(KEY))


def avro_results() -> AvroResults:
    return AvroResults("game.pops-per-minute", KEY, AGGREGATES, KEY)


def test_panes_are_json_objects_under_their_key_and_start():
    keys, values = json_results().panes(PANES)

    assert [json.loads(key) for key in keys] == [
        ["a", 1, 0], ['"\n\u2028é', 2, 10], [None, 3, -20],
    ]  # fmt: skip
    assert values[0] == (
        b'{"key":"a","n":1,"start":0,"end":10,"revision":2,"timing":"on_time","final":true,'
        b'"pops":5,"mean":0.1}'
    )


def test_retraction_has_no_values():
    _, values = json_results().panes(PANES)

    assert json.loads(values[1]) == {
        "key": '"\n\u2028é',
        "n": 2,
        "start": 10,
        "end": 20,
        "revision": 3,
        "timing": "late",
        "final": False,
        "retracted": True,
    }


def test_panes_of_the_end_of_input_say_so():
    _, values = json_results().panes(PANES.with_columns(end_of_input=pl.lit(value=True)))

    assert all(json.loads(value)["end_of_input"] for value in values)


@pytest.mark.parametrize("results", [json_results(), avro_results()])
def test_nothing_makes_no_messages(results: JsonResults | AvroResults):
    assert results.panes(PANES.clear()) == ([], [])
    assert results.late(LATE.clear()) == ([], [])


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=3), min_size=1, max_size=4))
def test_rows_left_of_several_chunks_have_their_keys(chunks: list[list[bool]]):
    late = pl.concat([LATE[:1]] * sum(map(len, chunks))).rechunk().with_row_index("at")
    late = late.with_columns(n=pl.col("at").cast(pl.Int64))
    cut, at = [], 0
    for chunk in chunks:
        cut.append(late[at : at + len(chunk)].rechunk())
        at += len(chunk)
    kept = pl.Series([keep for chunk in chunks for keep in chunk])
    left = pl.concat(cut, rechunk=False).filter(kept)

    for results in (json_results(), avro_results()):
        keys, _ = results.late(left)
        assert [json.loads(key) for key in keys] == [["a", n] for n in left["n"]]


@given(st.lists(st.floats() | st.none(), min_size=1, max_size=20))
def test_floats_read_back_to_the_same_bits(floats: list[float | None]):
    panes = pl.concat([PANES[:1]] * len(floats)).with_columns(
        pl.Series("mean", floats, dtype=pl.Float64)
    )
    back = [json.loads(value)["mean"] for value in json_results().panes(panes)[1]]

    for one, other in zip(floats, back, strict=True):
        if one is None or not math.isfinite(one):
            assert other is None
        else:
            assert struct.pack("d", one) == struct.pack("d", other)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5))
def test_texts_read_back(texts: list[str]):
    panes = pl.concat([PANES[:1]] * len(texts)).with_columns(pl.Series("key", texts))
    keys, values = json_results().panes(panes)

    assert [json.loads(value)["key"] for value in values] == texts
    assert [json.loads(key)[0] for key in keys] == texts


def test_integers_beyond_64_bits_are_written_in_full():
    wide = PANES.with_columns(pl.Series("pops", [2**100, None, -5], dtype=pl.Int128))

    assert json.loads(json_results().panes(wide)[1][0])["pops"] == 2**100
    avro = avro_results()
    first, _, third = [avro.pane_type.decode(value) for value in avro.panes(wide)[1]]
    assert (first["pops"], third["pops"]) == (Decimal(2**100), -5)


def test_a_decimal_beyond_38_digits_is_text_and_changes_no_pane_beside_it():
    dtype, beyond = pl.Decimal(38, 2), f"-{10**36}.07"
    avro = AvroResults("game.spent", KEY, {"spent": dtype, "mean": pl.Float64()}, KEY)
    panes = PANES.drop("pops")
    texts = panes.with_columns(pl.Series("spent", [beyond, "9.47", None]))
    plain = panes[1:].with_columns(pl.Series("spent", [Decimal("9.47"), None], dtype))

    values = avro.panes(texts)[1]
    assert avro.pane_type.decode(values[0])["spent"] == beyond
    assert values[1:] == avro.panes(plain)[1]


def test_late_row_tells_why_and_which_record():
    keys, values = json_results().late(LATE)

    assert keys == [b'["a",1]', b"[null,2]"]
    assert json.loads(values[1]) == {
        "reason": "late",
        "start": 0,
        "end": 10,
        "late_by_ms": 190,
        "own_watermark_ms": 200,
        "event_time_ms": 4,
        "topic": "a.b-c",
        "partition": 12,
        "offset": 6,
        "sub_row": 1,
        "row": {"key": None, "n": 2},
    }


def test_categorical_sources_are_texts_too():
    categorical = LATE.with_columns(pl.col("@source").cast(pl.Categorical))

    assert json_results().late(categorical) == json_results().late(LATE)


def test_avro_holds_what_json_holds():
    avro, as_json = avro_results(), json_results()

    assert avro.panes(PANES)[0] == as_json.panes(PANES)[0]
    for value, line in zip(avro.panes(PANES)[1], as_json.panes(PANES)[1], strict=True):
        defaults = {"retracted": False, "end_of_input": False, "pops": None, "mean": None}
        assert avro.pane_type.decode(value) == {**defaults, **json.loads(line)}
    assert [avro.late_type.decode(value) for value in avro.late(LATE)[1]] == [
        json.loads(line) for line in as_json.late(LATE)[1]
    ]


@pytest.mark.parametrize("columns", [{"a b": pl.Int64()}, {"when": pl.Datetime("ms")}])
def test_avro_refuses_columns_it_does_not_know(columns: dict[str, pl.DataType]):
    with pytest.raises(PipelineError, match=next(iter(columns))):
        AvroResults("game.pops", KEY, columns, KEY)


def letter(key: bytes | None, value: bytes | None, timestamp_ms: int = 7) -> dict[str, object]:
    dead = DeadLetter("why", "parse", "moves", 3, 9, timestamp_ms, key, value)
    _, (encoded,) = encode_dead_letters([dead])
    decoded: dict[str, object] = json.loads(encoded)
    assert validate(decoded, fastavro.parse_schema(schema_file("dead_letter")))
    return decoded


def test_dead_letter_shows_the_record():
    assert letter(b"k", '{"é'.encode()) == {
        "reason": "why",
        "stage": "parse",
        "topic": "moves",
        "partition": 3,
        "offset": 9,
        "timestamp_ms": 7,
        "key": "k",
        "value": '{"é',
    }


def test_dead_letter_without_key_value_or_timestamp_has_nulls():
    shown = letter(None, None, timestamp_ms=-1)

    assert (shown["key"], shown["value"], shown["timestamp_ms"]) == (None, None, None)


def test_bytes_that_are_no_text_are_base64():
    shown = letter(b"\xfe", b"\xff{")

    assert (shown["value_encoding"], b64decode(shown["value"])) == ("base64", b"\xff{")
    assert (shown["key_encoding"], b64decode(shown["key"])) == ("base64", b"\xfe")


@pytest.mark.parametrize("value", [("a" + "é" * KEPT_BYTES).encode(), b"\xff" * (KEPT_BYTES + 1)])
def test_long_value_is_cut_and_told_by_length_and_hash(value: bytes):
    shown = letter(value, value)
    text = str(shown["value"])
    kept = b64decode(text) if "value_encoding" in shown else text.encode()

    assert value.startswith(kept)
    assert KEPT_BYTES - 3 <= len(kept) <= KEPT_BYTES
    assert shown["value_length"] == len(value)
    assert shown["value_sha256"] == hashlib.sha256(value).hexdigest()
    assert shown["key_length"] == len(value)


def test_message_keys_of_dead_letters_are_those_of_the_records():
    dead = [DeadLetter("why", "parse", "moves", 3, 9, 7, key, b"") for key in (b"\xff", None)]

    assert encode_dead_letters(dead)[0] == [b"\xff", None]
