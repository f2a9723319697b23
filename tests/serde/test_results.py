"""Panes and late rows as JSON and as Avro: the same values, and no bit lost."""

import json
import math
import struct
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serde.samples import AGGREGATES, KEY, LATE, PANES
from tidemark.core.operators.ports import (
    REASON,
    ROWS,
    UPSERT,
    Port,
    RowTime,
    late_port,
    pane_port,
)
from tidemark.core.windows.pane import RETRACTED, REVISION
from tidemark.errors import PipelineError
from tidemark.serde.avro_results import AvroEncoder
from tidemark.serde.json_results import JsonEncoder

PANE_PORT = pane_port(tuple(KEY), KEY, AGGREGATES)
LATE_PORT = late_port(tuple(KEY), KEY)
TOPIC = "game.pops-per-minute"


def json_panes() -> JsonEncoder:
    return JsonEncoder(PANE_PORT)


def json_late() -> JsonEncoder:
    return JsonEncoder(LATE_PORT)


def avro_panes() -> AvroEncoder:
    return AvroEncoder(TOPIC, PANE_PORT)


def avro_late() -> AvroEncoder:
    return AvroEncoder(f"{TOPIC}.late", LATE_PORT)


def test_panes_are_json_objects_under_their_key_and_start():
    keys, values = json_panes().encode(PANES)

    assert [json.loads(key) for key in keys] == [
        ["a", 1, 0], ['"\n\u2028é', 2, 10], [None, 3, -20],
    ]  # fmt: skip
    assert values[0] == (
        b'{"key":"a","n":1,"start":0,"end":10,"revision":2,"timing":"on_time","final":true,'
        b'"pops":5,"mean":0.1}'
    )


def test_withdrawal_has_no_values():
    _, values = json_panes().encode(PANES)

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
    _, values = json_panes().encode(PANES.with_columns(end_of_input=pl.lit(value=True)))

    assert all(json.loads(value)["end_of_input"] for value in values)


@pytest.mark.parametrize("panes", [json_panes(), avro_panes()])
@pytest.mark.parametrize("late", [json_late(), avro_late()])
def test_nothing_makes_no_messages(
    panes: JsonEncoder | AvroEncoder, late: JsonEncoder | AvroEncoder
):
    assert [*map(len, panes.encode(PANES.clear()))] == [0, 0]
    assert [*map(len, late.encode(LATE.clear()))] == [0, 0]


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

    encoders: tuple[JsonEncoder | AvroEncoder, ...] = (json_late(), avro_late())
    for encoder in encoders:
        keys, _ = encoder.encode(left)
        assert [json.loads(key) for key in keys] == [["a", n] for n in left["n"]]


@given(st.lists(st.floats() | st.none(), min_size=1, max_size=20))
def test_floats_read_back_to_the_same_bits(floats: list[float | None]):
    panes = pl.concat([PANES[:1]] * len(floats)).with_columns(
        pl.Series("mean", floats, dtype=pl.Float64)
    )
    back = [json.loads(value)["mean"] for value in json_panes().encode(panes)[1]]

    for one, other in zip(floats, back, strict=True):
        if one is None or not math.isfinite(one):
            assert other is None
        else:
            assert struct.pack("d", one) == struct.pack("d", other)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5))
def test_texts_read_back(texts: list[str]):
    panes = pl.concat([PANES[:1]] * len(texts)).with_columns(pl.Series("key", texts))
    keys, values = json_panes().encode(panes)

    assert [json.loads(value)["key"] for value in values] == texts
    assert [json.loads(key)[0] for key in keys] == texts


def test_integers_beyond_64_bits_are_written_in_full():
    wide = PANES.with_columns(pl.Series("pops", [2**100, None, -5], dtype=pl.Int128))

    assert json.loads(json_panes().encode(wide)[1][0])["pops"] == 2**100
    avro = avro_panes()
    first, _, third = [avro.avro.decode(value) for value in avro.encode(wide)[1]]
    assert (first["pops"], third["pops"]) == (Decimal(2**100), -5)


