import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.core.rows.keys import (
    KEY_GROUPS,
    key_bytes,
    key_groups,
    murmur2,
    murmur2_all,
    partitions_of,
    row_groups,
)
from tidemark.core.time.segment import SOURCE

# As printed by org.apache.kafka.common.utils.Utils.murmur2.
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "hashed"), JAVA.items())
def test_hash_is_that_of_java(key: bytes, hashed: int):
    assert murmur2(key) == hashed


def test_many_keys_hash_as_java_does():
    assert murmur2_all(list(JAVA)).view(np.int32).tolist() == list(JAVA.values())


@given(st.lists(st.binary(max_size=40) | st.binary(min_size=250, max_size=270)))
def test_many_keys_hash_as_one_does(keys: list[bytes]):
    assert murmur2_all(keys).view(np.int32).tolist() == [murmur2(key) for key in keys]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["a", "é", "", None], [b"a", "é".encode(), b"", b""]),
        ([42, -1, None], [b"42", b"-1", b""]),
        ([True, False], [b"true", b"false"]),
        ([0.0, -0.0, 1.5], [b"0.0", b"0.0", b"1.5"]),
    ],
)
def test_key_of_one_column_is_text_or_json(values: list[object], expected: list[bytes]):
    assert key_bytes(pl.DataFrame({"k": values}), ["k"]) == expected


def test_key_of_several_columns_is_a_json_array():
    rows = pl.DataFrame({"k": ["a", 'q"\n', None], "n": [1, 2, 3]})

    assert key_bytes(rows, ["n", "k"]) == [b'[1,"a"]', b'[2,"q\\"\\n"]', b"[3,null]"]


@given(
    st.lists(
        st.tuples(
            st.none() | st.text(max_size=3) | st.characters(max_codepoint=0x7F),
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.booleans(),
            st.none() | st.floats(allow_nan=False, allow_infinity=False),
        )
    )
)
def test_keys_are_written_as_json_writes_them(values: list[tuple[object, ...]]):
    schema = {"text": pl.String, "n": pl.Int64, "yes": pl.Boolean, "x": pl.Float64}
    rows = pl.DataFrame(values, schema=schema, orient="row")
    arrays = [[value or 0.0 if type(value) is float else value for value in row] for row in values]
    written = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in arrays]
    assert key_bytes(rows, [*schema]) == [text.encode() for text in written]


KEYS = st.lists(
    st.tuples(
        st.none() | st.sampled_from(["a", "b", "é"]) | st.text(max_size=3),
        st.none() | st.integers(-3, 3),
        st.none() | st.booleans(),
        st.none() | st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")]),
    ),
    max_size=30,
)
COLUMNS = {"s": pl.String(), "n": pl.Int64(), "b": pl.Boolean(), "x": pl.Float64()}


@given(KEYS, st.lists(st.sampled_from(list(COLUMNS)), min_size=1, unique=True))
def test_each_row_is_in_the_group_of_its_own_key(rows: list[tuple[object, ...]], key: list[str]):
    frame = pl.DataFrame(rows, schema=COLUMNS, orient="row")

    expected = [(murmur2(of) & 0x7FFFFFFF) % KEY_GROUPS for of in key_bytes(frame, key)]
    assert key_groups(frame, key).tolist() == expected
    assert partitions_of(frame, key, 5).tolist() == [group % 5 for group in expected]


def test_partition_is_that_of_a_java_producer():
    names = [f"user-{number}" for number in range(200)]
    rows = pl.DataFrame({"k": names})

    java = [(murmur2(name.encode()) & 0x7FFFFFFF) % 8 for name in names]
    assert partitions_of(rows, ["k"], 8).tolist() == java


def test_rows_without_a_key_stay_in_the_partition_of_their_raw_topic():
    rows = pl.DataFrame({SOURCE: [0, 1, 1, 2]})
    sources = ["a/b/5", "c/0", "c/130"]
    assert row_groups(rows, (), sources).tolist() == [5, 0, 0, 2]
    assert partitions_of(rows, (), 4, sources).tolist() == [1, 0, 0, 2]
