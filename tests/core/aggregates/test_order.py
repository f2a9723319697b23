"""Quantiles, top values and sketches against plain Python: no cut shows in any bit."""

import math
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.support.aggregating import (
    ALL_TYPES,
    BY,
    COLUMNS,
    ORDERED,
    Row,
    bits,
    expected,
    filtered_by_where,
    frame,
    merged,
    of_taken,
    one,
    row_lists,
    shown,
)
from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.aggregates.top import MOST_TIES
from tidemark.core.time.segment import OFFSET
from tidemark.errors import PipelineError

NUMBERS = ("int", "float", "decimal")
KINDS: dict[str, tuple[Sequence[str], Callable[[str], Any]]] = {
    "median": (NUMBERS, aggregates.median),
    "tenth": (NUMBERS, lambda column: aggregates.quantile(column, 0.1)),
    "sketch": (NUMBERS, lambda column: aggregates.quantile(column, 0.7, approximate=True)),
    "top": (ORDERED, lambda column: aggregates.top_k(column, 2)),
    "largest": (ALL_TYPES, lambda column: aggregates.top_k(column, 3, by="float")),
    "most": (ORDERED, lambda column: aggregates.top_k("list", 2, by=column)),
    "ties": (ORDERED, lambda column: aggregates.top_k(column, 2, ties=True, ranks=True)),
    "ranks": (ORDERED, lambda column: aggregates.top_k(column, 2, ranks=True)),
    "mosties": (
        ORDERED,
        lambda column: aggregates.top_k("text", 2, by=column, ties=True, ranks=True),
    ),
    "counts": (ORDERED, aggregates.value_counts),
    "few": (ORDERED, lambda column: aggregates.value_counts(column, limit=2)),
    "about": (ORDERED, lambda column: aggregates.count_distinct(column, approximate=True)),
}
AGGREGATION = Aggregation(
    {
        f"{kind}_{column}": make(column)
        for kind, (columns, make) in KINDS.items()
        for column in columns
    },
    COLUMNS,
)
FILTERED = filtered_by_where(AGGREGATION)

# -- the oracle


def quantile(values: list[Any], q: float) -> float | None:
    doubles = [float(value) for value in values]
    ordered = sorted(value for value in doubles if value == value) or doubles
    if not ordered:
        return None
    position = (len(ordered) - 1) * q
    low = math.floor(position)
    share = position - low
    below, above = ordered[low], ordered[min(low + 1, len(ordered) - 1)]
    if share == 0 or below == above:
        return below + 0.0
    between = below * (1 - share) + above * share
    return min(max(between, below), above) + 0.0 if between == between else math.nan


def middle(value: float) -> float:
    """Return the middle of the bucket of a value."""
    (whole,) = struct.unpack(">q", struct.pack(">d", abs(value)))
    whole = whole >> 46 << 46
    if not math.isnan(value) and not math.isinf(value) and whole:
        whole |= 1 << 45
    (size,) = struct.unpack(">d", struct.pack(">q", whole))
    return math.copysign(size, value)


