"""The clock of an operator: docs/semantics.md, "The clock"."""

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.clock import Table
from tests.support.logs import event_logs
from tidemark.core.time.clock import ClockTable
from tidemark.core.time.segment import (
    FOREVER_MS,
    NEVER_MS,
    Segment,
    SourceMark,
    operator_source,
)

OP = operator_source("a")
ONE = {"t": 1}


def segment(*marks, partitions=None):
    return Segment(0, 0, marks, {"t": 2} if partitions is None else partitions, 0, {})


def read(source, first, following, before_ms, after_ms, **said):
    return SourceMark(source, first, following, before_ms, after_ms, **said)


def clocks(*segments):
    table = ClockTable(["t"])
    for each in segments:
        step(table, each)
    return table


def step(table, each):
    entry = table.enter(each)
    table.leave(each)
    return entry


def test_the_clock_stands_still_until_every_source_has_spoken():
    #  t/0  -----10
    #  t/1         (nothing)   -----4
    table = clocks(segment(read("t/0", 0, 3, NEVER_MS, 10)))
    assert table.clock_ms == NEVER_MS
    step(table, segment(read("t/1", 0, 1, NEVER_MS, 4)))
    assert table.clock_ms == 4


def test_a_source_that_has_seen_no_event_time_holds_the_clock():
    table = clocks(segment(read("t/0", 0, 3, NEVER_MS, 10), read("t/1", 0, 2, NEVER_MS, NEVER_MS)))
    assert table.clock_ms == NEVER_MS


def test_the_slowest_source_is_the_clock():
    table = clocks(segment(read("t/0", 0, 3, NEVER_MS, 10), read("t/1", 0, 1, NEVER_MS, 4)))
    step(table, segment(read("t/1", 1, 2, 4, 7)))
    assert table.clock_ms == 7
    step(table, segment(read("t/1", 2, 3, 7, 30)))
    assert table.clock_ms == 10


def test_sources_of_other_topics_do_not_count():
    foreign = read("other/0", 0, 9, NEVER_MS, 1)
    table = clocks(segment(read("t/0", 0, 3, NEVER_MS, 10), foreign, partitions={"t": 1}))
    assert table.clock_ms == 10
    assert set(table.sources) == {"t/0"}


def test_an_idle_source_does_not_hold_the_clock():
    table = clocks(segment(read("t/0", 0, 3, NEVER_MS, 10), read("t/1", 0, 1, NEVER_MS, 4)))
    step(table, segment(read("t/1", 1, 1, 4, 4, idle=True, silence_ms=5)))
    assert table.clock_ms == 10


def test_a_source_that_wakes_starts_at_the_clock():
    #  t/0  --10----------20          clock 4, 10, 10, 12
    #  t/1  --4  idle  wakes 5 .. 12  W of its rows: at least 10
    table = clocks(
        segment(read("t/0", 0, 3, NEVER_MS, 10), read("t/1", 0, 1, NEVER_MS, 4)),
        segment(read("t/1", 1, 1, 4, 4, idle=True)),
    )
    entry = step(table, segment(read("t/1", 1, 2, 4, 5)))
    assert entry.floor_ms.tolist() == [10]
    assert table.clock_ms == 10
    step(table, segment(read("t/0", 3, 4, 10, 20), read("t/1", 2, 3, 5, 12)))
    assert table.clock_ms == 12


def test_a_source_that_reads_and_falls_idle_in_one_segment_wakes_first():
    table = clocks(
        segment(read("t/0", 0, 3, NEVER_MS, 10), read("t/1", 0, 0, NEVER_MS, NEVER_MS, idle=True))
    )
    entry = step(table, segment(read("t/1", 0, 2, NEVER_MS, 4, idle=True)))
    assert entry.floor_ms.tolist() == [10]
    assert table.clock_ms == 10


def test_a_partition_that_appears_starts_at_the_clock():
    table = clocks(segment(read("t/0", 0, 3, NEVER_MS, 10), partitions={"t": 1}))
    entry = step(table, segment(read("t/1", 0, 1, NEVER_MS, 4)))
    assert entry.floor_ms.tolist() == [10]
    assert table.clock_ms == 10


def test_a_partition_that_appears_silently_holds_the_clock_where_it_is():
    table = clocks(segment(read("t/0", 0, 3, NEVER_MS, 10), partitions={"t": 1}))
    step(table, segment(read("t/0", 3, 4, 10, 50)))
    assert table.clock_ms == 10


def test_a_source_that_returns_lower_starts_at_the_clock():
    table = clocks(segment(read("t/0", 0, 3, NEVER_MS, 10), partitions={"t": 1}))
    entry = step(table, segment(read("t/0", 3, 4, NEVER_MS, 2), partitions={"t": 1}))
    assert entry.floor_ms.tolist() == [10]
    assert table.clock_ms == 10


