"""Aggregates of some rows beside those of all rows, in every family of operators."""

from collections import Counter
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.support.logs import COLUMNS, EventLog, event_logs
from tests.support.operators.families import AGGREGATING, FAMILIES
from tests.support.operators.guarded import with_aggregation
from tests.support.running import Task, incidents
from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.output import Output
from tidemark.core.operators.ports import DEAD, PANES, REASON
from tidemark.core.windows.pane import RETRACTED, REVISION

EVEN = pl.col("value") % 2 == 0
FILTERED = Aggregation(
    {
        "n": aggregates.count(),
        "all": aggregates.collect("value"),
        "evens": aggregates.count(where=EVEN),
        "total": aggregates.sum("value", where=EVEN),
        "some": aggregates.collect("value", where=EVEN),
        "whole": aggregates.latest(),
        "even": aggregates.latest("value", order="arrival", where=EVEN),
        "counts": aggregates.value_counts("value", limit=3, where=EVEN),
        "never": aggregates.max("value", where=pl.col("key") == "nobody"),
    },
    COLUMNS,
)


def check(made: Output) -> None:
    for pane in made.frames[PANES].filter(~pl.col(RETRACTED)).iter_rows(named=True):
        evens = [value for value in pane["all"] if value % 2 == 0]
        assert pane["some"] == evens
        assert pane["evens"] == len(evens)
        assert pane["total"] == (sum(evens) if evens else None)
        assert pane["never"] is None
        assert pane["n"] == 0 or pane["whole"].keys() == COLUMNS.keys()
        assert (pane["even"] is None) == (not evens)
        listed = [(each["value"], each["count"]) for each in pane["counts"] or ()]
        assert Counter(dict(listed)) == Counter(evens if len(set(evens)) <= 3 else ())
        assert pane["n"] >= len(pane["all"])  # a null is a row


@pytest.mark.parametrize("family", AGGREGATING)
@fewer(4)
@given(data=st.data(), log=event_logs(), happen=incidents())
def test_where_takes_rows_out_of_its_aggregate_alone(
    family: str, data: Any, log: EventLog, happen: Any
) -> None:
    case = FAMILIES[family](data.draw, log)
    task = Task(with_aggregation(case.operator, FILTERED), happen.store)
    for step, segment in enumerate(case.segments):
        check(task.step(segment))
        task.meet(happen, step)
    check(task.finish())


@fewer(2)
@given(data=st.data(), log=event_logs())
def test_a_row_on_which_where_fails_is_a_dead_letter(data: Any, log: EventLog) -> None:
    case = FAMILIES["tumbling"](data.draw, log)
    digits = pl.col("value").cast(pl.String).str.replace("3", "three")
    fails = aggregates.count(where=digits.str.to_integer() > 1)
    aggregation = Aggregation({"n": aggregates.count(), "some": fails}, COLUMNS)
    task = Task(with_aggregation(case.operator, aggregation))
    dead = []
    for segment in case.segments:
        made = task.step(segment)
        assert made.dead == (made.frames[DEAD].height if DEAD in made.frames else 0)
        dead.append(made.frames.get(DEAD, pl.DataFrame()))
        assert (made.frames[PANES][REVISION] >= made.frames[PANES]["n"].fill_null(0)).all()
    for row in pl.concat(dead, how="diagonal").iter_rows(named=True):
        assert "3" in str(row["value"])
        assert row[REASON].startswith("some=count(): where: ComputeError: ")
