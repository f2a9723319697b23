"""Aggregates against plain Python: any order, cut and merge tree give the same bits."""

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.patience import PATIENCE_S
from tests.support.aggregating import (
    ALL_TYPES,
    BY,
    COLUMNS,
    ORDERED,
    SCHEMA,
    SUMMABLE,
    Row,
    cents,
    expected,
    filtered_by_where,
    frame,
    merged,
    of_taken,
    row_lists,
    shown,
)
from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import ROWS, Aggregation
from tidemark.core.time.segment import EVENT_TIME, OFFSET, SOURCE, SUB_ROW
from tidemark.errors import PipelineError


def everything() -> Aggregation:
    """All aggregates over all columns that they allow, named ``<aggregate>_<column>``."""
    kinds = {
        "count": ALL_TYPES,
        "sum": SUMMABLE,
        "mean": SUMMABLE,
        "min": ORDERED,
        "max": ORDERED,
        "first": ALL_TYPES,
        "last": ALL_TYPES,
    }
    named = {
        f"{kind}_{column}": getattr(aggregates, kind)(column)
        for kind, columns in kinds.items()
        for column in columns
    }
    return Aggregation({"rows": aggregates.count(), **named}, COLUMNS)


AGGREGATION = everything()
FILTERED = filtered_by_where(AGGREGATION)

# -- the oracle


def rounded(total: Fraction) -> float:
    try:
        return total.numerator / total.denominator
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def float_sum(values: Sequence[float], rest: Callable[[Fraction], float]) -> float:
    infinities = {value for value in values if math.isinf(value)}
    if len(infinities) == 2 or any(map(math.isnan, values)):
        return math.nan
    return infinities.pop() if infinities else rest(sum(map(Fraction, values), Fraction(0)))


def mean_of_total(total: Fraction, n: int) -> float:
    return rounded(total) / n if math.isfinite(rounded(total)) else rounded(total / n)


def oracle_sum(values: list[Any]) -> Any:
    if isinstance(values[0], float):
        return float_sum(values, rounded)
    if isinstance(values[0], Decimal):
        return cents(int(sum(map(Fraction, values)) * 100))
    return sum(values)


def oracle_mean(values: list[Any]) -> float:
    n = len(values)
    if isinstance(values[0], float):
        return float_sum(values, lambda total: mean_of_total(total, n))
    return rounded(sum(map(Fraction, values), Fraction(0)) / n)


def oracle_extreme(values: list[Any], choose: Callable[[Iterable[Any]], Any]) -> Any:
    numbers = [value for value in values if value == value]
    found = choose(numbers) if numbers else values[0]
    return found + 0.0 if isinstance(found, float) else found


ORACLES: dict[str, Callable[[list[Any]], Any]] = {
    "sum": oracle_sum,
    "mean": oracle_mean,
    "min": lambda values: oracle_extreme(values, min),
    "max": lambda values: oracle_extreme(values, max),
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
}


def oracle_values(rows: list[Row]) -> Row:
    values: Row = {"rows": len(rows)}
    for name in AGGREGATION.types:
        kind, _, column = name.partition("_")
        found = [row[column] for row in rows if column and row[column] is not None]
        if kind == "count":
            values[name] = len(found)
        elif column:
            values[name] = ORACLES[kind](found) if found else None
    return values


@given(row_lists())
def test_values_are_those_of_plain_python(rows):
    assert shown(AGGREGATION.partials(frame(rows), BY), AGGREGATION) == expected(
        rows, oracle_values
    )


@given(row_lists(), st.randoms(use_true_random=False))
def test_no_order_cut_or_merge_tree_shows_in_the_values(rows, choose):
    assert shown(merged(list(rows), choose, AGGREGATION), AGGREGATION) == expected(
        rows, oracle_values
    )


@fewer(2)
@given(row_lists(), st.randoms(use_true_random=False))
def test_only_the_rows_count_for_which_where_is_true(rows, choose):
    found = shown(merged(list(rows), choose, FILTERED), FILTERED)

    assert found == expected(rows, of_taken(oracle_values))


@fewer(4)
@given(row_lists())
def test_values_have_the_types_promised(rows):
    values = AGGREGATION.values(AGGREGATION.partials(frame(rows), BY))

    beyond = {name for name, column in values.to_dict().items() if column.dtype == pl.Int128}
    assert beyond <= {"sum_int"}
    assert values.drop(beyond).schema == {
        name: kind for name, kind in AGGREGATION.types.items() if name not in beyond
    }


# -- single cases


def test_ties_of_first_and_last_go_by_source_as_text_then_offset_then_sub_row():
    #   source    offset  sub_row  int
    #   moves/10       5        1    2
    #   moves/10       5        0    1   <- first: "moves/10" < "moves/2" as text
    #   moves/2        7        0    3
    #   moves/2        9        0    4   <- last
    places = [("moves/10", 5, 1), ("moves/10", 5, 0), ("moves/2", 7, 0), ("moves/2", 9, 0)]
    rows = [
        {SOURCE: source, OFFSET: offset, SUB_ROW: sub_row, EVENT_TIME: 3, "int": value}
        for (source, offset, sub_row), value in zip(places, [2, 1, 3, 4], strict=True)
    ]
    aggregation = Aggregation(
        {"first": aggregates.first("int"), "last": aggregates.last("int")}, COLUMNS
    )
    blocks = [aggregation.partials(frame([row]), BY) for row in rows]

    for order in (blocks, blocks[::-1]):
        assert aggregation.values(aggregation.combine(order, BY)).rows() == [(1, 4)]


