"""Sliding windows as transcripts: docs/semantics.md, "Sliding".

A row is written "key time" or "key time @W", W being its own time unless given.  A pane is shown
as "key [start,end) values" with its times, timing where late, and "!" where it is final.
"""

from typing import Any

import polars as pl
import pytest

from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.aggregates.constructors import count
from tidemark.core.aggregates.constructors import sum as total
from tidemark.core.operators.early import EarlyAggregate
from tidemark.core.operators.sliding.operator import SlidingAggregate
from tidemark.core.operators.sliding.state import LINES
from tidemark.core.time.segment import NEVER_MS, ROW_COLUMNS, SOURCE
from tidemark.core.windows.trigger import every, on_close, on_final, on_update
from tidemark.core.windows.window import Sliding
from tidemark.errors import PipelineError

COLUMNS = {"key": pl.String(), "value": pl.Int64()}
SUM = Aggregation({"total": total("value"), "n": count()}, COLUMNS)


class Stream:
    """One operator fed by hand: rows, then the clock; values count up from 1."""

    def __init__(self, reach_ms=10, lateness_ms=0, trigger=None, *, discarding=False):
        trigger = trigger or on_close()
        windows = SlidingAggregate(
            Sliding(reach_ms), SUM, ("key",), COLUMNS, lateness_ms, trigger, discarding
        )
        plain = trigger in (on_close(), on_final())
        self.body: Any = windows if plain else EarlyAggregate(windows)
        self.state: Any = self.body.open()
        self.clock_ms, self.value = NEVER_MS, 0

    def rows(self, text, clock=None):
        """Take a segment; show late rows, then panes."""
        rows = [self._row(each) for each in text.split(",") if each.strip()]
        schema = {**ROW_COLUMNS, SOURCE: pl.String(), **COLUMNS}
        late = self.body.fold(pl.DataFrame(rows, schema=schema, orient="row"), self.state)
        before_ms, self.clock_ms = self.clock_ms, self.clock_ms if clock is None else clock
        panes = self.body.publish(self.state, before_ms, self.clock_ms)
        self.state.validate()
        missed = [
            f"late {r['key']} {r['@event_time']} [{r['start']},{r['end']}) by {r['late_by_ms']}"
            for r in late.iter_rows(named=True)
        ]
        return missed + [_shown(pane) for pane in panes.iter_rows(named=True)]

    def clock(self, clock_ms):
        return self.rows("", clock_ms)

    def _row(self, text):
        self.value += 1
        key, at, *w = text.split()
        return ("t/0", self.value, 0, int(at), int(w[0][1:]) if w else int(at), key, self.value)


def _shown(pane):
    timing = "" if pane["timing"] == "on_time" else f" {pane['timing']}"
    final = "!" if pane["final"] else ""
    where = f"{pane['key']} [{pane['start']},{pane['end']})"
    return f"{where} {pane['total']} r{pane['revision']}{timing}{final}"


def test_the_timeline_of_the_specification():
    #  row      10      14      15              22          26
    #  ends     [0,11)  [4,15)  [5,16)          [12,23)     [16,27)
    #  follows  [11,22) [15,26) [16,27)         [23,34)
    stream = Stream(10, lateness_ms=5)
    assert stream.rows("a 10", 10) == []
    assert stream.rows("a 14", 14) == ["a [0,11) 1 r1"]
    assert stream.rows("a 15", 15) == ["a [4,15) 3 r2"]
    assert stream.rows("a 22", 22) == ["a [5,16) 6 r3!", "a [11,22) 5 r2"]
    assert stream.rows("a 26", 26) == ["a [12,23) 9 r3", "a [15,26) 7 r2"]
    assert stream.rows("a 9 @26, a 13 @26") == [
        "late a 9 [9,20) by 1",
        "a [11,22) 12 r3 late",
        "a [12,23) 16 r4 late",
        "a [14,25) 9 r3 late",
    ]
    assert stream.clock(100) == ["a [16,27) 9 r2!", "a [23,34) 5 r1!"]


def test_a_row_late_for_the_window_that_ends_with_it_counts_in_windows_made_later():
    #  11     15   16        W = 25, lateness 10: [1,12) is past
    #  C [5,16) and [6,17) are open all the time and hold 11
    stream = Stream(10, lateness_ms=10, trigger=on_final())
    stream.clock(25)
    assert stream.rows("c 11 @25, c 15 @25, c 16 @25", 29) == [
        "c [5,16) 3 r2 late!",
        "c [6,17) 6 r3 late!",
    ]


