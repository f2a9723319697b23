"""Blocks of state hold their own texts, not those of the segments that their rows came from."""

import numpy as np
import polars as pl
import pytest

from tidemark.core.state.block_store import MemoryStore
from tidemark.core.state.own_buffers import buffer_bytes, copied, with_own_buffers

ROWS = 5_000
AT = np.arange(0, ROWS, 100)

TEXT = pl.Series("v", [f"a text that no view can hold, number {n}" * 5 for n in range(ROWS)])
BYTES = TEXT.cast(pl.Binary)
STRUCT = pl.DataFrame({"n": np.arange(ROWS), "t": TEXT}).to_struct("v")
LIST = pl.DataFrame([STRUCT]).select(pl.concat_list("v", "v")).to_series()
ARRAY = pl.DataFrame([TEXT]).select(pl.concat_arr("v", "v")).to_series()


@pytest.mark.parametrize(
    "column", [TEXT, BYTES, STRUCT, LIST, ARRAY], ids=lambda c: str(c.dtype)[:6]
)
@pytest.mark.parametrize("part_of", [lambda frame: frame[AT], lambda frame: frame[100:150]])
def test_rows_of_a_large_frame_leave_its_texts(column, part_of):
    part = part_of(pl.DataFrame([column]))
    assert buffer_bytes(part["v"]) > 20 * part.estimated_size(), "polars shares the buffers"

    block = MemoryStore().put(0, part)

    assert buffer_bytes(block.frame()["v"]) < 2 * part.estimated_size()
    assert block.frame().schema == part.schema
    assert block.frame().equals(part)


def test_null_stays_null():
    values = [None, [None], [{"n": None, "t": None}], [{"n": 1, "t": "a"}], []]
    nulls = pl.Series("v", values, dtype=pl.List(pl.Struct({"n": pl.Int64, "t": pl.String})))
    column = pl.concat([nulls, LIST[:0], pl.Series("v", [[STRUCT[0]]] * ROWS, dtype=nulls.dtype)])
    part = pl.DataFrame([column])[:5]

    assert with_own_buffers(part).equals(pl.DataFrame([nulls]))


def test_a_frame_with_its_own_texts_is_not_copied():
    frame = pl.DataFrame({"v": TEXT.to_list(), "n": np.arange(ROWS)})

    assert with_own_buffers(frame) is frame


def test_arrays_without_values_have_no_texts_to_copy():
    empty = pl.Series("v", [[], []], dtype=pl.Array(pl.String, 0))

    assert copied(empty).equals(empty)


def test_types_that_arrow_lacks_stay_as_they_are():
    wide = pl.DataFrame({"w": pl.Series([2**100] * ROWS, dtype=pl.Int128), "t": TEXT})
    part = pl.DataFrame([wide.to_struct("s"), wide["w"], TEXT])[AT]

    made = with_own_buffers(part)

    assert made.equals(part)
    assert made.schema == part.schema