def test_sources_may_be_categorical():
    rows = frame([{SOURCE: "moves/2", "int": 2}, {SOURCE: "moves/10", "int": 1}])
    aggregation = Aggregation({"first": aggregates.first("int")}, COLUMNS)

    categorical = rows.with_columns(pl.col(SOURCE).cast(pl.Categorical))

    assert aggregation.partials(categorical, BY).equals(aggregation.partials(rows, BY))


def test_no_rows_give_no_groups():
    nothing = AGGREGATION.partials(frame([]), BY)

    assert nothing.height == 0
    assert nothing.equals(AGGREGATION.empty({name: SCHEMA[name] for name in BY}))
    assert AGGREGATION.values(nothing).schema == AGGREGATION.types
    assert AGGREGATION.combine([nothing, nothing], BY).equals(nothing)


def test_typical_partials_are_narrow():
    rows = frame([{"user": "ann", "int": i, "float": i / 4} for i in range(1, 9)])
    named = {"n": aggregates.count(), "x": aggregates.sum("int"), "y": aggregates.sum("float")}

    partials = Aggregation(named, COLUMNS).partials(rows, BY)

    assert sorted(partials.columns) == [ROWS, "start", "user", "x.limb0", "y.limb33"]


def test_a_name_with_a_dot_is_no_part_of_another():
    named = {"a": aggregates.sum("int"), "a.limb0": aggregates.min("int")}
    aggregation = Aggregation(named, COLUMNS)

    partials = aggregation.partials(frame([{"int": 3}, {"int": 4}]), BY)

    assert aggregation.values(partials).rows() == [(7, 3)]


def test_a_key_column_with_a_dot_is_no_part_of_an_aggregate():
    aggregation = Aggregation({"user": aggregates.sum("int")}, COLUMNS)
    rows = frame([{"int": 3}, {"int": 4}]).with_columns(pl.lit("ann").alias("user.limbo"))

    partials = aggregation.partials(rows, ["user.limbo"])

    assert aggregation.values(partials).rows() == [(7,)]


# -- mistakes


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        (aggregates.sum("text"), r'x=sum\("text"\): column "text" is String, but sum needs'),
        (aggregates.mean("list"), r'x=mean\("list"\): column "list" is List\(Int64\), but mean'),
        (aggregates.max("list"), r'x=max\("list"\): column "list" is List\(Int64\), but max'),
        (
            aggregates.min("nope"),
            r"x=min\(.nope.\): the stream has no column 'nope' \(columns: int, float",
        ),
        (aggregates.count("nope"), r"x=count\(.nope.\): the stream has no column 'nope'"),
        (aggregates.first("nope"), r"x=first\(.nope.\): the stream has no column 'nope'"),
        (aggregates.sum(pl.col("int")), r"x=sum\(...\) takes the name of a column, not Expr"),  # type: ignore[arg-type]  # the mistake under test
    ],
)
def test_a_column_that_does_not_suit_is_named(aggregate, message):
    with pytest.raises(PipelineError, match=message):
        Aggregation({"x": aggregate}, COLUMNS)


def test_no_aggregates_are_a_mistake():
    with pytest.raises(PipelineError, match="no aggregates"):
        Aggregation({}, COLUMNS)


def test_aggregates_are_values_that_read_as_they_are_written():
    assert aggregates.sum("int") == aggregates.sum("int")
    assert aggregates.min("int") != aggregates.max("int")
    written = [aggregates.count(), aggregates.count("int"), aggregates.last("text")]
    assert list(map(str, written)) == ["count()", 'count("int")', 'last("text")']


# -- threads

RUNS = """
import random, hashlib, polars as pl
from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import Aggregation
draw = random.Random(7)
n = 1200
rows = pl.DataFrame({
    "user": [f"user-{draw.randrange(20)}" for _ in range(n)],
    "start": [draw.randrange(2) * 10 for _ in range(n)],
    "x": [draw.uniform(-1, 1) * 10.0 ** draw.randrange(-12, 12) for _ in range(n)],
    "@event_time": [draw.randrange(50) for _ in range(n)],
    "@source": ["t/0"] * n, "@offset": range(n), "@sub_row": [0] * n,
})
named = {word: getattr(aggregates, word)("x") for word in ("sum", "mean", "min", "first", "last")}
aggregation, by = Aggregation(named, {"x": pl.Float64()}), ["user", "start"]
seen = set()
for run in range(50):
    size = draw.choice([n, 500])
    blocks = [aggregation.partials(block, by) for block in rows.iter_slices(size)]
    partials = aggregation.combine(blocks, by)
    panes = pl.concat([partials.select(by), aggregation.values(partials)], how="horizontal")
    seen.add(hashlib.sha256(repr(panes.sort(by).rows()).encode()).hexdigest())
print(*seen)
"""


def test_float_bits_are_the_same_in_50_runs_on_1_2_and_8_threads():
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", RUNS],
            env={**os.environ, "POLARS_MAX_THREADS": threads},
            stdout=subprocess.PIPE,
            text=True,
        )
        for threads in ("1", "2", "8")
    ]
    printed = {run.communicate(timeout=PATIENCE_S)[0] for run in runs}

    assert len(printed) == 1
    assert len(printed.pop().split()) == 1
