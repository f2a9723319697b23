"""Joins that give one row for each left row, against the oracle."""

from collections import Counter
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.oracles.clock import RowId
from tests.oracles.join import Gathered, JoinRules, Rejected, run_gathering
from tests.support.joins.stream import (
    LOGS,
    SELF,
    SHOWN,
    SIDES,
    Found,
    heard_by,
    id_of,
    operator,
    read,
    rules,
)
from tests.support.logs import cut_segments
from tests.support.running import Incidents, incidents, outputs
from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.joins import gathering_join
from tidemark.core.operators.joins.gathering_join import First, Gathering, GatheringJoin
from tidemark.core.operators.joins.stream_join import StreamJoin
from tidemark.core.operators.operator import Operator
from tidemark.core.operators.ports import ROWS
from tidemark.core.operators.rows import EVENT_TIME_MS

TYPES = {"value": pl.Int64(), "value_right": pl.Int64(), "right_row": pl.String()}
PARTNERS = Aggregation(
    {
        "n": aggregates.count(),
        "partners": aggregates.collect("right_row"),
        "total": aggregates.sum("value_right"),
    },
    TYPES,
)
ROW_RULES = rules(("left", "inner")).map(lambda drawn: drawn._replace(withdraws=False))


def gathering(drawn: JoinRules, what: Gathering, sides: Any = SIDES) -> Operator:
    """Return the operator that gathers the partners of left rows."""
    made = operator(drawn, sides)
    assert isinstance(made.body, StreamJoin)
    return replace(made, body=GatheringJoin.of(made.body, what))


def published(made: Operator, segments: Any, happen: Incidents) -> tuple[list[Any], list[Rejected]]:
    """Return the results of each step as dicts, and the rejected rows."""
    steps, found = [], Found()
    for output, _ in outputs(made, segments, happen):
        found.take(made, {**output.frames, ROWS: output[ROWS].clear()})
        steps.append(output[ROWS].to_dicts())
    return steps, found.rejected


def place(text: str) -> RowId:
    """Return the identity of a row that has a name."""
    named = id_of(text)
    assert named is not None
    return named


def gathered(row: Any) -> Gathered:
    """Return a result as the oracle says it."""
    partners = tuple(sorted(place(each) for each in row["partners"]))
    assert row["n"] == len(partners)
    return Gathered(place(row["left_row"]), partners, row[EVENT_TIME_MS])


@given(LOGS, ROW_RULES, st.sampled_from((SIDES, SIDES, SELF)), incidents())
def test_each_left_row_has_all_its_partners_once_it_is_due(log, drawn, sides, happen):
    heard = heard_by(sides, log.segments)
    expected, rejected = run_gathering(drawn, heard, sides)

    steps, refused = published(gathering(drawn, PARTNERS, sides), read(log), happen)

    found = [Counter(map(gathered, step)) for step in steps]
    assert found == [Counter(step) for step in expected]
    assert Counter(refused) == Counter(rejected)
    rows = {row[:3]: row for step in heard for row in step.rows}
    for row in (row for step in steps for row in step):
        partners = [rows[place(each)] for each in row["partners"]]
        assert [each.at_ms for each in partners] == sorted(each.at_ms for each in partners)
        values = [each.value for each in partners if each.value is not None]
        assert row["total"] == (sum(values) if values else None)


@given(LOGS, ROW_RULES, st.sampled_from((None, "right_row", "value_right")), incidents())
def test_the_first_partner_is_the_one_with_the_least_value(log, drawn, by, happen):
    heard = heard_by(SIDES, log.segments)
    expected, _ = run_gathering(drawn, heard, SIDES)
    rows = {row[:3]: row for step in heard for row in step.rows}

    def rank(partner: Any) -> tuple[Any, ...]:
        row = rows[partner]
        if by == "right_row":
            return (f"{row.source} {row.offset} {row.sub_row}",)
        if by is None:
            return (row.at_ms,)
        return (row.value is None, row.value or 0, row.at_ms)

    first = First(None if by is None else pl.col(by))
    steps, _ = published(gathering(drawn, first), read(log), happen)

    for step, wanted in zip(steps, expected, strict=True):
        partners = {each.left: each.partners for each in wanted}
        assert Counter(place(row["left_row"]) for row in step) == Counter([*partners])
        for row in step:
            own = partners[place(row["left_row"])]
            chosen = id_of(row["right_row"])
            assert (chosen is None) == (not own)
            assert not own or (chosen in own and rank(chosen) == min(map(rank, own)))
            assert row["value_right"] == (None if chosen is None else rows[chosen].value)


@fewer(3)
@given(st.data(), LOGS, ROW_RULES, incidents())
def test_cuts_change_no_row(data, log, drawn, happen):
    cut = data.draw(cut_segments(log.segments))
    made = gathering(drawn, PARTNERS)

    whole, parts = (
        [
            row
            for step in published(made, read(replace(log, segments=each)), happen)[0]
            for row in step
        ]
        for each in (log.segments, cut)
    )

    def by_id(rows):
        return sorted(rows, key=lambda row: row["_id"])

    assert by_id(whole) == by_id(parts)


@fewer(3)
@given(LOGS, ROW_RULES)
def test_few_pairs_at_once_give_the_same_rows(log, drawn):
    made = gathering(drawn, PARTNERS)
    whole, _ = published(made, read(log), Incidents())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathering_join, "_MOST_PAIRS", 2)
        parts, _ = published(made, read(log), Incidents())
    assert whole == parts


def test_the_columns_of_results():
    drawn = JoinRules("left", -5, 5)
    for what, own in ((PARTNERS, [*PARTNERS.types]), (First(), [*SHOWN["right"].values()])):
        port = gathering(drawn, what).port(ROWS)
        assert [*port.columns] == ["_id", "key", *SHOWN["left"].values(), *own, EVENT_TIME_MS]
