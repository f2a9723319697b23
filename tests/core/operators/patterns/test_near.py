"""Conditions on earlier rows: many are answered before they are asked, which changes no result."""

from unittest.mock import patch

import polars as pl
from hypothesis import given

from tests.core.operators.patterns.test_properties import Made
from tests.core.operators.patterns.test_timelines import Log
from tests.support.logs import event_logs
from tests.support.operators.patterns import operator, specs
from tidemark.core.operators.patterns.conditions import Conditions
from tidemark.core.operators.patterns.near import NOTHING_NEAR, REACH
from tidemark.core.operators.patterns.pattern import Pattern, Step

ANY = pl.lit(value=True)


@given(event_logs(), specs())
def test_answers_of_near_rows_are_those_of_questions(log, spec):
    near = Made(operator(spec, log.topics), log.segments)
    with patch.object(Conditions, "near", lambda *_: NOTHING_NEAR):
        asked = Made(operator(spec, log.topics), log.segments)

    assert near.matches == asked.matches
    assert near.timeouts == asked.timeouts
    assert near.refused == asked.refused


def rounds(pattern, rows):
    """Return the texts of the results of rows in one segment, and how often the engine asks."""
    log, answers, asked = Log(pattern), Conditions.answers, list[int]()

    def counted(self, questions, step_rows):
        asked.append(len(questions))
        return answers(self, questions, step_rows)

    with patch.object(Conditions, "answers", counted):
        return log.take(*rows, w_ms=10**6), len(asked)


def test_the_row_before_in_a_step_needs_no_questions():
    rising = pl.col("x") > pl.col("up.x").fill_null(-1)
    pattern = Pattern(
        (Step("up", ANY, rising, least=2, most=None, between="next", greedy=True),), 10**5
    )
    rows = [("a", at, x) for at, x in enumerate([0, 1, 2, 1, 5, 6, 7, 7])]
    assert rounds(pattern, rows) == (["0 1 2 at 3", "3 4 5 6 at 7", "timeout 7 at 100006"], 0)


def test_rows_further_back_are_asked_for():
    """A row is compared with the first one, and that is up to 20 rows before it."""
    above = pl.col("x") > pl.col("first.x")
    pattern = Pattern(
        (
            Step("first", pl.col("kind") == "f"),
            Step("more", ANY, above, "next", most=None, between="next", greedy=True),
            Step("end", ANY, after="next"),
        ),
        10**5,
    )
    rows = [("f", 0, 1), *(("m", at, 2) for at in range(1, 20)), ("m", 20, 1)]
    expected = f"{' '.join(map(str, range(21)))} at 20"
    assert rounds(pattern, rows) == ([expected], 20 - REACH)
