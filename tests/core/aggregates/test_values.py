"""Variance, distinct values, choices and lists against plain Python: no cut shows in any bit."""

import math
import statistics
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.support.aggregating import (
    ALL_TYPES,
    BY,
    COLUMNS,
    ORDERED,
    SUMMABLE,
    Row,
    bits,
    cents,
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
from tidemark.core.aggregates import exact_squares
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.time.segment import ARRIVAL, EVENT_TIME, SUB_ROW
from tidemark.errors import PipelineError

KINDS: dict[str, tuple[Sequence[str], Callable[[str], Any]]] = {
    "variance": (SUMMABLE, aggregates.variance),
    "spread": (SUMMABLE, lambda column: aggregates.variance(column, sample=False)),
    "stddev": (SUMMABLE, aggregates.stddev),
    "distinct": (ORDERED, aggregates.count_distinct),
    "minby": (ORDERED, lambda column: aggregates.min_by("text", by=column)),
    "maxby": (ORDERED, lambda column: aggregates.max_by("list", by=column)),
    "latest": (("int", "list"), lambda column: aggregates.latest(column, "text")),
    "newest": (("int",), lambda column: aggregates.latest(column, order="arrival")),
    "collect": (ALL_TYPES, aggregates.collect),
    "arrived": (ALL_TYPES, lambda column: aggregates.collect(column, order="arrival")),
    "firstcome": (ALL_TYPES, lambda column: aggregates.first(column, order="arrival")),
    "lastcome": (ALL_TYPES, lambda column: aggregates.last(column, order="arrival")),
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


def rounded(number: Fraction) -> float:
    try:
        return number.numerator / number.denominator
    except OverflowError:
        return math.inf


def rounded_root(number: Fraction) -> float:
    with localcontext(prec=3_000):  # more digits than any exact root here has
        return float((Decimal(number.numerator) / number.denominator).sqrt())


def spread(values: list[Any], less: int, finish: Callable[[Fraction], float]) -> float | None:
    if len(values) <= less:
        return None
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        return math.nan
    exact = list(map(Fraction, values))
    middle = sum(exact, Fraction(0)) / len(exact)
    squares = sum(((value - middle) * (value - middle) for value in exact), Fraction(0))
    return finish(squares / (len(exact) - less))


def by_extreme(rows: list[Row], by: str, value: str, *, greatest: bool) -> Any:
    counted = [row for row in rows if row[by] is not None]
    numbers = [row for row in counted if row[by] == row[by]]
    if not counted:
        return None
    # Rows come in order, and max() and min() take the first of equal ones.
    choose = max if greatest else min
    return (choose(numbers, key=lambda row: row[by]) if numbers else counted[0])[value]


def last_of(rows: list[Row], *names: str) -> Row | None:
    return {name: rows[-1][name] for name in names} if rows else None


def different(values: list[Any]) -> int:
    return len({"NaN" if value != value else value for value in values})


def oracle(rows: list[Row]) -> Row:
    arrived = sorted(rows, key=lambda row: (row[ARRIVAL], row[SUB_ROW]))
    made: Row = {}
    for name in AGGREGATION.types:
        kind, _, column = name.partition("_")
        values = [row[column] for row in rows if row[column] is not None]
        made[name] = {
            "variance": lambda v=values: spread(v, 1, rounded),
            "spread": lambda v=values: spread(v, 0, rounded),
            "stddev": lambda v=values: spread(v, 1, rounded_root),
            "distinct": lambda v=values: different(v),
            "minby": lambda c=column: by_extreme(rows, c, "text", greatest=False),
            "maxby": lambda c=column: by_extreme(rows, c, "list", greatest=True),
            "latest": lambda c=column: last_of(rows, c, "text"),
            "newest": lambda c=column: last_of(arrived, c),
            "collect": lambda v=values: v,
            "arrived": lambda c=column: [r[c] for r in arrived if r[c] is not None],
            "firstcome": lambda c=column: next((r[c] for r in arrived if r[c] is not None), None),
            "lastcome": lambda c=column: next(
                (r[c] for r in reversed(arrived) if r[c] is not None), None
            ),
        }[kind]()
    return made


@given(row_lists())
def test_values_are_those_of_plain_python(rows):
    assert shown(AGGREGATION.partials(frame(rows), BY), AGGREGATION) == expected(rows, oracle)


@given(row_lists(), st.randoms(use_true_random=False))
def test_no_order_cut_or_merge_tree_shows_in_the_values(rows, choose):
    found = merged(list(rows), choose, AGGREGATION)

    assert shown(found, AGGREGATION) == expected(rows, oracle)


@fewer(2)
@given(row_lists(), st.randoms(use_true_random=False))
def test_only_the_rows_count_for_which_where_is_true(rows, choose):
    found = shown(merged(list(rows), choose, FILTERED), FILTERED)

    assert found == expected(rows, of_taken(oracle))


def test_values_have_the_types_promised_even_of_no_rows():
    nothing = AGGREGATION.partials(frame([]), BY)
    some = AGGREGATION.partials(frame([{"int": 3, "text": "a"}]), BY)

    assert AGGREGATION.values(nothing).schema == AGGREGATION.types
    assert AGGREGATION.values(some).schema == AGGREGATION.types
    assert AGGREGATION.combine([nothing, nothing], BY).equals(nothing)


# -- single cases


def test_the_latest_row_has_all_columns_and_its_nulls():
    rows: list[Row] = [{"int": 1, "text": "a", EVENT_TIME: 1}, {"bool": True, EVENT_TIME: 2}]
    aggregation = Aggregation({"x": aggregates.latest()}, COLUMNS)

    (row,) = aggregation.values(aggregation.partials(frame(rows), BY))["x"].to_list()

    assert row == {**dict.fromkeys(COLUMNS), "bool": True}


def test_a_row_of_nulls_is_a_row_and_no_row_is_null():
    rows: list[Row] = [{EVENT_TIME: 1}, {EVENT_TIME: 2, "user": "bob", "int": 1}]
    never = aggregates.latest("int", where=pl.col("int") > 5)
    aggregation = Aggregation({"x": aggregates.latest("int"), "y": never}, COLUMNS)

    values = aggregation.values(aggregation.partials(frame(rows), BY).sort("user"))

    assert values.rows() == [({"int": None}, None), ({"int": 1}, None)]


doubles = st.floats(allow_nan=False, allow_infinity=False)
scaled = st.builds(math.ldexp, st.floats(-2, 2), st.integers(-1080, 1020))


@given(st.lists(doubles | scaled, min_size=2, max_size=5))
@example([0.1, 0.2, 0.3])
@example([1e16, 1e16 + 2, 1e16 + 4])  # where the textbook formula gives nothing but noise
@example([5e-324, 1.5e-323])  # the root of what no double holds
@example([1.7976931348623157e308, -1.7976931348623157e308])  # and of what exceeds them all
def test_float_variance_is_that_of_the_fractions_rounded_once(values):
    named = {"v": aggregates.variance("x"), "s": aggregates.stddev("x")}
    found = one(values, pl.Float64(), **named)
    exact = statistics.variance(map(Fraction, values))

    assert bits(found) == bits({"v": rounded(exact), "s": rounded_root(exact)})


@pytest.mark.parametrize(
    ("column_type", "values"),
    [
        (pl.Int8(), [127, -128, 127]),
        (pl.Int64(), [-(2**63), 2**63 - 1, -(2**63)]),
        (pl.UInt64(), [2**64 - 1, 0, 2**63]),
        (pl.Int64(), [2**31, -(2**31), 7]),
        (pl.Boolean(), [True, False, True]),
        (pl.Float32(), [0.5, 0.25, 0.125]),
        (pl.Decimal(38, 2), [cents(10**38 - 1), cents(-1), cents(10**30)]),
        (pl.Decimal(38, 0), [Decimal(-(10**38) + 1), Decimal(2**64), Decimal(-(2**64))]),
    ],
)
def test_variance_of_every_type_is_exact(column_type, values):
    whole = pl.Series(values, dtype=column_type).to_list()
    found = one(values, column_type, v=aggregates.variance("x", sample=False))

    assert found == {"v": rounded(statistics.pvariance(map(Fraction, whole)))}


def test_variance_of_one_value_is_null_of_a_sample_and_zero_of_a_population():
    found = one(
        [None, 3], pl.Int64(), v=aggregates.variance("x"), p=aggregates.stddev("x", sample=False)
    )

    assert found == {"v": None, "p": 0.0}


def test_limbs_of_squares_are_small_enough_to_be_added():
    most = pl.Series([2**64 - 1], dtype=pl.UInt64)
    largest = pl.Series([Decimal(-(10**38) + 1)], dtype=pl.Decimal(38, 0))
    limbs = [
        exact_squares.of_integers(most),
        exact_squares.of_decimals(largest),
        exact_squares.of_floats(pl.Series([1.7976931348623157e308]).to_numpy()),
    ]

    assert all(0 <= limb[0] < 2**32 for some in limbs for limb in some.values())


def test_of_equal_rows_min_by_and_max_by_choose_the_first():
    #   arrived  event time  by   value
    #         1           5   1     "b"
    #         2           3   1     "a"  <- both: the first of equals by event time
    rows = [{EVENT_TIME: 5, "int": 1, "text": "b"}, {EVENT_TIME: 3, "int": 1, "text": "a"}]
    named = {"low": aggregates.min_by("text", "int"), "high": aggregates.max_by("text", "int")}
    aggregation = Aggregation(named, COLUMNS)

    assert aggregation.values(aggregation.partials(frame(rows), BY)).rows() == [("a", "a")]


def test_the_value_of_the_chosen_row_may_be_null():
    rows: list[Row] = [
        {"int": 1, "text": None},
        {"int": 2, "text": "b"},
        {"int": None, "text": "c"},
    ]
    aggregation = Aggregation({"low": aggregates.min_by("text", "int")}, COLUMNS)

    assert aggregation.values(aggregation.partials(frame(rows), BY)).rows() == [(None,)]


def test_state_of_count_distinct_holds_each_value_once():
    rows = frame([{"text": text} for text in "abcabcabc"])
    aggregation = Aggregation({"n": aggregates.count_distinct("text")}, COLUMNS)

    partials = aggregation.combine([aggregation.partials(rows, BY)] * 3, BY)

    assert sorted(partials.item(0, "n.values")) == ["a", "b", "c"]


# -- mistakes


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        (aggregates.variance("text"), r'x=variance\("text"\): .* is String, but variance needs'),
        (aggregates.stddev("list"), r'x=stddev\("list"\): .* but stddev needs numbers or Boo'),
        (aggregates.count_distinct("list"), r'x=count_distinct\("list"\): .* needs numbers, str'),
        (aggregates.collect("nope"), r"x=collect\(.nope.\): the stream has no column 'nope'"),
        (
            aggregates.min_by("int", "nope"),
            r"x=min_by\(.int., by=.nope.\): the stream has no column 'nope'",
        ),
        (
            aggregates.max_by("nope", "int"),
            r"x=max_by\(.nope., by=.int.\): the stream has no column 'nope'",
        ),
        (
            aggregates.max_by("int", "list"),
            r'x=max_by\("int", by="list"\): column "list" is List\(Int64\), but max_by needs num',
        ),
    ],
)
def test_a_column_that_does_not_suit_is_named(aggregate, message):
    with pytest.raises(PipelineError, match=message):
        Aggregation({"x": aggregate}, COLUMNS)


