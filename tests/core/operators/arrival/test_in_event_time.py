"""Count windows in order of event time: a function of the raw records, against the oracle."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.arrival import Arriving, NumberedPane, in_event_time
from tests.support.logs import cut_segments, event_logs, raws, recordings
from tests.support.operators import arrival
from tests.support.running import incidents, run
from tidemark.core.operators.arrival.in_event_time import HeldState


@given(event_logs(), arrival.in_event_time_specs(), incidents())
def test_panes_and_late_rows_are_the_oracles_whatever_is_restored_or_purged(log, drawn, happen):
    spec, every = drawn
    expected = in_event_time(log.segments, log.topics, spec)

    found = run(arrival.in_event_time(spec, every, log.topics), log.segments, happen, NumberedPane)

    assert found.steps == expected.steps
    assert found.late == expected.late


@given(st.data(), event_logs(), arrival.in_event_time_specs())
def test_cuts_change_no_pane_and_not_their_order(data, log, drawn):
    spec, every = drawn
    operator = arrival.in_event_time(spec, every, log.topics)
    cut = data.draw(cut_segments(log.segments))

    whole, parts = (run(operator, each, None, NumberedPane) for each in (log.segments, cut))

    assert parts.panes == whole.panes
    assert sorted(parts.late) == sorted(whole.late)


@given(st.data(), raws(), arrival.in_event_time_specs())
def test_all_recordings_of_the_raw_records_give_the_same(data, raw, drawn):
    spec, every = drawn
    runs = []
    for log in (data.draw(recordings(raw)), data.draw(recordings(raw))):
        operator = arrival.in_event_time(spec, every, log.topics)
        made = run(operator, log.segments, None, NumberedPane)
        runs.append((sorted(made.panes, key=repr), sorted(made.late, key=repr)))

    assert runs[0] == runs[1]


def test_state_of_rows_that_the_clock_has_passed_is_gone():
    operator = arrival.in_event_time(Arriving("count", 2, 2), None, ("t",))
    state = operator.body.open()
    assert isinstance(state, HeldState)
    rows = pl.DataFrame(
        {
            "@source": ["t/0"] * 3,
            "@offset": [0, 1, 2],
            "@sub_row": pl.Series([0, 0, 0], dtype=pl.Int32),
            "@event_time": [30, 10, 20],
            "@watermark": [-(2**63)] * 3,
            "key": ["a"] * 3,
            "value": [3, 1, 2],
        }
    )

    operator.body.process({"input": rows}, state)
    waiting = [len(state.waiting)]
    for clock_ms in (10, 11, 21, 31):
        operator.body.advance(state, clock_ms - 1, clock_ms)
        waiting.append(len(state.waiting))

    assert waiting == [3, 3, 2, 1, 0]
    assert operator.body.pending(state) is False