def test_when_all_are_idle_the_clock_moves_with_the_silence():
    #  t/0  ----10 silent 7
    #  t/1  --4    silent 20     max(10 + 7, 4 + 20)
    table = clocks(segment(read("t/0", 0, 3, NEVER_MS, 10), read("t/1", 0, 1, NEVER_MS, 4)))
    silent = segment(
        read("t/0", 3, 3, 10, 10, idle=True, silence_ms=7),
        read("t/1", 1, 1, 4, 4, idle=True, silence_ms=20),
    )
    assert step(table, silent) is not None
    assert table.clock_ms == 24


def test_where_a_source_waits_silence_moves_the_clock_only_to_what_was_seen():
    #  t/0  ----10 silent 7
    #  t/1  --4    silent 20     max(10, 4)
    table = ClockTable(["t"], advances=False)
    step(table, segment(read("t/0", 0, 3, NEVER_MS, 10), read("t/1", 0, 1, NEVER_MS, 4)))
    silent = segment(
        read("t/0", 3, 3, 10, 10, idle=True, silence_ms=7),
        read("t/1", 1, 1, 4, 4, idle=True, silence_ms=20),
    )
    step(table, silent)
    assert table.clock_ms == 10


def test_sources_that_are_all_idle_and_never_saw_an_event_move_nothing():
    nothing = read("t/0", 0, 0, NEVER_MS, NEVER_MS, idle=True, silence_ms=60_000)
    assert clocks(segment(nothing, partitions={"t": 1})).clock_ms == NEVER_MS


def test_offsets_that_were_read_before_are_duplicates_and_move_nothing():
    once = segment(read("t/0", 0, 3, NEVER_MS, 10), partitions={"t": 1})
    table = clocks(once, segment(read("t/0", 3, 5, 10, 20), partitions={"t": 1}))
    entry = step(table, once)
    assert entry.first_new.tolist() == [5]
    assert table.clock_ms == 20
    assert table.sources["t/0"].own_ms == 20


def test_a_range_that_overlaps_goes_on_where_it_was():
    table = clocks(
        segment(read("t/0", 0, 3, NEVER_MS, 10), read("t/1", 0, 1, NEVER_MS, 4)),
    )
    entry = step(table, segment(read("t/0", 2, 6, 8, 15)))
    assert entry.first_new.tolist() == [3]
    assert table.sources["t/0"].floor_ms == NEVER_MS
    assert table.sources["t/0"].own_ms == 15


def test_a_range_that_overlaps_and_ends_lower_lost_its_watermark():
    table = clocks(segment(read("t/0", 0, 3, NEVER_MS, 10), partitions={"t": 1}))
    entry = step(table, segment(read("t/0", 1, 5, NEVER_MS, 6), partitions={"t": 1}))
    assert entry.floor_ms.tolist() == [10]
    assert table.clock_ms == 10
    assert table.sources["t/0"].floor_ms == 10


def test_a_repeated_idle_mark_does_not_undo_a_wake():
    idle = segment(read("t/0", 3, 3, 10, 10, idle=True, silence_ms=1), partitions={"t": 1})
    table = clocks(
        segment(read("t/0", 0, 3, NEVER_MS, 10), partitions={"t": 1}),
        idle,
        segment(read("t/0", 3, 4, 10, 20), partitions={"t": 1}),
        idle,
    )
    assert not table.sources["t/0"].idle
    assert table.clock_ms == 20


def test_the_end_of_input_is_after_every_event_time():
    table = ClockTable(["t"])
    assert table.finish() == FOREVER_MS


@given(event_logs(), st.integers(0, 8), st.booleans())
def test_a_table_that_was_written_and_read_back_goes_on_the_same(log, at, advances):
    table, oracle = ClockTable(log.topics, advances=advances), Table(log.topics, advances)
    for number, each in enumerate(log.segments):
        if number == at:
            restored = ClockTable(log.topics, advances=advances)
            restored.apply(table.state())
            table = restored
        before_ms = table.clock_ms
        oracle.begin(each)
        entry = table.enter(each)
        floors = [oracle.voices[mark.source].effective() for mark in each.sources]
        assert entry.floor_ms.tolist() == floors
        oracle.end(each)
        assert table.leave(each) == oracle.clock >= before_ms


def test_the_clock_is_held_by_who_never_spoke_then_by_the_slowest_awake():
    table = ClockTable(["t"])
    assert table.holder() is None
    step(table, segment(read("t/0", 0, 3, NEVER_MS, 10)))
    assert table.holder() == "t/1"
    step(table, segment(read("t/1", 0, 1, NEVER_MS, 14)))
    assert table.holder() == "t/0"
    step(table, segment(read("t/0", 3, 3, 10, 10, idle=True, silence_ms=5)))
    assert table.holder() == "t/1"
    step(table, segment(read("t/1", 1, 1, 14, 14, idle=True, silence_ms=5)))
    assert table.holder() is None, "nobody holds it where all are silent"


