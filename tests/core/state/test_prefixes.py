"""Prefixes and stretches of lines against merging them one by one; with an order that shows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.aggregating import (
    COLUMNS,
    ORDERED,
    bits,
    filtered_by_where,
    frame,
    row_lists,
)
from tidemark.core.aggregates import constructors as agg
from tidemark.core.aggregates.aggregate import ROWS, Aggregation
from tidemark.core.state.blocks import stacked
from tidemark.core.state.prefixes import merge_groups, merged_ranges, prefixes
from tidemark.core.time.segment import ARRIVAL


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


CHOOSING = {
    column: Aggregation(
        {
            "least": agg.min(column),
            "greatest": agg.max(column),
            "first": agg.first(column),
            "arrived": agg.last(column, order="arrival"),
            "of_least": agg.min_by("list", by=column),
            "of_greatest": agg.max_by("text", by=column),
            "top": agg.top_k("list", 3, by=column),
            "row": agg.latest(column, "list"),
        },
        COLUMNS,
    )
    for column in ORDERED
}


@given(row_lists(), st.sampled_from(ORDERED), st.booleans(), st.randoms(use_true_random=False))
def test_running_choices_are_those_of_all_lines_so_far(rows, column, some, choose):
    """A line is the merge of some rows; with ``where`` of none, now and then."""
    aggregation = filtered_by_where(CHOOSING[column]) if some else CHOOSING[column]
    line = sorted(choose.randrange(1 + len(rows)) for _ in rows)
    drawn = np.array(sorted(choose.randrange(4) for _ in set(line)), np.int64)
    group = np.unique(drawn, return_inverse=True)[1]
    placed = frame(rows).with_columns(pl.Series("line", line, pl.Int64))
    lines = aggregation.partials(placed, ("line",)).sort("line").drop("line")

    made = aggregation.values(prefixes(aggregation, lines, group))

    first = np.searchsorted(group, group).tolist()
    so_far = [lines[low : at + 1].with_columns(at=at) for at, low in enumerate(first)]
    merged = aggregation.combine(so_far, ("at",)).sort("at") if so_far else lines
    assert bits(made.rows(named=True)) == bits(aggregation.values(merged).rows(named=True))


@pytest.mark.parametrize("aggregation", [EACH, *CHOOSING.values()])
def test_numbers_and_choices_have_running_forms(aggregation):
    nulls = {name: pl.lit(None, dtype) for name, dtype in aggregation.columns.items()}
    rows = frame([{}, {}]).with_columns(pl.lit(0).alias(ARRIVAL), **nulls)
    assert aggregation.running(aggregation.row_partials(rows), np.array([0, 0])) is not None


@pytest.mark.parametrize("choose", [agg.min_by, agg.max_by])
def test_a_line_without_rows_is_never_chosen(choose):
    aggregation = Aggregation({"chosen": choose("int", by="float")}, COLUMNS)
    of_row = aggregation.row_partials(frame([{"int": 5, "float": 1.0}]))
    lines = stacked([pl.DataFrame({ROWS: [0]}), of_row])
    made = aggregation.values(prefixes(aggregation, lines, np.array([0, 0])))
    assert made["chosen"].to_list() == [None, 5]
    merged = aggregation.combine([lines.with_columns(g=0)], ("g",))
    assert aggregation.values(merged)["chosen"].to_list() == [5]


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
