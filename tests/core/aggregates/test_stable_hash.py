"""Stable hashes never change, and do not depend on the values beside them."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tidemark.core.aggregates.stable_hash import stable_hashes

HASHES = {
    "int": [0, 6238072747940578789, 13029008266876403067],
    "float": [0, 0, 16657480027015623784],
    "text": [
        0,
        8291194924787932887,
        12787361338798520532,
        5496656088855040881,
        10521085410690964690,
    ],
}


def test_hashes_never_change():
    """State in changelogs depends on them."""
    assert stable_hashes(pl.Series([0, 1, -1])).tolist() == HASHES["int"]
    assert stable_hashes(pl.Series([0.0, -0.0, 1.5])).tolist() == HASHES["float"]
    texts = pl.Series(["", "a", "12345678", "123456789", "ä" * 40])
    assert stable_hashes(texts).tolist() == HASHES["text"]


@given(st.lists(st.text() | st.sampled_from(["a\0", "a", "\0" * 8, "\0" * 9])))
def test_hashes_of_texts_are_those_of_each_alone(texts):
    series = pl.Series(texts, dtype=pl.String)
    alone = [stable_hashes(pl.Series([text])).item() for text in texts]

    assert stable_hashes(series).tolist() == alone
    assert stable_hashes(series[1:]).tolist() == alone[1:]
    assert len(set(alone)) == len(set(texts))
