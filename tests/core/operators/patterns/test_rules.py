"""Rules against the oracle: whatever is cut, batched, restored or purged."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.oracles.clock import RowId, row_id
from tests.oracles.pattern import Result
from tests.oracles.rules import RulesRules, run_rules
from tests.support.logs import EventLog, cut_segments, event_logs, raws, recordings
from tests.support.operators.tables import of_partition, small_runs
from tests.support.patterns.found import by_step, in_any_order, result_of
from tests.support.patterns.rules import (
    BAD,
    DELETED,
    RulesSpec,
    operator,
    rule_text,
    rules_specs,
    with_rules,
)
from tests.support.running import Incidents, incidents, late_row, outputs, place
from tidemark.core.operators.operator import Operator
from tidemark.core.operators.output import Output
from tidemark.core.operators.patterns.rules.operator import LATE_RULES
from tidemark.core.operators.ports import DEAD, LATE, REASON, ROWS
from tidemark.core.rows.copies import COPY, in_parts
from tidemark.core.time.segment import Segment


@pytest.fixture(autouse=True, scope="module")
def few_versions():
    """Merge runs of versions from the first ones on."""
    with small_runs():
        yield


def results(frame: pl.DataFrame) -> list[tuple[str, Result]]:
    """Return results with their rules and rows; check the values that they show."""
    found = []
    for row in frame.iter_rows(named=True):
        steps = [each["step"] for each in row["_rows"]]
        assert (row["n"], row["rows"]) == (steps.count("a"), len(steps))
        assert "b" in steps or row["b"] is None
        found.append((row["rule"], result_of(row)))
    return found


class Made:
    """What a log gives, with the end of input, and the clocks around its results."""

    def __init__(
        self, operator: Operator, segments: Sequence[Segment], happen: Incidents | None = None
    ) -> None:
        self.results: list[list[tuple[str, Result]]] = []
        self.ids: list[str] = []
        self.refused: list[RowId] = []
        self.ended: list[tuple[str, int, int, str]] = []
        self.late: list[Any] = []
        self.late_rules: list[RowId] = []
        self.dead: list[RowId] = []
        self.clocks: list[int] = []
        for output, clock_ms in outputs(operator, segments, happen):
            self.add(output)
            self.clocks.append(clock_ms)

    def add(self, output: Output) -> None:
        self.results.append(results(output[ROWS]))
        self.ids += output[ROWS]["_id"].to_list()
        for row in output[LATE].iter_rows(named=True):
            if row[REASON] == "late":
                self.late.append(late_row(row))
            elif row[REASON].startswith("rule"):
                self.ended.append((*place(row), row[REASON]))
            else:
                self.refused.append(place(row))
        self.late_rules += [place(row) for row in output[LATE_RULES].iter_rows(named=True)]
        for row in output[DEAD].iter_rows(named=True):
            assert row[REASON].startswith("rule: ")
            self.dead.append(place(row))

    def by_step(self, expected: Sequence[tuple[str, Result]]) -> list[list[tuple[str, Result]]]:
        return by_step(expected, self.clocks, lambda each: each[1].at_ms)

    def everything(self) -> tuple[Any, ...]:
        """Return all results in order, and the other rows in none."""
        others = (self.refused, self.ended, self.late, self.late_rules, self.dead)
        joined = [each for step in self.results for each in step]
        return joined, self.ids, *(sorted(each, key=repr) for each in others)


def made(
    spec: RulesSpec,
    segments: Sequence[Segment],
    happen: Incidents | None = None,
    *,
    timeouts: bool = False,
) -> Made:
    log = [with_rules(segment, spec) for segment in segments]
    return Made(operator(spec, timeouts=timeouts), log, happen)


def oracle_rules(spec: RulesSpec) -> RulesRules:
    def text(value: int | None) -> str | None:
        found = spec.text(value)
        return None if found == BAD else found

    patterns = {rule_text(each): each.rules for each in spec.patterns}
    assert DELETED not in patterns
    by_arrival = spec.wait == "arrival"
    return RulesRules(spec.left, spec.right, text, patterns, spec.keep_ms, by_arrival)


@given(log=event_logs(), spec=rules_specs(), happen=incidents(), timeouts=st.booleans())
def test_each_rule_finds_in_its_periods_what_the_oracle_of_its_pattern_finds(
    log: EventLog, spec: RulesSpec, happen: Incidents, timeouts: bool
) -> None:
    expected = run_rules(log.segments, oracle_rules(spec))

    found = made(spec, log.segments, happen, timeouts=timeouts)

    wanted = expected.timeouts if timeouts else expected.matches
    assert in_any_order(found.results) == found.by_step(wanted)
    assert len(set(found.ids)) == len(found.ids)
    assert found.late == expected.late
    assert sorted(found.refused) == sorted(expected.refused)
    assert sorted(found.ended) == sorted(expected.ended)
    assert found.dead == expected.dead
    assert found.late_rules == [row_id(late.row) for late in expected.late_rules]


@fewer(3)
@given(data=st.data(), log=event_logs(repeats=False), spec=rules_specs(("event_time",)))
def test_cuts_change_no_result_and_not_their_order(
    data: Any, log: EventLog, spec: RulesSpec
) -> None:
    cut = data.draw(cut_segments(log.segments))

    assert made(spec, cut).everything() == made(spec, log.segments).everything()


@fewer(3)
@given(data=st.data(), raw=raws(), spec=rules_specs(("event_time",)))
def test_all_recordings_of_the_raw_records_give_the_same(
    data: Any, raw: Any, spec: RulesSpec
) -> None:
    one, other = data.draw(recordings(raw)), data.draw(recordings(raw))
    assert made(spec, one.segments).everything() == made(spec, other.segments).everything()


@fewer(3)
@given(log=event_logs(repeats=False), spec=rules_specs(), count=st.sampled_from((2, 3)))
def test_the_number_of_partitions_shows_nowhere(log: EventLog, spec: RulesSpec, count: int) -> None:
    """Each partition has the rows of its keys and all rules; refused rules are reported once."""
    whole = made(spec, log.segments)
    parts = [
        Made(
            operator(spec, copied=True),
            [copied(segment, spec, number, count) for segment in log.segments],
        )
        for number in range(count)
    ]
    for name in ("ids", "refused", "ended", "late", "late_rules", "dead"):
        every = [each for part in parts for each in getattr(part, name)]
        assert sorted(every, key=repr) == sorted(getattr(whole, name), key=repr), name


def copied(segment: Segment, spec: RulesSpec, number: int, count: int) -> Segment:
    """Return a segment with the rows of one partition, and with a copy of all rules."""
    stream = f"{spec.right}#rules"
    rules = with_rules(segment, spec).streams.get(stream)
    mine = of_partition(segment, number, count).streams
    if rules is None:
        return replace(segment, streams=mine)
    own = in_parts(rules.with_columns(pl.lit(value=False).alias(COPY)), count)[number]
    return replace(segment, streams={**mine, stream: own})
