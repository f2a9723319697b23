"""Late rows as results: those that the operator on the same windows finds, with their W."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import COLUMNS, event_logs
from tests.support.operators import ordered
from tests.support.operators.families import JUDGES
from tests.support.running import over
from tidemark.core.operators.late_rows import LateRows
from tidemark.core.operators.ports import LATE, ROWS
from tidemark.core.operators.task import OperatorTask
from tidemark.core.operators.waiting_rows import JudgesByTime
from tidemark.core.time.segment import NEVER_MS

OPERATORS = {**JUDGES, "distinct": (ordered.distincts, ordered.distinct)}
PLACE = ("topic", "partition", "offset", "sub_row")


@given(st.data(), st.sampled_from([*OPERATORS]))
def test_late_rows_are_those_of_the_operator_with_the_window_that_they_missed(data, kind):
    log = data.draw(event_logs())
    specs, made = OPERATORS[kind]
    operator = made(data.draw(specs), log.topics)
    judge = JudgesByTime() if kind == "distinct" else operator.body
    plain, found = OperatorTask(operator), OperatorTask(over(log.topics, body(judge)))
    wanted = [
        operator.port(LATE).published(output[LATE])
        for segment in log.segments
        if LATE in (output := plain.step(segment)).frames
    ]
    before_ms = NEVER_MS
    rows = []
    for segment in log.segments:
        late = found.step(segment)[ROWS]
        assert not late.height or int(late["own_watermark"].to_numpy().min()) >= before_ms
        rows.append(late)
        before_ms = found.reached().watermark_ms
    assert shown(pl.concat(rows)) == named(pl.concat(wanted)) if wanted else not rows
    batch = [
        s.output[ROWS] for s in OperatorTask(over(log.topics, body(judge))).steps(log.segments)
    ]
    assert pl.concat([rows[0].clear(), *batch]).equals(pl.concat(rows)) if rows else not batch


def body(judge):
    return LateRows(judge, ("key",), COLUMNS)


def shown(rows):
    columns = ("reason", "start", "end", "late_by_ms", "own_watermark", "_event_time_ms")
    return rows.select(*columns, *(f"_{name}" for name in PLACE), *COLUMNS).rows()


def named(late):
    columns = ("reason", "start", "end", "late_by_ms", "own_watermark_ms", "event_time_ms")
    return late.unnest("row").select(*columns, *PLACE, *COLUMNS).rows()


def test_rows_carry_their_own_watermark_and_are_of_any_age():
    (port,) = body(JudgesByTime()).outputs
    assert (port.watermark, port.holds_ms) == ("own_watermark", 0)
