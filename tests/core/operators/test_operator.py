"""What every operator shares: rows in log order with their W, each once, and the end of input."""

from dataclasses import replace

import polars as pl
import pytest

from tidemark.core.operators.operator import Operator, WindowBody
from tidemark.core.operators.ports import Input, Port, RowTime
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.segment import (
    EVENT_TIME,
    FOREVER_MS,
    NEVER_MS,
    OFFSET,
    ROW_COLUMNS,
    SOURCE,
    WATERMARK,
    Segment,
    SourceMark,
)
from tidemark.errors import StateError

COLUMNS = {"key": pl.String()}


class Recorder(WindowBody):
    """A body that keeps what it is given and calls every odd event time late."""

    outputs = (
        Port("panes", "panes", {}, (), (), (), RowTime("clock")),
        Port("late", "late", {}, (), (), (), RowTime(EVENT_TIME)),
    )

    def open(self, *_store):
        return []

    def fold(self, rows, state):
        state.append(rows)
        return rows.filter(pl.col(EVENT_TIME) % 2 == 1)

    def publish(self, state, before_ms, clock_ms):
        return pl.DataFrame({"before": [before_ms], "clock": [clock_ms]})


def stream(*rows):
    return pl.DataFrame(rows, schema={**ROW_COLUMNS, **COLUMNS}, orient="row")


def operator(*streams):
    return Operator("o", (Input(streams, ("key",), COLUMNS, frozenset({"t", "u"})),), Recorder())


MARKS = (SourceMark("t/0", 0, 3, NEVER_MS, 8), SourceMark("u/0", 0, 1, NEVER_MS, 9))
LEFT = stream((0, 0, 0, 4, NEVER_MS, "a"), (0, 2, 0, 8, 4, "b"))
BOTH = {
    "left": LEFT,
    "right": stream((0, 1, 0, 5, 4, "c"), (1, 0, 0, 9, NEVER_MS, "d")),
    "foreign": stream((0, 1, 0, 7, 4, "x")),
}


def segment(**streams):
    return Segment(0, 0, MARKS, {"t": 1, "u": 1}, 0, streams)


def test_streams_are_joined_in_log_order_and_name_their_sources():
    task = OperatorTask(operator("left", "right"))
    output, state = task.step(segment(**BOTH)), task.state
    assert state[0].select(SOURCE, OFFSET, "key").rows() == [
        ("t/0", 0, "a"),
        ("t/0", 1, "c"),
        ("t/0", 2, "b"),
        ("u/0", 0, "d"),
    ]
    assert (output.rows, output.accepted, output["late"].height) == (4, 2, 2)
    assert output["panes"].rows() == [(NEVER_MS, 8)]


def test_a_row_is_judged_by_its_own_watermark_but_never_below_its_sources_floor():
    task = OperatorTask(operator("left"))
    task.step(segment(left=LEFT))
    state = task.state
    again = (SourceMark("t/0", 3, 5, NEVER_MS, 9), SourceMark("u/0", 1, 1, 9, 9))
    rows = stream((0, 3, 0, 1, NEVER_MS, "a"), (0, 4, 0, 2, 9, "a"))
    task.step(Segment(0, 0, again, {}, 0, {"left": rows}))
    assert state[0][WATERMARK].to_list() == [NEVER_MS, 4]
    assert state[1][WATERMARK].to_list() == [8, 9]


def test_rows_read_before_are_dropped():
    task = OperatorTask(operator("left"))
    task.step(segment(left=LEFT))
    state = task.state
    more = (SourceMark("t/0", 1, 4, 4, 9),)
    rows = stream((0, 2, 0, 8, 4, "b"), (0, 3, 0, 9, 8, "new"))
    output = task.step(Segment(0, 0, more, {}, 0, {"left": rows}))
    assert state[1]["key"].to_list() == ["new"]
    assert output.rows == 1


