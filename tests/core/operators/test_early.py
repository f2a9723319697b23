"""Early and discarding panes: the timelines of docs/semantics.md, "Early panes", "Discarding"."""

from typing import Any

import polars as pl
import pytest

from tests.support.running import AGGREGATION
from tests.support.session_stream import Stream
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.early import EarlyAggregate
from tidemark.core.time.segment import NEVER_MS, ROW_COLUMNS, SOURCE
from tidemark.core.windows.pane import EARLY
from tidemark.core.windows.trigger import every, on_close, on_final, on_update
from tidemark.core.windows.window import Hopping
from tidemark.errors import PipelineError

COLUMNS = {"key": pl.String(), "value": pl.Int64()}
ROWS = {**ROW_COLUMNS, SOURCE: pl.String(), **COLUMNS}

TIMELINE = ((1, NEVER_MS), (2, 1), (4, 2), (9, 4), (12, 9), (8, 12), (16, 12))


class Windows:
    """Tumbling windows of 10, fed row by row; the clock follows each row."""

    def __init__(self, trigger, *, discarding=False, lateness=5):
        windows = WindowAggregate(
            Hopping(10, 10), AGGREGATION, ("key",), COLUMNS, lateness, trigger, discarding
        )
        plain = trigger in (on_close(), on_final())
        self.body: Any = windows if plain else EarlyAggregate(windows)
        self.state: Any = self.body.open()
        self.clock_ms = NEVER_MS
        self.rows = 0

    def take(self, *rows, now=0):
        """Fold rows of (time, W) as one segment; return its panes of [0, 10)."""
        made = []
        for at, w in rows:
            made.append(("t/0", self.rows, 0, at, w, "a", at))
            self.rows += 1
        before_ms = self.clock_ms
        if isinstance(self.body, EarlyAggregate):
            self.body.record(self.state, now, before_ms)
        self.body.fold(pl.DataFrame(made, schema=ROWS, orient="row"), self.state)
        self.clock_ms = max([self.clock_ms, *(at for at, _ in rows)])
        panes = self.body.publish(self.state, before_ms, self.clock_ms)
        self.state.validate()
        return list(panes.filter(start=0).iter_rows(named=True))


def shown(pane):
    timing = "" if pane["timing"] == EARLY else f" {pane['timing']}"
    return f"r{pane['revision']}{timing}{' final' if pane['final'] else ''}"


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        (on_close(), ["", "", "", "", "r4 on_time", "r5 late", ""]),
        (on_close(every(rows=2)), ["", "r2", "", "r4", "r4 on_time", "r5 late", ""]),
        (on_close(every(event_time="3ms")), ["", "", "r3", "r4", "r4 on_time", "r5 late", ""]),
        (on_final(), ["", "", "", "", "", "", "r5 late final"]),
        (on_update(), ["r1", "r2", "r3", "r4", "", "r5 late", ""]),
        (every(rows=2), ["", "r2", "", "r4", "", "", "r5 late final"]),
    ],
    ids=str,
)
def test_panes_come_as_the_timeline_says(trigger, expected):
    windows = Windows(trigger)
    got = [", ".join(map(shown, windows.take(row))) for row in TIMELINE]
    assert got == expected


def test_discarding_panes_hold_what_came_since_the_pane_before():
    windows = Windows(on_close(every(rows=2)), discarding=True)
    panes = [pane for row in TIMELINE for pane in windows.take(row)]
    assert [(shown(p), p["n"], p["total"], p["low"]) for p in panes] == [
        ("r2", 2, 3, 1),
        ("r4", 2, 13, 4),
        ("r4 on_time", 0, None, None),
        ("r5 late", 1, 8, 8),
    ]


def test_one_segment_gives_the_panes_that_many_do():
    windows = Windows(on_close(every(rows=2)))
    assert [shown(p) for p in windows.take(*TIMELINE[:4])] == ["r2", "r4"]


def test_processing_time_shows_what_was_recorded_before_an_interval_began():
    #  recorded at    900      1100       1900   2000
    #  row            t=1      t=2, t=3          t=4
    windows = Windows(on_close(every(processing_time="1000ms")))
    assert windows.take((1, NEVER_MS), now=900) == []
    assert [shown(p) for p in windows.take((2, 1), (3, 2), now=1_100)] == ["r1"]
    assert windows.take(now=1_900) == []
    assert [shown(p) for p in windows.take((4, 3), now=2_000)] == ["r3"]
    assert [shown(p) for p in windows.take(now=9_000)] == ["r4"]
    assert windows.take(now=10_000) == []


def test_no_early_pane_follows_the_close():
    windows = Windows(on_close(every(processing_time="1000ms")))
    windows.take((1, NEVER_MS), now=900)
    assert [shown(p) for p in windows.take((12, 1), now=950)] == ["r1 on_time"]
    assert windows.take(now=5_000) == []


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: every(), "pass exactly one of rows, event_time and processing_time"),
        (lambda: every(rows=1, event_time="1ms"), "pass exactly one of"),
        (lambda: every(rows=0), "every(rows): 0 is not a positive integer"),
        (lambda: every(rows=True), "every(rows): True is not a positive integer"),
        (lambda: every(event_time="0s"), "every(event_time): '0s' is not longer than 0"),
        (
            lambda: every(processing_time="-1s"),
            "every(processing_time): '-1s' is not longer than 0",
        ),
        (lambda: on_close(on_final()), "is not every(...)"),  # type: ignore[arg-type]  # the mistake under test
    ],
)
def test_a_trigger_that_means_nothing_is_refused(build, message):
    with pytest.raises(PipelineError) as error:
        build()
    assert message in str(error.value)


def test_a_session_is_shown_as_each_row_leaves_it():
    #  t=1     [1----11)
    #  t=15                 [15----25)
    #  t=8          [8----------18)      joins both
    #  t=20                       [20----30)
    stream = Stream(trigger=on_update())
    assert stream.rows("a 1 @0, a 15 @0, a 8 @0, a 20 @0") == [
        "a [1,11) r1 early",
        "a [15,25) r1 early",
        "a [15,25) r1 retracted",
        "a [1,25) r3 early",
        "a [1,30) r4 early",
    ]
    assert stream.clock(30) == []


def test_a_session_that_closes_is_published_again_only_if_its_trigger_closes():
    stream = Stream(trigger=on_close(every(rows=2)))
    assert stream.rows("a 1 @0, a 2 @0, a 3 @0, a 4 @0") == [
        "a [1,12) r2 early",
        "a [1,14) r4 early",
    ]
    assert stream.clock(13) == []
    assert stream.rows("a 5 @0") == []
    assert stream.clock(15) == ["a [1,15) r5 on_time final"]


def test_sessions_that_discard_withdraw_nothing():
    stream = Stream(discarding=True, allowed_lateness_ms=20)
    assert stream.rows("a 1 @0, a 15 @0", clock=25) == [
        "a [1,11) r1 on_time",
        "a [15,25) r1 on_time",
    ]
    assert stream.rows("a 8 @25") == ["a [1,25) r3 late"]


def test_the_timeline_of_processing_time_in_the_specification():
    windows = Windows(every(processing_time="2s"))
    segments = [
        (1_000, (1, -1), (2, 1)),
        (1_500, (3, 2)),
        (2_100, (4, 3)),
        (3_900,),
        (4_000,),
        (4_100, (16, 4)),
        (6_000,),
    ]
    got = [", ".join(map(shown, windows.take(*rows, now=now))) for now, *rows in segments]
    assert got == ["", "", "r3", "", "r4", "", ""]