@pytest.mark.parametrize("value", ["no", 2, None])
@pytest.mark.parametrize(
    ("make", "option"),
    [
        (aggregates.variance, "sample"),
        (aggregates.stddev, "sample"),
        (aggregates.count_distinct, "approximate"),
        (partial(aggregates.quantile, q=0.5), "approximate"),
    ],
)
def test_an_option_that_is_no_boolean_is_a_mistake(make, option, value):
    with pytest.raises(PipelineError, match=rf"\({option}\): {value!r} is not True or False"):
        make("x", **{option: value})


def test_an_unknown_order_of_collect_is_a_mistake():
    with pytest.raises(PipelineError, match=r"order 'log' is not one of \('event_time', 'arri"):
        aggregates.collect("int", order="log")  # type: ignore[arg-type]  # the mistake under test


def test_an_unknown_order_of_latest_is_a_mistake():
    with pytest.raises(PipelineError, match=r"latest\(order\): 'log' is not one of \('event_time'"):
        aggregates.latest("int", order="log")  # type: ignore[arg-type]  # the mistake under test


def test_aggregates_read_as_they_are_written():
    written = {
        'variance("int")': aggregates.variance("int"),
        'stddev("int", sample=False)': aggregates.stddev("int", sample=False),
        'min_by("text", by="int")': aggregates.min_by("text", by="int"),
        'collect("int", order="arrival")': aggregates.collect("int", order="arrival"),
        'last("int", order="arrival")': aggregates.last("int", order="arrival"),
    }

    assert list(map(str, written.values())) == list(written)
