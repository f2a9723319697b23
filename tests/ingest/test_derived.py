"""Results as rows of a log: their offsets, segments, duplicates and order."""

import json
from dataclasses import replace

import polars as pl
import pytest

from tidemark import Pipeline, bounded, col, count, last, tumbling
from tidemark import sum as total
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.clock import ClockTable
from tidemark.core.time.reached import Reached
from tidemark.core.time.segment import NEVER_MS, Segment, SourceMark
from tidemark.ingest.derived import derived_segments, hand_on, mark_segment
from tidemark.ingest.segment_builder import SegmentBuilder
from tidemark.testing import InProcess

STAGE = "op:user.tumbling-1m.n"
HOUR_MS = 3_600_000


def plan_of(partitions=2):
    pipeline = Pipeline("p", partitions)
    schema = {"user": str, "at": int}
    rows = pipeline.source("rows", schema=schema, event_time="at", watermark=bounded("5s"))
    counts = rows.key_by("user").window(tumbling("1m"), allowed_lateness="1m").aggregate(n=count())
    rows = counts.filter(col("n") > 0).with_columns(group=pl.lit("all"))
    hours = rows.key_by("group").window(tumbling("1h"))
    hours.aggregate(n=total("n"), rows=count(), last=last("user")).to("hours")
    return pipeline.plan()


PLAN = plan_of()
(DERIVED,) = PLAN.derived
STAGE_PLAN, HOURS = PLAN.operators
(LOG,) = PLAN.fed_by(DERIVED)


def panes(users, counts=None, minute=0):
    size = len(users)
    return pl.DataFrame(
        {
            "user": users,
            "start": [minute * 60_000] * size,
            "end": [(minute + 1) * 60_000] * size,
            "n": counts or [1] * size,
        }
    )


def segments(handed, now_ms=0):
    builder = SegmentBuilder(epoch=0)
    builder.add(handed)
    return derived_segments(builder, LOG, now_ms)


def final(parts, partitions=1):
    """Return the results of an hour of which the parts are the log."""
    task = OperatorTask(HOURS.operator)
    outputs = [task.step(each) for each in parts]
    mark = SourceMark(STAGE, 1, 1, NEVER_MS, HOUR_MS)
    outputs.append(task.step(mark_segment(mark, 0, 0)))
    assert sum(each.late for each in outputs) == 0
    return pl.concat([each["panes"] for each in outputs]).select("n", "rows", "last").rows()


def test_each_row_has_an_offset_of_its_own_and_the_next_call_goes_on():
    handed = hand_on(DERIVED, panes(["a", "b", "c"], [1, 0, 1]), 1, 7)
    assert handed.mark == SourceMark(f"{STAGE}/1", 7, 10, NEVER_MS, NEVER_MS)
    (rows,) = handed.streams.values()
    assert rows["@offset"].to_list() == [7, 9]
    assert rows["@event_time"].to_list() == [59_999] * 2


def test_only_partitions_with_rows_get_a_segment():
    found = segments(hand_on(DERIVED, panes(["a", "b"]), 0, 0))
    assert sorted(map(len, found)) == [0, 1]
    assert segments(hand_on(DERIVED, panes(["a"], [0]), 0, 0)) == [[], []]


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_segment_is_split_anywhere_and_repeated_rows_count_once(cut):
    handed = hand_on(DERIVED, panes(["a", "b", "c", "d"], [1, 2, 3, 4]), 0, 0)
    ((whole,),) = filter(None, segments(handed))
    head, tail = whole.split(cut)
    assert (head.height, tail.height) == (cut, 4 - cut)
    for log in ([whole], [head, tail], [head, whole], [head, tail, whole], [head, head, tail]):
        assert [row[:2] for row in final(log)] == [(10, 4)]


def test_rows_of_two_partitions_with_the_same_offsets_are_not_taken_for_repeated():
    log = [segments(hand_on(DERIVED, panes([user]), number, 0)) for number, user in enumerate("ab")]
    (rows,) = {each[:2] for each in final([s for built in log for part in built for s in part])}
    assert rows == (2, 2)


