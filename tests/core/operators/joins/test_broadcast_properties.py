"""Joins with broadcast tables against the oracle, and against themselves in other recordings."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.oracles.broadcast_join import Answer, BroadcastRun, Spec, answered
from tests.support.joins import broadcasts
from tests.support.logs import EventLog, cut_segments, event_logs, raws, recordings
from tests.support.operators.tables import of_partition, small_runs
from tests.support.running import Incidents, incidents, late_row, outputs, place
from tidemark.core.operators.joins.broadcast import matcher
from tidemark.core.operators.joins.broadcast import operator as broadcast_operator
from tidemark.core.operators.operator import Operator
from tidemark.core.operators.output import Output
from tidemark.core.rows.copies import COPY, in_parts
from tidemark.core.time.segment import Segment


@pytest.fixture(autouse=True, scope="module")
def few_at_once():
    """Look at few pairs together, and publish few results at once."""
    with (
        patch.object(matcher, "_CANDIDATES", 3),
        patch.object(broadcast_operator, "_PORTION_ROWS", 2),
        patch.object(broadcast_operator, "_BATCH_PAIRS", 20),
        small_runs(),
    ):
        yield


def run(
    spec: Spec,
    segments: Sequence[Segment],
    happen: Incidents | None = None,
    operator: Operator | None = None,
) -> BroadcastRun:
    """Run a log through the operator, with the end of input."""
    made = BroadcastRun()
    for output, _ in outputs(operator or broadcasts.operator(spec), segments, happen):
        note(made, output)
    return made


def note(made: BroadcastRun, output: Output) -> None:
    rows = output.frames.get("rows", pl.DataFrame())
    made.steps.append([result(row) for row in rows.iter_rows(named=True)])
    for row in output["late-left"].iter_rows(named=True):
        if row["@reason"] == "late":
            made.late_left.append(late_row(row))
        else:
            made.refused.append(place(row))
    made.late_right += [late_row(row) for row in output["late-right"].iter_rows(named=True)]


def result(row: dict[str, Any]) -> Answer:
    """Return a published row, with its id as the places, and a version even if it is missing."""
    version = (row.get("key_right"), row.get("value_right"))
    return Answer(row["_id"], (row["key"], row["value"]), version, row["_event_time_ms"])


def shown(answer: Answer) -> tuple[Any, ...]:
    return (answer.values, answer.version or (None, None), answer.at_ms)


def assert_equal(found: BroadcastRun, wanted: BroadcastRun) -> None:
    """Compare a run with the oracle's; ids stand for places, one for each."""
    assert [list(map(shown, step)) for step in found.steps] == [
        list(map(shown, step)) for step in wanted.steps
    ]
    places = zip(chain(*found.steps), chain(*wanted.steps), strict=True)
    pairs = {(one.places, other.places) for one, other in places}
    assert len({one for one, _ in pairs}) == len({other for _, other in pairs}) == len(pairs)
    assert found.late_left == wanted.late_left
    assert found.late_right == wanted.late_right
    assert found.refused == wanted.refused


def every(made: BroadcastRun) -> tuple[Any, ...]:
    """Return what a run has published at the end, in no order."""
    results = sorted((each.places, repr(shown(each))) for each in chain(*made.steps))
    return results, sorted(made.late_left), sorted(made.late_right), sorted(made.refused)


@given(spec=broadcasts.specs(), log=event_logs(), happen=incidents())
def test_results_and_late_rows_are_those_of_the_oracle(
    spec: Spec, log: EventLog, happen: Incidents
) -> None:
    assert_equal(run(spec, log.segments, happen), answered(log.segments, spec))


@fewer(3)
@given(data=st.data(), spec=broadcasts.specs(("event_time",)), raw=raws())
def test_no_interleaving_changes_what_is_published(data: Any, spec: Spec, raw: Any) -> None:
    one, other = data.draw(recordings(raw)), data.draw(recordings(raw))
    assert every(run(spec, one.segments)) == every(run(spec, other.segments))


@fewer(3)
@given(data=st.data(), spec=broadcasts.specs(), log=event_logs(repeats=False))
def test_no_cut_changes_what_is_published(data: Any, spec: Spec, log: EventLog) -> None:
    again = data.draw(cut_segments(log.segments))
    assert every(run(spec, log.segments)) == every(run(spec, again, data.draw(incidents())))


@fewer(3)
@given(spec=broadcasts.specs(), log=event_logs(repeats=False), count=st.sampled_from((2, 4)))
def test_the_number_of_partitions_shows_nowhere(spec: Spec, log: EventLog, count: int) -> None:
    """Each partition has the rows of its keys and all versions; late ones are reported once."""
    whole = run(spec, log.segments)
    parts = [
        run(
            spec,
            [copied(segment, spec, number, count) for segment in log.segments],
            operator=broadcasts.operator(spec, copied=True),
        )
        for number in range(count)
    ]
    both = BroadcastRun(
        [step for part in parts for step in part.steps],
        [row for part in parts for row in part.late_left],
        [row for part in parts for row in part.late_right],
        [place for part in parts for place in part.refused],
    )
    assert every(both) == every(whole)


def copied(segment: Segment, spec: Spec, number: int, count: int) -> Segment:
    """Return a segment with the rows of one partition, and with a copy of all versions."""
    versions = {
        f"{name}#2": in_parts(frame.with_columns(pl.lit(value=False).alias(COPY)), count)[number]
        for name, frame in segment.streams.items()
        if name in spec.right
    }
    mine = of_partition(segment, number, count).streams
    return replace(segment, streams={**mine, **versions})
