"""Patterns against the oracle: whatever is cut, batched, restored or purged."""

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.pattern import run_pattern
from tests.support.logs import cut_segments, event_logs, raws, recordings
from tests.support.patterns.found import by_step, in_any_order, result_of
from tests.support.patterns.steps import one_row_specs, operator, specs
from tests.support.running import incidents, late_row, outputs, place
from tidemark.core.operators.patterns.conditions import Conditions
from tidemark.core.operators.patterns.near import NOTHING_NEAR
from tidemark.core.operators.patterns.operator import TIMEOUTS
from tidemark.core.operators.ports import LATE, REASON, ROWS


def results(frame):
    """Return results with their rows; the values of the step ``a`` are those of its rows."""
    for row in frame.iter_rows(named=True):
        of_step = [each for each in row["_rows"] if each["step"] == "a"]
        assert (row["n"], row["rows"]) == (len(of_step), len(row["_rows"]))
        assert len(row["values"]) == row["n"]
        ends = (row["values"][0], row["values"][-1]) if of_step else (None, None)
        assert ends == (row["first"], row["last"])
    return [result_of(row) for row in frame.iter_rows(named=True)]


class Made:
    """What a log gives: results of each step, the end of input last, with the clocks around."""

    def __init__(self, operator, segments, happen=None):
        self.matches, self.timeouts, self.late, self.refused = [], [], [], []
        self.clocks = []
        for output, clock_ms in outputs(operator, segments, happen):
            self.add(output)
            self.clocks.append(clock_ms)

    def add(self, output):
        self.matches.append(results(output[ROWS]))
        self.timeouts.append(results(output[TIMEOUTS]))
        for row in output[LATE].iter_rows(named=True):
            if row[REASON] == "late":
                self.late.append(late_row(row))
            else:
                self.refused.append(place(row))

    def by_step(self, expected):
        return by_step(expected, self.clocks, lambda each: each.at_ms)


def joined(steps):
    return [each for step in steps for each in step]


@given(event_logs(), specs() | one_row_specs(), incidents())
def test_matches_and_timeouts_are_the_oracles_whatever_is_restored_or_purged(log, spec, happen):
    expected = run_pattern(log.segments, log.topics, spec.rules)

    made = Made(operator(spec, log.topics), log.segments, happen)

    assert in_any_order(made.matches) == made.by_step(expected.matches)
    assert in_any_order(made.timeouts) == made.by_step(expected.timeouts)
    assert made.late == expected.late
    assert sorted(made.refused) == sorted(expected.refused)


@given(st.data(), event_logs(), specs() | one_row_specs())
def test_cuts_change_no_result_and_not_their_order(data, log, spec):
    cut = data.draw(cut_segments(log.segments))

    whole, parts = (Made(operator(spec, log.topics), each) for each in (log.segments, cut))

    assert joined(parts.matches) == joined(whole.matches)
    assert joined(parts.timeouts) == joined(whole.timeouts)
    assert parts.refused == whole.refused


@given(st.data(), raws(), specs() | one_row_specs())
def test_all_recordings_of_the_raw_records_give_the_same(data, raw, spec):
    runs = []
    for log in (data.draw(recordings(raw)), data.draw(recordings(raw))):
        made = Made(operator(spec, log.topics), log.segments)
        late = sorted(made.late, key=repr)
        runs.append((joined(made.matches), joined(made.timeouts), made.refused, late))

    assert runs[0] == runs[1]


@given(event_logs(), specs())
def test_answers_of_near_rows_are_those_of_questions(log, spec):
    near = Made(operator(spec, log.topics), log.segments)
    with patch.object(Conditions, "near", lambda *_: NOTHING_NEAR):
        asked = Made(operator(spec, log.topics), log.segments)

    assert near.matches == asked.matches
    assert near.timeouts == asked.timeouts
    assert near.refused == asked.refused