def test_the_order_of_equal_times_depends_on_neither_partition_nor_offset():
    users = ["a", "b", "c", "d"]
    found: set[str] = set()
    for order in (users, users[::-1], ["c", "a", "d", "b"]):
        log = [
            segment
            for number, user in enumerate(order)
            for part in segments(hand_on(DERIVED, panes([user]), number % 2, number // 2))
            for segment in part
        ]
        found.update(each[2] for each in final(log))
    assert len(found) == 1


def test_the_clock_keeps_the_place_in_each_partition_and_only_marks_move_it():
    table = ClockTable([STAGE])
    rows = SourceMark(f"{STAGE}/3", 0, 4, NEVER_MS, NEVER_MS)
    step(table, Segment(0, 0, (rows,), {}, 0, {}))
    assert (table.clock_ms, table.holder(), table.positions) == (NEVER_MS, STAGE, {rows.source: 4})
    mark = SourceMark(STAGE, 5, 5, NEVER_MS, 80)
    step(table, mark_segment(mark, 0, 0))
    assert table.clock_ms == 80
    step(table, mark_segment(replace(mark, first_offset=4, next_offset=4, watermark_ms=9), 0, 0))
    assert table.clock_ms == 80  # an earlier announcement comes again
    again = ClockTable([STAGE])
    again.apply(table.state())
    assert (again.sources, again.positions) == (table.sources, table.positions)


def step(table, segment):
    table.enter(segment)
    table.leave(segment)


def test_a_stage_reaches_its_clock_less_what_it_holds_and_is_idle_with_nothing_open():
    task = OperatorTask(STAGE_PLAN.operator)
    assert task.reached() == Reached(NEVER_MS, is_idle=False)
    frame = pl.DataFrame(
        {
            "@source": pl.Series([0], dtype=pl.UInt16),
            "@offset": [0],
            "@sub_row": pl.Series([0], dtype=pl.Int32),
            "@event_time": [1_000],
            "@watermark": [NEVER_MS],
            "user": ["a"],
            "at": [1_000],
        }
    )
    read = SourceMark("rows/0", 0, 1, NEVER_MS, 100_000, idle=True)
    task.step(Segment(0, 0, (read,), {"rows": 1}, 0, {"rows": frame}))
    assert task.reached() == Reached(40_000, is_idle=False)  # the window is open until 120,000
    silent = SourceMark("rows/0", 1, 1, 100_000, 100_000, idle=True, silence_ms=30_000)
    output = task.step(Segment(0, 0, (silent,), {"rows": 1}, 0, {}))
    task.state.purge(task.clock_ms)
    assert output["panes"]["n"].to_list() == [1]
    assert task.reached() == Reached(70_000, is_idle=True)


@pytest.mark.parametrize(
    ("dtype", "values", "held"),
    [
        (pl.Int64, [2**63 - 1, 1], "Int64"),
        (pl.UInt64, [2**63], "Int64"),
        (pl.Decimal(38, 0), [10**38 - 1, 1], "Decimal(precision=38, scale=0)"),
    ],
)
def test_a_sum_that_its_type_cannot_hold_is_a_dead_letter_and_the_others_go_on(dtype, values, held):
    pipeline = Pipeline("p", 1)
    schema = {"user": str, "text": str, "at": int}
    rows = pipeline.source("rows", schema=schema, event_time="at", watermark=bounded("5s"))
    typed = rows.with_columns(v=col("text").cast(dtype))
    sums = typed.key_by("user").window(tumbling("10s")).aggregate(v=total("v"))
    sums.filter(col("v") > 0).to("sums")
    run = InProcess(pipeline)
    for user, numbers in (("a", values), ("b", [7]), ("c", [8])):
        run.send("rows", *({"user": user, "text": str(n), "at": 1_000} for n in numbers))
    run.idle("rows", "1h")
    assert [int(each["v"]) for each in run.published("sums")] == [7, 8]
    (letter,) = run.dead_letters()
    assert letter["reason"] == f"aggregate(v): {sum(values)} does not fit in {held}"
    assert (letter["topic"], letter["offset"]) == ("op:user.tumbling-10s.v", 0)
    row = json.loads(letter["value"])
    assert (row["user"], row["v"]) == ("a", None)
