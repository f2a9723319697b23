"""Joins with tables against the oracle, and against themselves in other recordings."""

from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.oracles.table_join import Answer, Spec, answered
from tests.oracles.versions import TableRun
from tests.support.logs import EventLog, cut_segments, event_logs, raws, recordings
from tests.support.operators import tables
from tests.support.running import Incidents, incidents, late_row, outputs
from tidemark.core.operators.joins import version_runs, versions
from tidemark.core.operators.output import Output
from tidemark.core.time.segment import Segment


@contextmanager
def hashes_collide():
    """Give several keys the same hash."""

    def few(keys: pl.DataFrame) -> Any:
        lengths = keys.to_series().fill_null("dd").str.slice(0, 1).eq("a")
        return lengths.cast(pl.UInt64).to_numpy()

    with patch.object(versions, "hashes_of", few), patch.object(version_runs, "hashes_of", few):
        yield


def run(
    spec: Spec, segments: Sequence[Segment], happen: Incidents | None = None
) -> TableRun[Answer]:
    """Run a log through the operator, with the end of input."""
    made = TableRun[Answer]()
    for output, _ in outputs(tables.operator(spec), segments, happen):
        note(made, output)
    return made


def note(made: TableRun[Answer], output: Output) -> None:
    rows = output.frames.get("rows", pl.DataFrame())
    made.steps.append([result(row) for row in rows.iter_rows(named=True)])
    made.late_left += [late_row(row) for row in output["late-left"].iter_rows(named=True)]
    made.late_right += [late_row(row) for row in output["late-right"].iter_rows(named=True)]


def result(row: dict[str, Any]) -> Answer:
    """Return a published row, with its id as the place."""
    return Answer(
        row["_id"],
        row["key"],
        row["value"],
        row["value_right"],
        row["_event_time_ms"],
        row.get("revision", 1),
        row.get("retracted", False),
    )


def assert_equal(found: TableRun[Answer], wanted: TableRun[Answer]) -> None:
    """Compare a run with the oracle's; ids stand for places, one for each."""
    assert [[r[1:] for r in step] for step in found.steps] == [
        [r[1:] for r in step] for step in wanted.steps
    ]
    pairs = {
        (one.place, other.place)
        for step, expected in zip(found.steps, wanted.steps, strict=True)
        for one, other in zip(step, expected, strict=True)
    }
    assert len({one for one, _ in pairs}) == len({other for _, other in pairs}) == len(pairs)
    assert found.late_left == wanted.late_left
    assert found.late_right == wanted.late_right


def last(steps: Iterable[Iterable[Answer]]) -> set[tuple[Any, ...]]:
    """Return the results that stand at the end, without revisions."""
    found = {each.place: each for step in steps for each in step}
    return {each[:5] for each in found.values() if not each.retracted}


@given(spec=tables.specs(), log=event_logs(), happen=incidents())
def test_answers_and_late_rows_are_those_of_the_oracle(
    spec: Spec, log: EventLog, happen: Incidents
) -> None:
    with tables.small_runs():
        assert_equal(run(spec, log.segments, happen), answered(log.segments, spec))


@fewer(3)
@given(spec=tables.specs(), log=event_logs(), happen=incidents())
def test_keys_with_the_same_hash_are_told_apart(
    spec: Spec, log: EventLog, happen: Incidents
) -> None:
    with hashes_collide(), tables.small_runs():
        assert_equal(run(spec, log.segments, happen), answered(log.segments, spec))


@fewer(3)
@given(data=st.data(), spec=tables.specs(("event_time",)), raw=raws())
def test_no_interleaving_changes_what_stands_at_the_end(data: Any, spec: Spec, raw: Any) -> None:
    one, other = data.draw(recordings(raw)), data.draw(recordings(raw))
    found, again = run(spec, one.segments), run(spec, other.segments)
    assert last(found.steps) == last(again.steps)
    assert sorted(found.late_left) == sorted(again.late_left)
    assert sorted(found.late_right) == sorted(again.late_right)


@fewer(3)
@given(data=st.data(), spec=tables.specs(), log=event_logs(repeats=False))
def test_no_cut_changes_what_stands_at_the_end(data: Any, spec: Spec, log: EventLog) -> None:
    found = run(spec, log.segments)
    again = run(spec, data.draw(cut_segments(log.segments)), data.draw(incidents()))
    assert last(found.steps) == last(again.steps)
    assert (found.late_left, found.late_right) == (again.late_left, again.late_right)


@fewer(3)
@given(spec=tables.specs(), log=event_logs(repeats=False), count=st.sampled_from((2, 4)))
def test_the_number_of_partitions_shows_nowhere(spec: Spec, log: EventLog, count: int) -> None:
    whole = run(spec, log.segments)
    parts = [
        run(spec, [tables.of_partition(segment, number, count) for segment in log.segments])
        for number in range(count)
    ]
    assert last(whole.steps) == {each for part in parts for each in last(part.steps)}
    for side in ("late_left", "late_right"):
        assert len(getattr(whole, side)) == sum(len(getattr(part, side)) for part in parts)


def test_a_search_in_ranges_finds_the_last_value_that_is_not_later():
    draw = np.random.default_rng(1)
    sizes = draw.integers(1, 40, 200)
    values = np.concatenate([np.sort(draw.integers(0, 50, size)) for size in sizes])
    high = np.cumsum(sizes)
    low = high - sizes
    until = draw.integers(-1, 51, 200)
    found = version_runs._last_until(values, low, high, until)
    wanted = [
        begin + int((values[begin:end] <= most).sum()) - 1
        for begin, end, most in zip(low, high, until, strict=True)
    ]
    assert found.tolist() == wanted
