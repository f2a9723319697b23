"""Prefixes and stretches of lines against merging them one by one; with an order that shows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tidemark.core.aggregates import constructors as agg
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.state.prefixes import merge_groups, merged_ranges, prefixes


@dataclass(frozen=True)
class Spelt:
    """Join the texts of rows in the order in which they are merged."""

    skips_nulls_of = ("text",)

    def type(self, _name, _columns) -> pl.DataType:
        return pl.String()

    def parts(self, name, rows) -> list[pl.Series]:
        return [rows["text"].alias(f"{name}.text")]

    def merge(self, name, _present: Sequence[str]) -> list[pl.Expr]:
        return [pl.col(f"{name}.text").str.join()]

    def value(self, name, partials: pl.DataFrame, _columns) -> pl.Series:
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


EACH = Aggregation(
    {
        "rows": agg.count(),
        "known": agg.count("n"),
        "total": agg.sum("n"),
        "mean": agg.mean("n"),
        "least": agg.min("n"),
        "greatest": agg.max("n"),
        "latest": agg.max("at"),
        "earliest": agg.min("day"),
    },
    {"n": pl.Int64(), "at": pl.Datetime("ms"), "day": pl.Date()},
)
WIDE = st.integers(-(2**63), 2**63 - 1)
NUMBERS = st.lists(st.lists(st.none() | WIDE, min_size=1, max_size=9), min_size=1, max_size=5)


@given(NUMBERS)
def test_running_aggregates_are_those_of_all_rows_so_far(groups):
    """Sums are exact beyond 64 bits, and a null takes nothing away."""
    number = np.repeat(np.arange(len(groups)), [len(values) for values in groups])
    values = [value for values in groups for value in values]
    small = [None if value is None else value % 10_000 for value in values]
    rows = pl.DataFrame(
        {"n": values, "at": small, "day": small},
        schema={"n": pl.Int64, "at": pl.Int64, "day": pl.Int32},
    ).with_columns(pl.col("at").cast(pl.Datetime("ms")), pl.col("day").cast(pl.Date))
    row_partials = EACH.row_partials(rows)
    made = EACH.values(prefixes(EACH, row_partials, number))
    first = np.searchsorted(number, number)
    for place in range(rows.height):
        so_far = row_partials[int(first[place]) : place + 1]
        merged = EACH.combine([so_far.with_columns(g=0)], ("g",))
        assert EACH.values(merged).row(0) == made.row(place)


def test_running_forms_are_used_and_only_where_they_hold():
    """An extreme of floats skips NaN, which a running one does not."""
    group = np.array([0, 0])
    whole = EACH.row_partials(pl.DataFrame({"n": [1, 2], "at": [1, 2], "day": [1, 2]}))
    assert EACH.running(whole, group) is not None
    floats = Aggregation({"greatest": agg.max("n")}, {"n": pl.Float64()})
    assert (
        floats.running(floats.row_partials(pl.DataFrame({"n": [float("nan"), 1.0]})), group) is None
    )


@given(GROUPS)
def test_groups_are_merged_whole(groups):
    number = np.repeat(np.arange(len(groups)), [len(texts) for texts in groups])
    made = merge_groups(SPELT, lines([text for texts in groups for text in texts]), number)
    assert SPELT.values(made)["all"].to_list() == ["".join(texts) for texts in groups]


@given(st.text("abcdef", max_size=40), st.integers(1, 20))
def test_stretches_are_all_lines_of_a_length(text, length):
    begin = np.arange(max(len(text) - length + 1, 0))
    made = merged_ranges(SPELT, lines(list(text)), begin, length)
    assert SPELT.values(made)["all"].to_list() == [text[n : n + length] for n in begin]