def test_rows_at_one_instant_share_their_windows():
    #  0: 1, 4, 7   2: 2, 5, 6   4: 3   7: 8
    stream = Stream(5, trigger=on_final())
    rows = "a 0, a 2, a 4, a 0 @4, a 2 @4, a 2 @4, a 0 @4, a 7"
    assert stream.rows(rows, 7) == [
        "a [-5,1) 1 r1!",
        "a [-3,3) 3 r2!",
        "a [-1,5) 28 r7!",
        "a [1,7) 16 r4!",
    ]


def test_a_window_that_follows_a_row_but_holds_none_is_not_there():
    stream = Stream(10)
    assert stream.rows("a 0, a 11, a 30", 100) == [
        "a [-10,1) 1 r1!",
        "a [1,12) 2 r1!",
        "a [20,31) 3 r1!",
    ]


def test_keys_have_windows_of_their_own():
    stream = Stream(10)
    assert stream.rows("a 0, b 5, a 5", 6) == [
        "a [-10,1) 1 r1!",
        "a [-5,6) 4 r2!",
        "b [-5,6) 2 r1!",
    ]
    assert stream.clock(50) == ["a [1,12) 3 r1!"]


def test_a_window_is_long_however_many_rows_it_holds():
    stream = Stream(1_000)
    panes = stream.rows(",".join(f"a {at}" for at in range(1_000)), 1_000)
    assert len(panes) == 1_000
    assert panes[-1] == f"a [-1,1000) {sum(range(1_001))} r1000!"
    assert stream.clock(5_000)[0] == f"a [1,1002) {sum(range(2, 1_001))} r999!"


def lines_of(stream: Stream) -> int:
    return sum(piece[LINES].height for piece in stream.state.snapshot())


def test_state_is_gone_when_no_row_can_meet_it():
    stream = Stream(10, lateness_ms=5)
    stream.rows("a 0, a 9", 9)
    assert lines_of(stream) == 2
    stream.clock(26)
    stream.state.purge(26)
    assert lines_of(stream) == 2  # 9 counts up to 9 + 12 + 5
    stream.clock(40)
    stream.state.purge(40)
    assert lines_of(stream) == 0


def test_blocks_stay_few_whatever_the_number_of_segments():
    stream = Stream(10_000)
    for at in range(60):
        stream.rows(f"a {at}", at)
    assert sum(len(blocks) for blocks in stream.state._slices.values()) < 30
    assert stream.rows("", 20_000)[-1] == "a [59,10060) 60 r1!"


def test_a_window_without_reach_is_refused():
    with pytest.raises(PipelineError, match="size must be positive, got 0 ms"):
        Sliding(0)


UPDATES = [
    ["[0,11) 1 r1"],
    ["[4,15) 3 r2", "[11,22) 2 r1"],
    ["[12,23) 5 r2", "[15,26) 3 r1"],
    ["[2,13) 5 r2", "[4,15) 7 r3", "[11,22) 6 r2", "[12,23) 9 r3", "[13,24) 5 r2"],
]


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        (on_update(), UPDATES),
        (on_close(every(rows=1)), UPDATES),
        (
            on_close(every(rows=2)),
            [[], UPDATES[1][:1], UPDATES[2][:1], ["[2,13) 5 r2", "[11,22) 6 r2", "[13,24) 5 r2"]],
        ),
    ],
    ids=str,
)
def test_early_panes_come_as_the_timeline_of_the_specification_says(trigger, expected):
    #  values 1, 2, 3, 4 at 10, 14, 22 and then 12; nothing closes
    stream = Stream(10, trigger=trigger)
    rows = ("a 10 @-5", "a 14 @0", "a 22 @4", "a 12 @12")
    assert [stream.rows(row) for row in rows] == [
        [f"a {pane} early" for pane in panes] for panes in expected
    ]


def test_discarding_panes_hold_what_none_has_shown():
    #  [0,11): the rows 1 and 2 early, 3 on time, and 4 behind
    stream = Stream(10, lateness_ms=20, trigger=on_close(every(rows=2)), discarding=True)
    assert stream.rows("a 10, a 10, a 10") == ["a [0,11) 3 r2 early"]
    assert stream.clock(11) == ["a [0,11) 3 r3"]
    assert "a [0,11) 4 r4 late" in stream.rows("a 5 @12")


def test_discarding_a_window_made_behind_shows_all_its_rows_first():
    #  13 comes behind [3,14), which it makes, with the rows at 10 and 12
    stream = Stream(10, lateness_ms=20, discarding=True)
    assert stream.rows("a 10, a 12", 20)[-1] == "a [2,13) 3 r2"
    assert "a [3,14) 6 r3 late" in stream.rows("a 13 @20")
    assert "a [3,14) 4 r4 late" in stream.rows("a 11 @20")
