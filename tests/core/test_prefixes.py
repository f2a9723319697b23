"""Prefixes and stretches of lines against merging them one by one; with an order that shows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tidemark.core.aggregate import Aggregation
from tidemark.core.prefixes import grouped, prefixes, stretches


@dataclass(frozen=True)
class Spelt:
    """Join the texts of rows in the order in which they are merged."""

    def type(self, _name, _columns) -> pl.DataType:
        return pl.String()

    def parts(self, name, rows) -> list[pl.Series]:
        return [rows["text"].alias(f"{name}.text")]

    def merge(self, name, _present: Sequence[str]) -> list[pl.Expr]:
        return [pl.col(f"{name}.text").str.join()]

    def value(self, name, partials, _columns) -> pl.Series:
        return partials[f"{name}.text"]


SPELT = Aggregation({"all": Spelt()}, {"text": pl.String()})


def lines(texts):
    frame = pl.DataFrame({"n": range(len(texts)), "text": texts}, schema_overrides=TEXT)
    return SPELT.partials(frame, ("n",)).sort("n").drop("n")


TEXT = {"n": pl.Int64, "text": pl.String}
GROUPS = st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=9), max_size=5)


@given(GROUPS)
def test_prefixes_are_those_of_each_group(groups):
    number = np.repeat(np.arange(len(groups)), [len(texts) for texts in groups])
    made = prefixes(SPELT, lines([text for texts in groups for text in texts]), number)
    assert SPELT.values(made)["all"].to_list() == [
        "".join(texts[: n + 1]) for texts in groups for n in range(len(texts))
    ]


@given(GROUPS)
def test_groups_are_merged_whole(groups):
    number = np.repeat(np.arange(len(groups)), [len(texts) for texts in groups])
    made = grouped(SPELT, lines([text for texts in groups for text in texts]), number)
    assert SPELT.values(made)["all"].to_list() == ["".join(texts) for texts in groups]


@given(st.text("abcdef", max_size=40), st.integers(1, 20))
def test_stretches_are_all_lines_of_a_length(text, length):
    begin = np.arange(max(len(text) - length + 1, 0))
    made = stretches(SPELT, lines(list(text)), begin, length)
    assert SPELT.values(made)["all"].to_list() == [text[n : n + length] for n in begin]