def test_a_decimal_beyond_38_digits_is_text_and_changes_no_pane_beside_it():
    dtype, beyond = pl.Decimal(38, 2), f"-{10**36}.07"
    values = {"spent": dtype, "mean": pl.Float64()}
    avro = AvroEncoder("game.spent", pane_port(tuple(KEY), KEY, values))
    panes = PANES.drop("pops")
    texts = panes.with_columns(pl.Series("spent", [beyond, "9.47", None]))
    plain = panes[1:].with_columns(pl.Series("spent", [Decimal("9.47"), None], dtype))

    messages = avro.encode(texts)[1]
    assert avro.avro.decode(messages[0])["spent"] == beyond
    assert [*messages[1:]] == [*avro.encode(plain)[1]]


def test_late_row_tells_why_and_which_record():
    keys, values = json_late().encode(LATE)

    assert [*keys] == [b'["a",1]', b"[null,2]"]
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


def test_a_late_row_of_a_stream_with_a_column_reason_is_late_for_the_same_reason():
    columns = {**KEY, "reason": pl.String()}
    rows = LATE.with_columns(reason=pl.lit("hungry"))
    encoder = JsonEncoder(late_port(tuple(KEY), columns))

    late = json.loads(encoder.encode(rows)[1][0])
    assert (late["reason"], late["row"]["reason"]) == ("late", "hungry")


def test_an_operator_says_why_a_row_is_late():
    said = LATE.with_columns(pl.lit("too many pairs").alias(REASON))

    late = json.loads(json_late().encode(said)[1][0])
    assert late["reason"] == "too many pairs"
    assert set(late["row"]) == set(KEY)


def test_categorical_sources_are_texts_too():
    categorical = LATE.with_columns(pl.col("@source").cast(pl.Categorical))

    assert json_late().encode(categorical) == json_late().encode(LATE)


def test_avro_holds_what_json_holds():
    avro, as_json = avro_panes(), json_panes()

    assert avro.encode(PANES)[0] == as_json.encode(PANES)[0]
    for value, line in zip(avro.encode(PANES)[1], as_json.encode(PANES)[1], strict=True):
        defaults = {"retracted": False, "end_of_input": False, "pops": None, "mean": None}
        assert avro.avro.decode(value) == {**defaults, **json.loads(line)}
    late = avro_late()
    assert [late.avro.decode(value) for value in late.encode(LATE)[1]] == [
        json.loads(line) for line in json_late().encode(LATE)[1]
    ]


def test_avro_with_the_id_of_a_registry_is_read_as_the_present_schema():
    panes = avro_panes()
    (value, *_) = panes.encode(PANES)[1]
    registered = b"\0\0\0\0\7" + value[len(panes.avro.header) :]
    assert panes.decode(registered) == panes.decode(value) == panes.avro.decode(value)


@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.none() | st.decimals(-10, 10, places=2),
            st.none() | st.lists(st.none() | st.text("ab")),
        )
    )
)
def test_rows_that_are_no_panes_are_in_avro_what_they_are_in_json(
    pairs: list[tuple[bool, Decimal | None, list[str | None] | None]],
):
    """A withdrawal has no values, whatever the operator's frame holds."""
    columns = {
        "key": pl.String(), "id": pl.Int64(), REVISION: pl.Int64(), RETRACTED: pl.Boolean(),
        "price": pl.Decimal(12, 2), "tags": pl.List(pl.String()),
    }  # fmt: skip
    port = Port(
        "pairs", ROWS, columns, ("key",), ("key", "id"), ("key", "id"), RowTime("id"),
        values=("price", "tags"), mode=UPSERT,
    )  # fmt: skip
    rows = pl.DataFrame(
        [("a", number, 1, *pair) for number, pair in enumerate(pairs)], columns, orient="row"
    )
    avro, as_json = AvroEncoder("shop.pairs", port), JsonEncoder(port)

    assert avro.encode(rows)[0] == as_json.encode(rows)[0]
    for value, line in zip(avro.encode(rows)[1], as_json.encode(rows)[1], strict=True):
        found = avro.avro.decode(value)
        if found["price"] is not None:
            found["price"] = str(found["price"])
        defaults = {"retracted": False, "price": None, "tags": None}
        assert found == {**defaults, **json.loads(line)}


@pytest.mark.parametrize("columns", [{"a b": pl.Int64()}, {"when": pl.Duration("ms")}])
def test_avro_refuses_columns_it_does_not_know(columns: dict[str, pl.DataType]):
    with pytest.raises(PipelineError, match=next(iter(columns))):
        AvroEncoder("game.pops", pane_port(tuple(KEY), KEY, columns))