def one_zero(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value


def most_frequent(values: list[Any], k: int) -> list[Row]:
    counts = Counter(math.nan if value != value else one_zero(value) for value in values)
    order = sorted(counts.items(), key=lambda item: (-item[1], item[0] != item[0], item[0]))
    return [{"value": value, "count": count} for value, count in order[:k]]


def few_counts(values: list[Any], limit: int) -> list[Row] | None:
    counted = most_frequent(values, 1_000)
    return counted if len(counted) <= limit else None


def ranked(listed: list[Row], k: int, by: str) -> list[Row]:
    """Return the first k of a whole list in order, and those that tie with the last, with ranks."""
    shown: list[Row] = []
    for place, each in enumerate(listed, 1):
        tied = bool(shown) and bits(shown[-1][by]) == bits(each[by])
        rank = shown[-1]["rank"] if tied else place
        if rank <= k:
            shown.append({"rank": rank, **each})
    return shown


def largest(rows: list[Row], column: str, by: str, k: int) -> list[Row]:
    counted = [row for row in rows if row[by] is not None]
    numbers = [row for row in counted if row[by] == row[by]]
    ordered = sorted(numbers, key=lambda row: row[by], reverse=True)
    ordered += [row for row in counted if row[by] != row[by]]
    return [{"value": row[column], "by": one_zero(row[by])} for row in ordered[:k]]


def oracle(rows: list[Row]) -> Row:
    made: Row = {}
    for name in AGGREGATION.types:
        kind, _, column = name.partition("_")
        values = [row[column] for row in rows if row[column] is not None]
        made[name] = {
            "median": lambda v=values: quantile(v, 0.5),
            "tenth": lambda v=values: quantile(v, 0.1),
            "sketch": lambda v=values: quantile([middle(float(x)) for x in v], 0.7),
            "top": lambda v=values: most_frequent(v, 2),
            "largest": lambda c=column: largest(rows, c, "float", 3),
            "most": lambda c=column: largest(rows, "list", c, 2),
            "ties": lambda v=values: ranked(most_frequent(v, 1_000), 2, "count"),
            "ranks": lambda v=values: [
                {"rank": place, **each} for place, each in enumerate(most_frequent(v, 2), 1)
            ],
            "mosties": lambda c=column: ranked(largest(rows, "text", c, 1_000), 2, "by"),
            "counts": lambda v=values: few_counts(v, 1_000),
            "few": lambda v=values: few_counts(v, 2),
            # Of the few values here no two choose a register for which that would show.
            "about": lambda v=values: len({math.inf if x != x else one_zero(x) for x in v}),
        }[kind]()
    return made


def without_sketch(found: dict[Any, Row]) -> dict[Any, Row]:
    return {
        group: {k: v for k, v in row.items() if not k.startswith("about")}
        for group, row in found.items()
    }


@fewer(2)
@given(row_lists(), st.randoms(use_true_random=False))
def test_no_order_cut_or_merge_tree_shows_in_the_values(rows, choose):
    whole = AGGREGATION.partials(frame(rows), BY)

    found = merged(list(rows), choose, AGGREGATION)

    assert shown(found, AGGREGATION) == shown(whole, AGGREGATION)
    assert without_sketch(shown(found, AGGREGATION)) == without_sketch(expected(rows, oracle))


@fewer(4)
@given(row_lists(), st.randoms(use_true_random=False))
def test_only_the_rows_count_for_which_where_is_true(rows, choose):
    found = shown(merged(list(rows), choose, FILTERED), FILTERED)

    assert without_sketch(found) == without_sketch(expected(rows, of_taken(oracle)))


def test_values_have_the_types_promised_even_of_no_rows():
    nothing = AGGREGATION.partials(frame([]), BY)
    some = AGGREGATION.partials(frame([{"int": 3, "text": "a", "float": 1.0}]), BY)

    assert AGGREGATION.values(nothing).schema == AGGREGATION.types
    assert AGGREGATION.values(some).schema == AGGREGATION.types
    assert AGGREGATION.combine([nothing, nothing], BY).equals(nothing)


# -- single cases


@pytest.mark.parametrize(
    ("values", "q", "found"),
    [
        ([1, 2, 3, 4], 0.5, 2.5),
        ([4, 1, 3], 0.5, 3.0),
        ([10, 20], 0.25, 12.5),
        ([7], 0.99, 7.0),
        ([-(2**63), 2**63 - 1], 0.5, 0.0),
        ([None, 5, None], 0.0, 5.0),
        ([None], 0.5, None),
    ],
)
def test_quantiles_of_integers(values, q, found):
    assert one(values, pl.Int64(), x=aggregates.quantile("x", q)) == {"x": found}


@pytest.mark.parametrize(
    ("values", "q", "found"),
    [
        ([1.7976931348623157e308, -1.7976931348623157e308], 0.5, 0.0),
        ([1.7976931348623157e308, 1.7976931348623157e308], 0.3, 1.7976931348623157e308),
        ([0.1, 0.1, 0.1], 0.3, 0.1),
        ([math.nan, 1.0, 3.0], 0.5, 2.0),
        ([math.nan, math.nan], 0.5, math.nan),
        ([math.inf, 1.0], 0.5, math.inf),
        ([math.inf, 1.0], 0.0, 1.0),
        ([-math.inf, math.inf], 0.5, math.nan),
        ([-0.0], 0.5, 0.0),
    ],
)
def test_quantiles_of_floats(values, q, found):
    exact = one(values, pl.Float64(), x=aggregates.quantile("x", q))

    assert bits(exact) == bits({"x": found})


@given(st.lists(st.floats(1e-300, 1e300) | st.integers(1, 2**62), min_size=1), st.floats(0, 1))
def test_an_approximate_quantile_is_at_most_one_128th_off(values, q):
    named = {
        "exact": aggregates.quantile("x", q),
        "about": aggregates.quantile("x", q, approximate=True),
    }
    for sign in (1, -1):
        signed = [sign * float(value) for value in values]
        found = one(signed, pl.Float64(), **named)
        assert abs(found["about"] - found["exact"]) <= abs(found["exact"]) / 127.9


def test_state_of_an_approximate_quantile_holds_buckets_not_values():
    rows = frame([{"float": 1 + i / 10_000} for i in range(10_000)])
    aggregation = Aggregation({"x": aggregates.quantile("float", 0.5, approximate=True)}, COLUMNS)

    partials = aggregation.partials(rows, BY)

    assert len(partials.item(0, "x.buckets")) == 64


@pytest.mark.parametrize("n", [1, 2, 100, 3_000, 20_000, 200_000])
def test_approximate_count_distinct_is_within_four_standard_errors(n):
    columns = {"x": pl.Int64()}
    aggregation = Aggregation({"n": aggregates.count_distinct("x", approximate=True)}, columns)
    errors = []
    for start in range(0, 5 * 10**9, 10**9):
        values = pl.DataFrame({"x": np.arange(start, start + n), "k": np.zeros(n, np.int64)})
        about = aggregation.values(aggregation.partials(values, ["k"])).item()
        errors.append(about / n - 1)

    assert max(map(abs, errors)) < 4 * 1.04 / 64
    assert abs(sum(errors) / 5) < 0.03


def test_approximate_count_distinct_of_texts():
    texts = pl.DataFrame({"text": [f"user-{i % 5_000}" for i in range(20_000)]})
    texts = texts.with_columns(k=pl.lit(0))
    aggregation = Aggregation({"n": aggregates.count_distinct("text", approximate=True)}, COLUMNS)

    partials = aggregation.partials(texts, ["k"])

    assert abs(aggregation.values(partials).item() / 5_000 - 1) < 0.05
    assert len(partials.item(0, "n.registers")) <= 4_096


def test_ties_are_bounded_and_the_first_of_too_many_count():
    rows = frame([{"text": f"{i:05}", "int": 7, OFFSET: i} for i in range(12_000)])
    aggregation = Aggregation({"x": aggregates.top_k("text", 1, by="int", ties=True)}, COLUMNS)

    blocks = [aggregation.partials(part, BY) for part in rows[::-1].iter_slices(5_000)]
    (listed,) = aggregation.values(aggregation.combine(blocks, BY))["x"].to_list()

    assert [each["value"] for each in listed] == [f"{i:05}" for i in range(MOST_TIES)]


def test_state_of_counts_holds_one_value_more_than_the_limit():
    rows = frame([{"int": i // 2} for i in range(1_000)])
    aggregation = Aggregation({"x": aggregates.value_counts("int", limit=9)}, COLUMNS)

    partials = aggregation.partials(rows, BY)

    assert len(partials.item(0, "x.counts")) == 10
    assert aggregation.values(partials)["x"].to_list() == [None]


# -- mistakes


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        (aggregates.median("text"), r'x=median\("text"\): .* is String, but median needs numbers'),
        (aggregates.quantile("bool", 0.5), r'x=quantile\("bool", 0.5\): .* needs numbers'),
        (aggregates.top_k("list", 3), r'x=top_k\("list", 3\): .* needs numbers, strings'),
        (
            aggregates.value_counts("list"),
            r'x=value_counts\("list", limit=1000\): .* needs numbers',
        ),
        (aggregates.top_k("int", 3, by="list"), r'column "list" is .* but top_k needs numbers'),
        (
            aggregates.top_k("int", 3, by="nope"),
            r'x=top_k\("int", 3, by="nope"\): the stream has no column',
        ),
        (
            aggregates.count_distinct("list", approximate=True),
            r'x=count_distinct\("list", approximate=True\): .* needs numbers',
        ),
    ],
)
def test_a_column_that_does_not_suit_is_named(aggregate, message):
    with pytest.raises(PipelineError, match=message):
        Aggregation({"x": aggregate}, COLUMNS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: aggregates.quantile("x", 1.5), r'quantile\("x"\): q 1.5 is not between 0 and 1'),
        (lambda: aggregates.quantile("x", math.nan), "nan is not between 0 and 1"),
        (lambda: aggregates.quantile("x", "half"), "'half' is not between 0 and 1"),  # type: ignore[arg-type]  # the mistake under test
        (lambda: aggregates.top_k("x", 0), r'top_k\("x", 0\): k 0 is not an integer from 1'),
        (lambda: aggregates.value_counts("x", limit=0), "limit 0 is not an integer from 1 on"),
        (lambda: aggregates.top_k("x", 10_001, ties=True), "with ties=True k is at most 10,000"),
        (lambda: aggregates.top_k("x", 2, ranks=1), r"top_k\(ranks\): 1 is not True or False"),  # type: ignore[arg-type]  # the mistake under test
        (lambda: aggregates.top_k("x", 2.0, by="y"), "k 2.0 is not an integer from 1 on"),  # type: ignore[arg-type]  # the mistake under test
    ],
)
def test_numbers_out_of_range_are_mistakes(make, message):
    with pytest.raises(PipelineError, match=message):
        make()
