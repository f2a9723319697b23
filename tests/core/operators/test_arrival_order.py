"""Arrival: the order of the log, whatever the cuts, repeats, wakes and restores."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.clock import Table, judged
from tests.support.logs import COLUMNS, cut_segments, event_logs
from tests.support.running import Incidents, Task, incidents
from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.operator import Operator
from tidemark.core.windows.window import Hopping

COLLECT = Aggregation({"values": aggregates.collect("value", order="arrival")}, COLUMNS)


def collected(log, segments, happen=None):
    """Collect each key's values in one window that holds all events."""
    happen = happen or Incidents()
    body = WindowAggregate(Hopping(2_000, 2_000, 1_000), COLLECT, ("key",), COLUMNS)
    operator = Operator(
        "w",
        log.topics,
        frozenset(log.topics),
        ("key",),
        COLUMNS,
        body,
        by_arrival=COLLECT.by_arrival,
    )
    task = Task(operator)
    for step, segment in enumerate(segments):
        task.step(segment)
        task.meet(happen, step)
    panes = operator.finish(task.clocks, task.state).panes
    return dict(panes.select("key", "values").iter_rows())


def logged(log):
    """Read each key's values in the order of the log."""
    table = Table(log.topics)
    values: dict[str | None, list[int]] = defaultdict(list)
    for segment in log.segments:
        table.begin(segment)
        for row in judged(segment, table):
            values[row.key] += [row.value] if row.value is not None else []
        table.end(segment)
    return values


@given(event_logs(), incidents())
def test_values_are_collected_in_log_order_whatever_is_restored(log, happen):
    assert collected(log, log.segments, happen) == logged(log)


@given(st.data(), event_logs())
def test_cuts_change_no_arrival(data, log):
    assert collected(log, data.draw(cut_segments(log.segments))) == logged(log)