def test_a_segment_without_the_operators_streams_still_moves_its_clock():
    task = OperatorTask(operator("nothing"))
    output, state = task.step(segment(**BOTH)), task.state
    assert output.rows == 0
    assert state[0].schema == {**ROW_COLUMNS, SOURCE: pl.String, **COLUMNS}
    assert task.clock_ms == 8


def test_columns_of_the_stream_that_the_operator_does_not_use_are_left_out():
    task = OperatorTask(operator("left"))
    task.step(segment(left=LEFT.with_columns(more=pl.lit(1))))
    assert task.state[0].columns == [*ROW_COLUMNS, *COLUMNS]


def valued(dtype, *values):
    """Return rows with a value, and the operator that declares it so."""
    rows = stream((0, 0, 0, 4, NEVER_MS, "a")).with_columns(pl.Series("value", values, dtype))
    (side,) = operator("left").inputs
    declared = replace(side, columns={**COLUMNS, "value": dtype})
    return rows, replace(operator("left"), inputs=(declared,))


@pytest.mark.parametrize(
    ("found", "declared"),
    [
        (pl.Int32(), pl.Int64()),
        (pl.Int64(), pl.Float64()),
        (pl.Float32(), pl.Float64()),
    ],
)
def test_numbers_of_an_older_log_are_read_as_declared_alone_and_beside_others(found, declared):
    (old, _), (new, one) = valued(found, 3), valued(declared, 4)
    later = new.with_columns(pl.lit(3, pl.Int64).alias(OFFSET))
    mark = SourceMark("t/0", 3, 4, 8, 9)
    segments = [segment(left=old), replace(segment(left=later), sources=(mark,))]
    by_one, batched = OperatorTask(one), OperatorTask(one)
    for each in segments:
        by_one.step(each)
    list(batched.steps(segments))
    alone, together = by_one.state, batched.state
    assert [rows["value"].dtype for rows in alone] == [declared, declared]
    assert all(map(pl.DataFrame.equals, alone, together))
    assert [rows.schema for rows in alone] == [rows.schema for rows in together]


def test_lists_of_an_older_log_are_read_as_declared():
    old, _ = valued(pl.List(pl.Int64()), [3])
    _, one = valued(pl.List(pl.Float64()), [4.0])
    task = OperatorTask(one)
    task.step(segment(left=old))
    assert task.state[0]["value"].dtype == pl.List(pl.Float64)


@pytest.mark.parametrize(
    ("found", "value", "declared", "told"),
    [
        (
            pl.String(),
            "7",
            pl.Int64(),
            "is Int64 in the pipeline, and String in rows of the log of t/0 from offset 0 on",
        ),
        (pl.Float64(), 7.5, pl.Int64(), "is Int64 in the pipeline, and Float64 in"),
        (pl.Boolean(), True, pl.Int64(), "is Int64 in the pipeline, and Boolean in"),
        (pl.List(pl.String()), ["7"], pl.List(pl.Int64()), r"and List\(String\) in"),
    ],
)
def test_a_log_of_other_types_is_refused_alone_and_beside_others(found, value, declared, told):
    (old, _), (new, one) = valued(found, value), valued(declared, None)
    with pytest.raises(StateError, match=told):
        OperatorTask(one).step(segment(left=old))
    with pytest.raises(StateError, match=told):
        list(OperatorTask(one).steps([segment(left=new), segment(left=old)]))


def test_a_column_that_the_log_lacks_is_null():  # A5
    _, one = valued(pl.Int64(), 1)
    task = OperatorTask(one)
    task.step(segment(left=LEFT))
    assert task.state[0]["value"].to_list() == [None] * LEFT.height
    assert task.state[0]["value"].dtype == pl.Int64


def test_the_end_of_input_is_marked():
    output = OperatorTask(operator("left")).finish()
    assert output["panes"].rows() == [(NEVER_MS, FOREVER_MS, True)]
    assert output["late"].is_empty()
