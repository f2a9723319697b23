"""Aggregates in Python: any cut gives the same; mistakes are named when they are built."""

import math
from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.support.aggregating import (
    BY,
    COLUMNS,
    expected,
    filtered_by_where,
    frame,
    merged,
    of_taken,
    row_lists,
    shown,
)
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.aggregates.custom import Custom, FrameFunction
from tidemark.errors import PipelineError


class Span:
    """Greatest less least, of integers."""

    def init(self):
        return None

    def add(self, state, row):
        value = row["int"]
        return state if value is None else self.merge(state, [value, value])

    def merge(self, state, other):
        if state is None or other is None:
            return other if state is None else state
        return [min(state[0], other[0]), max(state[1], other[1])]

    def result(self, state):
        return None if state is None else str(state[1] - state[0])


class Texts:
    """All texts in order, with how often they came."""

    def init(self):
        return {}

    def add(self, state, row):
        return self.merge(state, {row["text"] or "": 1})

    def merge(self, state, other):
        for text, count in other.items():
            state[text] = state.get(text, 0) + count
        return state

    def result(self, state):
        return [f"{text}*{state[text]}" for text in sorted(state)]


def trail(rows):
    return ",".join(rows["text"].fill_null("-")) + str(rows["int"].drop_nulls().len())


AGGREGATION = Aggregation(
    {
        "span": Custom(("int",), pl.String(), Span()),
        "texts": Custom(("text",), pl.List(pl.String()), Texts()),
        "trail": FrameFunction(("text", "int"), pl.String(), trail),
    },
    COLUMNS,
)
FILTERED = filtered_by_where(AGGREGATION)


def oracle(rows):
    integers = [row["int"] for row in rows if row["int"] is not None]
    texts = [row["text"] or "" for row in rows]
    trail = ",".join("-" if row["text"] is None else row["text"] for row in rows)
    return {
        "span": str(max(integers) - min(integers)) if integers else None,
        "texts": [f"{text}*{texts.count(text)}" for text in sorted(set(texts))],
        "trail": f"{trail}{len(integers)}",
    }


@given(row_lists(), st.randoms(use_true_random=False))
def test_no_order_cut_or_merge_tree_shows_in_the_values(rows, choose):
    whole = AGGREGATION.partials(frame(rows), BY)
    found = merged(list(rows), choose, AGGREGATION)

    assert shown(whole, AGGREGATION) == expected(rows, oracle)
    assert shown(found, AGGREGATION) == expected(rows, oracle)


@fewer(2)
@given(row_lists(), st.randoms(use_true_random=False))
def test_only_the_rows_count_for_which_where_is_true(rows, choose):
    found = shown(merged(list(rows), choose, FILTERED), FILTERED)

    assert found == expected(rows, of_taken(oracle))


def test_values_have_the_types_promised_even_of_no_rows():
    nothing = AGGREGATION.partials(frame([]), BY)

    assert AGGREGATION.values(nothing).schema == AGGREGATION.value_types
    assert AGGREGATION.types == {name: AGGREGATION.value_types[name] for name in AGGREGATION.types}


def test_state_of_a_custom_aggregate_is_one_text():
    rows = frame([{"int": i} for i in range(50)])

    partials = AGGREGATION.combine([AGGREGATION.partials(rows, BY)] * 2, BY)

    assert partials["span.states"].to_list() == [["[0, 49]"]]
    assert partials["span.rows"].to_list() == [[]]


class FloatSum(Span):
    def add(self, state, row):
        return (state or 0.0) + (row["float"] or 0.0)

    def merge(self, state, other):
        return (state or 0.0) + (other or 0.0)

    def result(self, state):
        return None if math.isnan(state or 0.0) else state


class ExactSum(FloatSum):
    def add(self, state, row):
        if row["float"] is None or not math.isfinite(row["float"]):
            return state
        return str(Fraction(state or 0) + Fraction(row["float"]))

    def merge(self, state, other):
        return str(Fraction(state or 0) + Fraction(other or 0))

    def result(self, state):
        return float(Fraction(state or 0))


class Last(Span):
    def add(self, state, row):
        return row["int"]

    def merge(self, state, other):
        return other

    def result(self, state):
        return str(state)


class Unwritable(Span):
    def add(self, state, row):
        return {1, 2}


class TakesNullFirst(Span):
    def add(self, state, row):
        return row["int"] if state is None else max(state, row["int"])

    def merge(self, state, other):
        return max(state, other)

    def result(self, state):
        return str(state)


class Wrong(Span):
    def result(self, state):
        return 7


