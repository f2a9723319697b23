"""Run a log through an operator as a task would, with restores and purges on the way."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from hypothesis import strategies as st

from tests.oracles.aligned import LateRow, Pane, Run
from tests.oracles.clock import Judged, RowId
from tests.support.logs import COLUMNS
from tests.support.stores import stores
from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.operator import Body, Changes, Operator, WindowBody
from tidemark.core.operators.output import Output
from tidemark.core.operators.ports import Input
from tidemark.core.operators.task import OperatorTask
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.time.segment import (
    EVENT_TIME,
    FOREVER_MS,
    NEVER_MS,
    OFFSET,
    ROW_COLUMNS,
    SOURCE,
    SUB_ROW,
    WATERMARK,
    Segment,
)

AGGREGATION = Aggregation(
    {
        "n": aggregates.count(),
        "total": aggregates.sum("value"),
        "low": aggregates.min("value"),
        "high": aggregates.max("value"),
        "first": aggregates.first("value"),
        "last": aggregates.last("value"),
    },
    COLUMNS,
)
"""The values of ``Pane``."""


def over(topics: tuple[str, ...], body: Body, columns: Mapping[str, Any] = COLUMNS) -> Operator:
    """Return an operator with one input: streams with the names of topics, by ``key``."""
    return Operator("w", (Input(topics, ("key",), columns, frozenset(topics)),), body)


@dataclass(frozen=True)
class Incidents:
    """Steps after which something happens that must not show in any result.

    ``snapshots``: one is taken, while the state lives on.  ``written``: the last one that was taken
    is whole by now, and replaces what is older.  ``replays``: a new owner restores what is written.
    ``moves``: one does so before the end of input.
    """

    purges: frozenset[int] = frozenset()
    snapshots: frozenset[int] = frozenset()
    written: frozenset[int] = frozenset()
    replays: frozenset[int] = frozenset()
    moves: bool = False
    store: BlockStore = IN_MEMORY


@st.composite
def incidents(draw: st.DrawFn) -> Incidents:
    """Draw purges, snapshots, restores, and a store.

    Mostly, a snapshot is written while steps go on, and more of them follow before it is needed.
    """
    purges, others = draw(_steps()), draw(_steps())
    taken = draw(st.integers(0, 4))
    written = taken + draw(st.sampled_from((0, 0, 1, 2)))
    needed = written + draw(st.integers(0, 4))
    snapshots, replays = frozenset({taken, *others}), frozenset({needed, *draw(_steps())})
    every = frozenset({written, *draw(st.just(others) | _steps())})
    return Incidents(purges, snapshots, every, replays, draw(st.booleans()), draw(stores()))


def _steps() -> st.SearchStrategy[frozenset[int]]:
    return st.frozensets(st.integers(0, 8), max_size=4)


class Task(OperatorTask):
    """An operator task, and what its changelog would hold."""

    def __init__(self, operator: Operator, store: BlockStore = IN_MEMORY) -> None:
        super().__init__(operator, store)
        self.store = store
        self.changelog: list[Changes] = []
        self._taken: tuple[Iterator[Changes], int] | None = None

    def step(self, segment: Segment) -> Output:
        """Take a segment and write down what changed."""
        output = super().step(segment)
        self.note()
        return output

    def note(self) -> None:
        """Write down what changed."""
        self.changelog.append(self.state.changes())
        self.state.validate()

    def meet(self, happen: Incidents, step: int) -> None:
        """Let happen what does after a step."""
        if step in happen.purges:
            self.state.purge(self.clocks.clock_ms)
        if step in happen.snapshots:
            self.take_snapshot()
        if step in happen.written:
            self.compact()
        if step in happen.replays:
            self.restart()

    def take_snapshot(self) -> None:
        """Take a snapshot, which is made as it is written."""
        self._taken = iter(self.state.snapshot()), len(self.changelog)

    def compact(self) -> None:
        """Write the snapshot that was taken, in place of what is older."""
        if self._taken is not None:
            pieces, older = self._taken
            self.changelog[:older] = pieces
            self._taken = None

    def restart(self) -> None:
        """Start again from the changelog; a snapshot that is not whole is lost."""
        restarted = OperatorTask(self.operator, self.store)
        restarted.restore(self.changelog, self.clocks.state(), self.next_offset)
        restarted.state.validate()
        self.clocks, self.state, self._taken = restarted.clocks, restarted.state, None


def outputs(
    operator: Operator, segments: Sequence[Segment], happen: Incidents | None = None
) -> Iterator[tuple[Output, int]]:
    """Run a log, then the end of input; yield the output of each step, and the clock after it."""
    happen = happen or Incidents()
    task = Task(operator, happen.store)
    for step, segment in enumerate(segments):
        yield task.step(segment), task.clocks.clock_ms
        task.meet(happen, step)
    if happen.moves:
        task.restart()
    yield task.finish(), FOREVER_MS


def run(
    operator: Operator,
    segments: Sequence[Segment],
    incidents: Incidents | None = None,
    pane: Any = Pane,
) -> Run:
    """Run a log, then the end of input; with incidents where given, and panes as ``pane``."""
    made, key = Run(), operator.inputs[0].key
    *steps, (end, _) = outputs(operator, segments, incidents)
    for output, clock_ms in steps:
        made.steps.append(panes(output["panes"], key, pane))
        made.late += [late_row(row) for row in output["late"].iter_rows(named=True)]
        made.rows += output.rows
        assert output.late == output["late"].height
        made.clocks.append(clock_ms)
        assert output.accepted + output.late == output.rows
    made.steps.append(panes(end["panes"].drop("end_of_input"), key, pane))
    return made


def run_crowd(
    operator: Operator,
    crowd: Sequence[tuple[list[Judged], int]],
    happen: Incidents,
    oracle: Callable[[list[Judged], int, int], list[Pane]],
    late: Sequence[LateRow],
    shaped: Callable[[pl.DataFrame], pl.DataFrame] = lambda rows: rows,
) -> None:
    """Fold rows already judged, the clock as given; compare with the oracle after every step.

    ``oracle`` takes the rows and the clock before and after; it adds to ``late``.
    """
    task, before_ms, found = Task(operator, happen.store), NEVER_MS, []
    body = operator.body
    assert isinstance(body, WindowBody)
    schema = {**ROW_COLUMNS, SOURCE: pl.String(), **COLUMNS}
    for step, (rows, clock_ms) in enumerate(crowd):
        folded = body.fold(shaped(pl.DataFrame(rows, schema=schema, orient="row")), task.state)
        found += [late_row(row) for row in folded.iter_rows(named=True)]
        due = oracle(rows, before_ms, clock_ms)
        made = body.publish(task.state, before_ms, clock_ms)
        assert panes(made, operator.inputs[0].key) == due
        assert found == late
        before_ms = clock_ms
        task.note()
        task.clocks.clock_ms = clock_ms
        task.meet(happen, step)


def panes(frame: pl.DataFrame, key: Sequence[str], pane: Any = Pane) -> list[Any]:
    """Read a frame of panes, checking that it has just the columns it should."""
    assert tuple(frame.columns) == (*key, *pane._fields[1:])
    return [pane(*row) for row in frame.iter_rows()]


def place(row: Mapping[str, Any]) -> RowId:
    """Return the raw identity of one line of a frame."""
    return row[SOURCE], row[OFFSET], row[SUB_ROW]


def late_row(row: Mapping[str, Any]) -> LateRow:
    """Read one line of a frame of late rows."""
    names = (SOURCE, OFFSET, SUB_ROW, EVENT_TIME, WATERMARK, *COLUMNS)
    return LateRow(
        Judged(*(row[name] for name in names)), row["start"], row["end"], row["late_by_ms"]
    )
