"""Early panes of sessions by hand: what each timeline shows, and what a segment costs."""

import random

import numpy as np
import pytest

from tests.support.session_stream import Stream
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.sessions.history import NONE, taken_into
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.windows.trigger import every, on_close, on_update
from tidemark.core.windows.window import Session


class Early(Stream):
    """A stream of sessions with early panes."""

    def __init__(self, trigger, **settings):
        super().__init__(trigger=trigger, **settings)

    def segment(self, text="", now=0):
        """Take rows recorded at ``now``."""
        self.body.record(self.state, now, self.clock_ms)
        return self.rows(text)


def test_by_rows_each_pane_shows_the_session_as_its_row_left_it():
    stream = Early(on_update())
    assert stream.rows("a 1, a 15, a 8, a 20") == [
        "a [1,11) r1 early",
        "a [15,25) r1 early",
        "a [15,25) r1 retracted",
        "a [1,25) r3 early",
        "a [1,30) r4 early",
    ]


def test_by_event_time_the_highest_of_all_sessions_that_a_row_joins_counts():
    stream = Early(on_close(every(event_time="10ms")))
    assert stream.rows("a 1, a 15, a 8") == []
    assert stream.rows("a 20") == ["a [1,30) r4 early"]


def test_by_event_time_a_pane_that_is_withdrawn_is_replaced_at_once():
    stream = Early(on_close(every(event_time="10ms")))
    assert stream.rows("a 1, a 15, a 22") == ["a [15,32) r2 early"]
    assert stream.rows("a 8") == ["a [15,32) r2 retracted", "a [1,32) r4 early"]


def test_by_processing_time_sessions_are_shown_as_an_interval_begins():
    stream = Early(on_close(every(processing_time="100ms")))
    assert stream.segment("a 1, b 2", now=10) == []
    assert stream.segment("a 3", now=90) == []
    assert stream.segment("b 4", now=110) == ["b [2,12) r1 early", "a [1,13) r2 early"]
    assert stream.segment(now=199) == []
    assert stream.segment(now=200) == ["b [2,14) r2 early"]
    assert stream.segment(now=300) == []
    assert stream.clock(14) == ["a [1,13) r2 on_time final", "b [2,14) r2 on_time final"]


@pytest.mark.parametrize("own_gaps", [False, True])
def test_versions_are_those_of_one_fragment_after_the_other(own_gaps):
    for seed in range(400):
        _compare_versions(random.Random(seed), own_gaps)


def _compare_versions(draw, own_gaps):
    size = draw.randint(1, 14)
    start = np.array([draw.randrange(2) * 1_000 + draw.randrange(40) for _ in range(size)])
    end = start + np.array([draw.choice((1, 4, 10)) if own_gaps else 6 for _ in range(size)])
    live: list[tuple[int, int, int]] = []
    into = [NONE] * size
    for turn in range(size):
        met = [one for one in live if one[0] < end[turn] and start[turn] < one[1]]
        for one in met:
            live.remove(one)
            into[one[2]] = turn
        bounds = [*met, (start[turn], end[turn])]
        live.append((min(one[0] for one in bounds), max(one[1] for one in bounds), turn))
    assert taken_into(start, end).tolist() == into


def test_a_key_that_jumps_between_its_sessions_takes_no_round_for_each_jump(monkeypatch):
    calls = []
    combine = Aggregation._merged

    def counted(*of):
        calls.append(of)
        return combine(*of)

    monkeypatch.setattr(Aggregation, "_merged", counted)

    def rounds(jumps):
        stream = Early(on_close(every(rows=2)), windows=Session(5))
        calls.clear()
        times = random.Random(1).sample(range(jumps * 4), jumps)
        stream.body.fold(stream.frame(", ".join(f"a {at}" for at in times)), stream.state)
        stream.body.publish(stream.state, NEVER_MS, NEVER_MS)
        return len(calls)

    assert rounds(2_000) <= 2 * rounds(100)
