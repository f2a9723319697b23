"""The timelines of docs/semantics.md, "Tables", freed state, and public failures of such joins.

Rows of topic t are trades, rows of topic u are quotes; a quote whose value is 3 is a tombstone.
"""

from dataclasses import replace

import polars as pl
import pytest

from tests.oracles.table_join import Spec
from tests.support.logs import Commit, Raw, Read, Record, record
from tests.support.operators import tables
from tidemark.core.operators.joins import versions
from tidemark.core.operators.joins.judged_versions import TOO_OLD
from tidemark.core.operators.joins.table_join import TableJoin
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.segment import Segment

Result = tuple[int, int | None, int, bool]

PLAIN = Spec(("t",), ("u",), "inner", 3_600, 0, "event_time", lambda value: value == 3, False)
OUTER = replace(PLAIN, how="left")
CORRECTING = replace(PLAIN, lateness_ms=10, on_close=True)


def log(*events: tuple[str, int, int], key: str = "a") -> list[Segment]:
    """Return a log with a segment for each (topic, event time, value); 0 is of another key.

    The watermark of a topic is its highest event time.
    """
    topics = sorted({topic for topic, _, _ in events})
    sources = {
        f"{topic}/0": tuple(
            Record(at_ms, ((key if value else "other", value),))
            for name, at_ms, value in events
            if name == topic
        )
        for topic in topics
    }
    raw = Raw(sources, bound_ms=0)
    return list(record(raw, [Commit((Read(f"{topic}/0", 1),)) for topic, _, _ in events]))


def operator(spec: Spec) -> OperatorTask:
    made = tables.operator(spec)
    assert isinstance(made.body, TableJoin)
    body = replace(made.body, deleted=pl.col("value") == 3)
    return OperatorTask(replace(made, body=body))


def published(task: OperatorTask, segments: list[Segment], *, ends: bool = True) -> list[Result]:
    """Return (event time, value of the table, revision, retracted) of each result in turn."""
    outputs = [task.step(segment) for segment in segments]
    if ends:
        outputs.append(task.finish())
    rows = [row for each in outputs for row in each["rows"].iter_rows(named=True)]
    return [
        (
            row["_event_time_ms"],
            row["value_right"],
            row.get("revision", 1),
            row.get("retracted", False),
        )
        for row in rows
    ]


TRADES = (("t", 15, 1), ("t", 25, 1), ("t", 35, 1), ("t", 45, 1))
QUOTES = (("u", 10, 1), ("u", 20, 2), ("u", 30, 0), ("u", 22, 4), ("u", 40, 3))


@pytest.mark.parametrize(
    "events",
    [
        (*TRADES, *QUOTES),
        (*QUOTES, *TRADES),
        (*QUOTES[:3], *TRADES[:2], *QUOTES[3:], *TRADES[2:]),
        (*TRADES[:3], *QUOTES[:4], *TRADES[3:], *QUOTES[4:]),
    ],
)
def test_no_order_of_arrival_changes_an_answer(events):
    assert published(operator(PLAIN), log(*events)) == [
        (15, 1, 1, False),
        (25, 2, 1, False),
        (35, 4, 1, False),
    ]
    outer = published(operator(OUTER), log(*events))
    assert outer[-1] == (45, None, 1, False)
    assert len(outer) == 4


def test_a_late_version_corrects_the_answers_that_are_not_final():
    events = (("u", 20, 2), ("t", 25, 1), ("t", 35, 1), ("t", 50, 0), ("u", 40, 0), ("u", 22, 4))
    task = operator(CORRECTING)
    assert published(task, log(*events), ends=False) == [
        (25, 2, 1, False),
        (35, 2, 1, False),
        (35, 4, 2, False),
    ]


def test_a_late_tombstone_withdraws_an_answer_of_an_inner_join():
    events = (("u", 20, 2), ("t", 35, 1), ("t", 50, 0), ("u", 40, 0), ("u", 22, 3), ("u", 24, 4))
    assert published(operator(CORRECTING), log(*events), ends=False) == [
        (35, 2, 1, False),
        (35, None, 2, True),
        (35, 4, 3, False),
    ]
    outer = replace(CORRECTING, how="left")
    assert (35, None, 2, False) in published(operator(outer), log(*events), ends=False)


