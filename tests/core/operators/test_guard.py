"""Rows and panes on which a user's code fails: as if the rows were not there, in every family."""

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.support.logs import EventLog, event_logs
from tests.support.operators.families import AGGREGATING, FAMILIES
from tests.support.operators.guarded import GUARDED, MADE, fails, guarded, refused
from tests.support.running import Task, incidents
from tidemark.core.operators.output import Output
from tidemark.core.operators.ports import DEAD, FAILED, LATE, PANES, REASON
from tidemark.core.operators.replacing.withdrawing import Withdrawing
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.segment import OFFSET, SOURCE, SUB_ROW, Segment
from tidemark.core.windows.pane import RETRACTED

PLACE = [SOURCE, OFFSET, SUB_ROW]


def bad(column: str = "value") -> pl.Expr:
    return pl.col(column).is_null() | (pl.col(column) % 7 == 0)


def without_refused(segment: Segment) -> Segment:
    streams = {name: rows.filter(~bad()) for name, rows in segment.streams.items()}
    return replace(segment, streams=streams)


def failing(panes: pl.DataFrame) -> pl.Series:
    return pl.Series([fails(total) for total in panes["total"]], dtype=pl.Boolean)


def check(made: Output, plain: Output, inner: Output, refusals: list[Any]) -> None:
    """Compare a step with that of an operator without users' aggregates, over good rows only.

    ``inner``: of the operator that shows every pane, even if ``plain`` does not show it again.
    """
    shown = made.frames[PANES].drop("end_of_input", strict=False)
    expected = plain.frames[PANES].drop("end_of_input", strict=False)
    # Withdrawals show the published values, or none.  Nothing withdraws a pane that failed.
    gone = failing(expected) & ~(expected[RETRACTED] & expected["total"].is_null())
    assert shown.rows() == expected.filter(~gone).with_columns(pl.col("total").alias(MADE)).rows()
    failed = made.frames.get(FAILED, pl.DataFrame()).drop("end_of_input", strict=False)
    bounds = [name for name in failed.columns if name != REASON]
    panes = inner.frames[PANES].filter(~pl.col(RETRACTED))
    failures = panes.filter(failing(panes))
    assert failed.select(bounds).rows() == failures.select(bounds).rows()
    assert made.failed == failures.height == failed.height
    assert all(
        reason.startswith("made=custom(Total): result: ArithmeticError: ")
        for reason in failed.to_dict().get(REASON, [])
    )
    dead = made.frames.get(DEAD)
    assert ([] if dead is None else dead.select(PLACE).rows()) == refusals
    assert made.dead == len(refusals)
    assert made.frames[LATE].rows() == plain.frames[LATE].rows()
    assert made.rows == plain.rows + made.dead


@pytest.mark.parametrize("family", AGGREGATING)
@fewer(4)
@given(data=st.data(), log=event_logs(), happen=incidents())
def test_a_row_that_is_refused_leaves_no_trace_and_a_pane_that_fails_is_apart(  # B1
    family: str, data: Any, log: EventLog, happen: Any
) -> None:
    case = FAMILIES[family](data.draw, log)
    plain, task = OperatorTask(case.operator), Task(guarded(case.operator), happen.store)
    body = case.operator.body
    inner = replace(case.operator, body=body.inner if isinstance(body, Withdrawing) else body)
    every_pane = OperatorTask(inner)
    # Rows that were read before are dropped before the guard sees them.
    seen: dict[str, int] = {}
    for step, segment in enumerate(case.segments):
        refusals = []
        names = [mark.source for mark in segment.sources]
        frames = [frame.select(*PLACE, "value").rows() for frame in segment.streams.values()]
        for number, offset, sub_row, value in sorted(row for rows in frames for row in rows):
            if offset >= seen.get(names[number], 0) and refused(value):
                refusals.append((names[number], offset, sub_row))
        for mark in segment.sources:
            seen[mark.source] = max(seen.get(mark.source, 0), mark.next_offset)
        good = without_refused(segment)
        check(task.step(segment), plain.step(good), every_pane.step(good), refusals)
        task.meet(happen, step)
    check(task.finish(), plain.finish(), every_pane.finish(), [])
    assert GUARDED.user_functions.keys() == {MADE}
