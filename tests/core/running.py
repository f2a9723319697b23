"""Run a log through an operator as a task would, with restores and purges on the way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from hypothesis import strategies as st

from tests.core.logs import COLUMNS
from tests.core.oracle import Judged, LateRow, Pane, Run
from tidemark.core.operator import Changes, Operator, Output
from tidemark.core.segment import EVENT_TIME, OFFSET, SOURCE, SUB_ROW, WATERMARK, Segment


@dataclass(frozen=True)
class Incidents:
    """Steps after which something happens that must not show in any result."""

    purges: frozenset[int] = frozenset()
    snapshots: frozenset[int] = frozenset()
    replays: frozenset[int] = frozenset()


def incidents() -> st.SearchStrategy[Incidents]:
    """Draw purges, restores from a snapshot, and restores from all changes since the last one."""
    steps = st.frozensets(st.integers(0, 10))
    return st.builds(Incidents, steps, steps, steps)


class Task:
    """One operator on one log partition, with its state as a changelog would hold it."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.clocks = operator.clocks()
        self.state = operator.body.fresh()
        self.changelog: list[Changes] = []

    def step(self, segment: Segment) -> Output:
        """Take a segment and write down what changed."""
        output = self.operator.step(segment, self.clocks, self.state)
        self.changelog.append(self.state.changes())
        self.state.validate()
        return output

    def compact(self) -> None:
        """Replace the changelog by a snapshot."""
        self.changelog = [self.state.snapshot()]

    def restore(self) -> None:
        """Start again from the changelog."""
        clocks = self.operator.clocks()
        clocks.apply(self.clocks.state())
        self.clocks, self.state = clocks, self.operator.body.fresh()
        for changes in self.changelog:
            self.state.apply(changes)
        self.state.validate()


def run(
    operator: Operator,
    segments: Sequence[Segment],
    incidents: Incidents | None = None,
    pane: Any = Pane,
) -> Run:
    """Run a log, then the end of input; with incidents where given, and panes as ``pane``."""
    happen = incidents or Incidents()
    task, made = Task(operator), Run()
    for step, segment in enumerate(segments):
        output = task.step(segment)
        made.steps.append(panes(output.panes, operator.key, pane))
        made.late += [late_row(row) for row in output.late.iter_rows(named=True)]
        made.rows += output.rows
        made.clocks.append(task.clocks.clock_ms)
        assert output.accepted + output.late.height == output.rows
        if step in happen.purges:
            task.state.purge(task.clocks.clock_ms)
        if step in happen.snapshots:
            task.compact()
            task.restore()
        if step in happen.replays:
            task.restore()
    output = operator.finish(task.clocks, task.state)
    made.steps.append(panes(output.panes.drop("end_of_input"), operator.key, pane))
    return made


def panes(frame: pl.DataFrame, key: Sequence[str], pane: Any = Pane) -> list[Any]:
    """Read a frame of panes, checking that it has just the columns it should."""
    assert tuple(frame.columns) == (*key, *pane._fields[1:])
    return [pane(*row) for row in frame.iter_rows()]


def late_row(row: Mapping[str, Any]) -> LateRow:
    """Read one line of a frame of late rows."""
    names = (SOURCE, OFFSET, SUB_ROW, EVENT_TIME, WATERMARK, *COLUMNS)
    return LateRow(
        Judged(*(row[name] for name in names)), row["start"], row["end"], row["late_by_ms"]
    )