def test_arrival_answers_by_what_came_before():
    events = (("t", 25, 1), ("u", 20, 2), ("t", 26, 1), ("u", 24, 4), ("t", 27, 1))
    spec = replace(OUTER, wait="arrival")
    assert published(operator(spec), log(*events)) == [
        (25, None, 1, False),
        (26, 2, 1, False),
        (27, 4, 1, False),
    ]


def test_a_version_that_is_too_old_for_a_row_is_not_its_answer():
    spec = replace(OUTER, keep_ms=10)
    events = (("u", 20, 2), ("t", 30, 1), ("t", 31, 1))
    assert published(operator(spec), log(*events)) == [(30, 2, 1, False), (31, None, 1, False)]


def test_rows_wait_for_a_table_that_is_not_loaded_yet():
    """Ksql joined rows with an empty table while it was loading: ksql#7566."""
    task = operator(OUTER)
    trades = log(("t", 25, 1), ("t", 99, 1), ("u", 20, 2))
    assert published(task, trades[:2], ends=False) == []
    assert task.operator.body.pending(task.state)
    assert published(task, trades[2:]) == [(25, 2, 1, False), (99, 2, 1, False)]


def test_late_versions_are_reported_or_count_from_a_time_that_is_not_final():
    """Flink joined late versions at their own time, and counted none of them: FLINK-37153."""
    spec = replace(OUTER, keep_ms=10)
    task = operator(spec)
    events = (("u", 20, 2), ("t", 25, 1), ("t", 40, 0), ("u", 40, 0), ("u", 31, 4), ("u", 29, 1))
    *before, refused = log(*events)
    assert published(task, before, ends=False) == [(25, 2, 1, False)]
    late = task.operator.port("late-right").published(task.step(refused)["late-right"])
    assert late.select("reason", "event_time_ms", "late_by_ms").rows() == [(TOO_OLD, 29, 0)]
    assert late["row"].struct.unnest().rows() == [("a", 1)]
    assert task.tally.late == 1
    later = log(*events, ("t", 41, 1))[6:]
    assert published(task, later) == [(40, 0, 1, False), (41, 4, 1, False)]


def test_late_rows_are_refused_and_others_find_their_version_after_a_purge():
    """Flink answered late rows from a state without their versions: FLINK-39719."""
    events = (
        ("u", 10, 1),
        ("u", 20, 2),
        ("u", 50, 4),
        ("t", 30, 0),
        ("t", 20, 1),
        ("t", 19, 1),
    )
    task = operator(replace(OUTER, lateness_ms=10))
    results = []
    for segment in log(*events):
        results += published(task, [segment], ends=False)
        task.state.purge(task.clock_ms)
    assert task.clock_ms == 30
    assert task.tally.late == 1
    assert published(task, []) == [(20, 2, 1, False), (30, None, 1, False)]


def test_versions_that_nothing_can_reach_are_freed(monkeypatch):
    """State of joins with tables that only grows: RisingWave#16045."""
    monkeypatch.setattr(versions, "_FEW", 8)
    task = operator(PLAIN)
    most = 0
    for number, segment in enumerate(log(*[(name, at, 1) for at in range(100) for name in "tu"])):
        task.step(segment)
        task.state.purge(task.clock_ms)
        most = max(most, len(task.state.versions))
        assert number < 2 or task.state.open_windows() >= 1
    assert most <= 16


def test_a_tombstone_stays_until_no_older_version_can_come():
    spec = replace(OUTER, keep_ms=10, lateness_ms=10)
    events = (("u", 20, 2), ("u", 21, 3), ("u", 30, 0), ("u", 19, 1), ("t", 29, 1), ("t", 60, 0))
    task = operator(spec)
    for segment in log(*events)[:3]:
        task.step(segment)
        task.state.purge(task.clock_ms)
    found = published(task, log(*events)[3:])
    assert found[0] == (29, None, 1, False)
    task.state.purge(task.clock_ms)
    assert len(task.state.versions) == 0
