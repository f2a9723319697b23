"""The engine in columns against the automaton: the same findings, and the same partial matches."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import COLUMNS
from tests.support.patterns.steps import one_row_specs
from tidemark.core.operators.patterns.automaton import Automaton
from tidemark.core.operators.patterns.conditions import Conditions
from tidemark.core.operators.patterns.engines import Engines
from tidemark.core.operators.patterns.key_rows import KeyPartials, KeyRows
from tidemark.core.operators.patterns.one_row import OneRowPattern
from tidemark.core.operators.patterns.pattern import Pattern, Skip, Step
from tidemark.core.operators.patterns.step_rows import StepRows
from tidemark.core.state.block_store import IN_MEMORY
from tidemark.core.time.segment import FOREVER_MS

NO_PARTIALS = KeyPartials(
    np.empty(0, np.int64), np.empty(0, np.int64), pl.Series([], dtype=pl.List(pl.Int64))
)


@st.composite
def batches(draw, bits):
    """Draw batches of rows of few keys in order, each with the time until which it is taken."""
    now_ms, place, made = 0, 0, []
    for _ in range(draw(st.integers(1, 4))):
        rows = []
        for _ in range(draw(st.integers(0, 12))):
            now_ms += draw(st.integers(0, 3))
            fits = draw(st.integers(1, (1 << bits) - 1))
            rows.append((draw(st.integers(0, 2)), place, now_ms, fits))
            place += 1
        now_ms += draw(st.integers(1, 8))
        columns = zip(*rows, strict=True) if rows else ((),) * 4
        made.append((KeyRows(*(np.array(each, np.int64) for each in columns)), now_ms))
    return made


def as_text(findings):
    return [
        getattr(findings, name).tolist()
        for name in ("kind", "at_ms", "is_timer", "place", "sizes", "refs")
    ]


def state_of(partials):
    return [column.tolist() for column in partials[:2]], partials.lists.to_list()


def through(engines, rows, partials, until_ms):
    return engines.run(rows, partials, until_ms, StepRows({}, 1, IN_MEMORY))


@given(st.data(), one_row_specs())
def test_columns_decide_what_the_automaton_decides(data, spec):
    pattern = spec.pattern
    automaton = Automaton(pattern, spec.max_partial)
    form = OneRowPattern.of(automaton)
    assert form is not None
    conditions = Conditions(pattern, COLUMNS)
    both = Engines(automaton, conditions, ("key",), form)
    alone = Engines(automaton, conditions, ("key",), None)
    one = other = NO_PARTIALS

    ends = [(KeyRows(*(np.empty(0, np.int64),) * 4), FOREVER_MS)]
    for rows, until_ms in data.draw(batches(len(pattern.conditions))) + ends:
        found, one = through(both, rows, one, until_ms)
        expected, other = through(alone, rows, other, until_ms)
        assert as_text(found) == as_text(expected)
        assert state_of(one) == state_of(other)
    assert one.key.size == 0


def step(name, **options):
    return Step(name, pl.col("value") > 0, **options)


ABOVE = pl.col("value") > pl.col("a.value")
NEVER = (pl.col("value") < 0,)


@pytest.mark.parametrize(
    ("pattern", "is_taken"),
    [
        (Pattern((step("a"), step("b")), 9), True),
        (Pattern((step("a"), step("b", never=NEVER)), 9), True),
        (Pattern((step("a"), step("b", after="followed_by_any")), 9), True),
        (Pattern((step("a"),), 9, NEVER), True),
        (Pattern((step("a"),), 9), False),
        (Pattern((step("a"), step("b")), 9, NEVER), False),
        (Pattern((step("a"), step("b", after="next")), 9), False),
        (Pattern((step("a"), step("b", on=ABOVE)), 9), False),
        (Pattern((step("a"), step("b", most=2)), 9), False),
        (Pattern((step("a"), step("b", greedy=True)), 9), False),
        (Pattern((step("a"), step("b"), step("c")), 9), False),
        (Pattern((step("a", least=0), step("b")), 9), False),
        (Pattern((step("a", least=2, most=3), step("b")), 9), False),
        (
            Pattern((step("a"), step("b", after="followed_by_any")), 9, skip=Skip("none")),
            False,
        ),
    ],
)
def test_which_patterns_columns_take(pattern, is_taken):
    assert (OneRowPattern.of(Automaton(pattern, 9)) is not None) == is_taken