def test_a_result_that_depends_on_order_or_grouping_is_refused():
    with pytest.raises(PipelineError, match=r"x=custom\(Last\): the result depends on the order"):
        Aggregation({"x": Custom(("int",), pl.String(), Last())}, COLUMNS)
    with pytest.raises(PipelineError, match=r"x=custom\(FloatSum\): the result depends on the ord"):
        Aggregation({"x": Custom(("float",), pl.Float64(), FloatSum())}, COLUMNS)
    Aggregation({"x": Custom(("float",), pl.Float64(), ExactSum())}, COLUMNS)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            Custom(("nope",), pl.String(), Span()),
            r"x=custom\(Span\): the stream has no column 'nope' \(columns: int",
        ),
        (Custom(("text",), pl.String(), Span()), r"x=custom\(Span\): add, merge: KeyError: 'int'"),
        (
            Custom(("int",), pl.String(), Unwritable()),
            r"x=custom\(Unwritable\): add, merge: TypeError: Obj",
        ),
        (
            FrameFunction(("nope",), pl.String(), trail),
            r"x=apply_frame\(trail\): the stream has no column 'nope'",
        ),
        (
            Custom(("int",), pl.String(), Wrong()),
            r"x=custom\(Wrong\): result: TypeError: .*7 is a int.*it fails on all rows",
        ),
        (
            Custom(("int",), pl.String(), TakesNullFirst()),
            r"x=custom\(TakesNullFirst\): add, merge: TypeError: .*fail in some orders",
        ),
        (
            FrameFunction(("int",), pl.String(), len),
            r"x=apply_frame\(len\): result: TypeError: .*is a int.*it fails on all rows",
        ),
        (
            FrameFunction(("int",), pl.String(), lambda rows: rows["y"]),
            r"x=apply_frame\(<lambda>\): function: ColumnNotFoundError",
        ),
    ],
)
def test_aggregates_that_cannot_work_are_named(kind, message):
    with pytest.raises(PipelineError, match=message):
        Aggregation({"x": kind}, COLUMNS)


class Positive(Span):
    """A span that takes no null and no negative number, and gives none of 13."""

    def add(self, state, row):
        if row["int"] < 0:
            raise ValueError(f"{row['int']} is negative")
        return super().add(state, row)

    def result(self, state):
        if state is not None and state[1] - state[0] == 13:
            raise ArithmeticError("13\nbrings bad luck")
        return super().result(state)


def test_a_row_that_add_refuses_is_named_with_what_was_raised():  # B1
    aggregation = Aggregation({"x": Custom(("int",), pl.String(), Positive())}, COLUMNS)
    rows = frame([{"int": 1}, {"int": None}, {"int": -1}, {"int": 3}])

    assert aggregation.refusals(rows) == {
        1: "x=custom(Positive): add: TypeError: '<' not supported between instances of 'NoneType' "
        "and 'int'",
        2: "x=custom(Positive): add: ValueError: -1 is negative",
    }
    assert aggregation.refusals(rows.clear()) == {}


def test_a_pane_whose_result_fails_is_null_with_the_reason_and_others_are_not():
    aggregation = Aggregation({"x": Custom(("int",), pl.String(), Positive())}, COLUMNS)
    rows = [{"user": "ann", "int": 1}, {"user": "bob", "int": 1}, {"user": "bob", "int": 14}]

    partials = aggregation.partials(frame(rows), BY).sort("user")

    assert aggregation.values(partials).rows() == [
        ("0", None),
        (None, "x=custom(Positive): result: ArithmeticError: 13"),
    ]


class Fragile(Span):
    """A span whose merge fails while ``broken``."""

    broken = False

    def merge(self, state, other):
        if self.broken and state is not None and other is not None:
            raise RuntimeError("broken")
        return super().merge(state, other)


def test_state_that_cannot_be_merged_stays_for_a_corrected_aggregate():
    fragile = Fragile()
    aggregation = Aggregation({"x": Custom(("int",), pl.String(), fragile)}, COLUMNS)
    parts = [aggregation.partials(frame([{"int": at}, {"int": at + 1}]), BY) for at in (0, 5, 9)]
    fragile.broken = True

    partials = aggregation.combine(parts, BY)
    partials = aggregation.partials(frame([{"int": 20}]), BY, [partials])

    assert aggregation.values(partials).rows() == [
        (None, "x=custom(Fragile): add, merge: RuntimeError: broken")
    ]
    fragile.broken = False
    assert aggregation.values(partials).rows() == [("20", None)]


def test_memory_that_is_gone_is_no_fault_of_a_row():
    class Large(Span):
        full = False

        def add(self, state, row):
            if self.full:
                raise MemoryError
            return super().add(state, row)

    large = Large()
    aggregation = Aggregation({"x": Custom(("int",), pl.String(), large)}, COLUMNS)
    large.full = True

    with pytest.raises(MemoryError):
        aggregation.refusals(frame([{"int": 1}]))


def test_the_frame_holds_the_columns_asked_for_by_event_time():
    seen = []
    kind = FrameFunction(("int",), pl.Float64(), lambda rows: seen.append(rows))
    aggregation = Aggregation({"x": kind}, COLUMNS)
    rows = frame([{"int": 1, "@event_time": 9}, {"int": 2, "@event_time": 3}])

    seen.clear()  # the frames of the probe

    assert aggregation.values(aggregation.partials(rows, BY)).rows() == [(None, None)]
    assert seen[0].equals(pl.DataFrame({"int": [2, 1]}))
