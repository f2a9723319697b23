"""The index of conditions finds the rows on which each condition holds, and no others."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.core.operators.patterns.conditions import holding, truths_of
from tidemark.core.operators.patterns.rules.condition_index import ConditionIndex
from tidemark.core.operators.patterns.rules.terms import Term, Terms, terms_of
from tidemark.serde.rules.condition_text import condition_of

COLUMNS: dict[str, pl.DataType] = {
    "kind": pl.String(),
    "room": pl.String(),
    "n": pl.Int64(),
    "x": pl.Float64(),
    "ok": pl.Boolean(),
}
LARGE = 2**53
TEXTS = st.sampled_from(("a", "b", ""))
INTEGERS = st.sampled_from((-3, 0, 1, 2, LARGE, LARGE + 1, 2**63 - 1))
FLOATS = st.sampled_from((-math.inf, -1.5, -0.0, 0.0, 1.0, 2.5, float(LARGE), math.inf, math.nan))
NUMBERS = st.one_of(INTEGERS, FLOATS.filter(math.isfinite))


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    """Draw a comparison of a column, with a term or without one."""
    number = repr(draw(NUMBERS))
    column = draw(st.sampled_from(("n", "x")))
    operator = draw(st.sampled_from(("<", "<=", ">", ">=", "==", "!=")))
    text = draw(st.sampled_from(("kind", "room")))
    texts = draw(st.lists(TEXTS, min_size=1, max_size=3))
    return draw(
        st.sampled_from(
            (
                f"{text} == '{texts[0]}'",
                f"'{texts[0]}' == {text}",
                f"{text} in {texts}",
                f"{text} < '{texts[0]}'",
                f"{column} {operator} {number}",
                f"{number} {operator} {column}",
                f"-2 < {column} <= {number}",
                f"{column} in [{number}, 1]",
                f"not {column} > {number}",
                f"is_null({text})",
                "ok",
                f"n + 1 {operator} {number}",
            )
        )
    )


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """Draw comparisons that are combined."""
    parts = draw(st.lists(comparisons(), min_size=1, max_size=3))
    return draw(st.sampled_from((" and ", " or "))).join(parts)


def frames() -> st.SearchStrategy[pl.DataFrame]:
    """Draw rows; each column has nulls."""
    row = st.tuples(
        *(st.one_of(st.none(), each) for each in (TEXTS, TEXTS, INTEGERS, FLOATS, st.booleans()))
    )
    return st.lists(row, max_size=12).map(
        lambda rows: pl.DataFrame(rows, schema=COLUMNS, orient="row")
    )


@given(texts=st.lists(conditions(), min_size=1, max_size=6), rows=frames())
def test_the_index_finds_the_rows_on_which_each_condition_holds(
    texts: list[str], rows: pl.DataFrame
) -> None:
    expressions = [condition_of(each, COLUMNS) for each in texts]
    index = ConditionIndex(expressions, terms_of(expressions, COLUMNS), COLUMNS)

    found = dict(index.fulfilled(rows))

    held = [np.flatnonzero(each).tolist() for each in holding(truths_of(expressions), rows)]
    assert {number: at.tolist() for number, at in found.items()} == {
        number: at for number, at in enumerate(held) if at
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "kind == 'a' and 80 < x",
            Terms((Term("kind", "in", ("a",)), Term("x", ">", (80,))), is_whole=True),
        ),
        ("kind in ['a', 'b']", Terms((Term("kind", "in", ("a", "b")),), is_whole=True)),
        ("n >= 1 and ok", Terms((Term("n", ">=", (1,)),), is_whole=False)),
        ("kind == 'a' or n == 1", Terms((), is_whole=False)),
        ("kind != 'a'", Terms((), is_whole=False)),
    ],
)
def test_terms_are_comparisons_that_must_hold(text: str, expected: Terms) -> None:
    assert terms_of([condition_of(text, COLUMNS)], COLUMNS) == [expected]