def test_an_operator_is_known_from_the_plan_and_holds_the_clock_until_it_has_spoken():
    table = ClockTable(["t", OP])
    step(table, segment(read("t/0", 0, 3, NEVER_MS, 10), partitions=ONE))
    assert table.clock_ms == NEVER_MS
    assert table.holder() == OP
    step(table, segment(read(OP, 0, 0, NEVER_MS, 8), partitions=ONE))
    assert table.clock_ms == 8


def test_an_operator_that_is_awake_counts_as_any_source():
    table = ClockTable(["t", OP])
    spoken = [read("t/0", 0, 3, NEVER_MS, 10), read(OP, 0, 0, NEVER_MS, 8)]
    step(table, segment(*spoken, partitions=ONE))
    assert (table.clock_ms, table.holder()) == (8, OP)
    step(table, segment(read(OP, 0, 4, 8, 30), partitions=ONE))
    assert (table.clock_ms, table.holder()) == (10, "t/0")
    step(table, segment(read("t/0", 3, 3, 10, 10, idle=True, silence_ms=5), partitions=ONE))
    assert (table.clock_ms, table.holder()) == (30, OP)
    goes = read("t/0", 3, 4, 10, 50)
    step(table, segment(read(OP, 4, 4, 30, 30, idle=True), goes, partitions=ONE))
    assert (table.clock_ms, table.holder()) == (50, "t/0")
    entry = step(table, segment(read(OP, 4, 5, 30, 40), partitions=ONE))
    assert entry.floor_ms.tolist() == [50], "one that wakes starts at the clock"


def test_the_w_of_rows_of_an_idle_operator_is_not_below_the_clock():
    """Its rows come before the mark that wakes it."""
    table = ClockTable(["t", OP])
    idle = read(OP, 0, 0, NEVER_MS, 8, idle=True)
    step(table, segment(read("t/0", 0, 3, NEVER_MS, 50), idle, partitions=ONE))
    assert table.clock_ms == 50
    rows = read(operator_source("a", 0), 0, 2, NEVER_MS, NEVER_MS)
    entry = step(table, segment(rows, partitions=ONE))
    assert entry.floor_ms.tolist() == [50]


def test_when_all_are_idle_the_watermark_of_an_operator_bounds_the_clock():
    #  t/0   10                 silent 5   silent 20
    #  op:a       8 (then idle)                       18   50
    #  clock -    8             8          8          18   30
    table = ClockTable(["t", OP])

    def after(*marks):
        step(table, segment(*marks, partitions=ONE))
        return table.clock_ms

    assert after(read("t/0", 0, 3, NEVER_MS, 10)) == NEVER_MS
    assert after(read(OP, 0, 0, NEVER_MS, 8)) == 8
    silent = read("t/0", 3, 3, 10, 10, idle=True, silence_ms=5)
    assert after(silent, read(OP, 0, 0, 8, 8, idle=True)) == 8
    assert after(read("t/0", 3, 3, 10, 10, idle=True, silence_ms=20)) == 8
    assert after(read(OP, 0, 0, 8, 18, idle=True)) == 18
    assert after(read(OP, 0, 0, 18, 50, idle=True)) == 30


def test_an_operator_that_never_saw_event_time_holds_the_clock_where_it_is():
    table = ClockTable(["t", OP])
    quiet = read(OP, 0, 0, NEVER_MS, NEVER_MS, idle=True)
    silent = read("t/0", 0, 3, NEVER_MS, 10, idle=True, silence_ms=5)
    step(table, segment(silent, quiet, partitions=ONE))
    assert table.clock_ms == NEVER_MS


def test_without_raw_sources_idle_operators_alone_make_the_clock():
    other = operator_source("b")
    table = ClockTable([OP, other])
    step(table, segment(read(OP, 0, 0, NEVER_MS, 8), partitions={}))
    assert table.clock_ms == NEVER_MS
    step(table, segment(read(other, 0, 0, NEVER_MS, 12, idle=True), partitions={}))
    assert table.clock_ms == 8
    step(table, segment(read(OP, 0, 0, 8, 20, idle=True), partitions={}))
    assert table.clock_ms == 12, "the watermark of one that is idle contains all silence"


def test_beside_an_operator_a_raw_topic_that_is_not_known_yet_holds_the_clock():
    """The plan names operators; the partitions of a topic become known with a segment."""
    table = ClockTable(["t", OP])
    step(table, segment(read(OP, 0, 0, NEVER_MS, 8), partitions={}))
    assert table.clock_ms == NEVER_MS
    step(table, segment(read("t/0", 0, 1, NEVER_MS, 5), partitions=ONE))
    assert table.clock_ms == 5


def test_an_operator_that_was_added_to_the_plan_holds_a_restored_clock():
    before = clocks(segment(read("t/0", 0, 1, NEVER_MS, 5), partitions=ONE))
    table = ClockTable(["t", OP])
    table.apply(before.state())
    step(table, segment(read("t/0", 1, 2, 5, 9), partitions=ONE))
    assert (table.clock_ms, table.holder()) == (5, OP)
