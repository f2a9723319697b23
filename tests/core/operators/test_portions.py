"""Portions of a segment: they publish what the segment publishes, also after restores in between.

See docs/semantics.md, "Portions of a segment".
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.oracles.early import Spec
from tests.support.logs import Commit, EventLog, Raw, Read, Record, event_logs, record
from tests.support.operators import early_aligned
from tests.support.operators.families import FAMILIES
from tests.support.operators.pairs import pairs
from tests.support.operators.published import Published, in_order_of_results, published
from tidemark.core.operators import portions
from tidemark.core.operators.aligned import gap_filled
from tidemark.core.operators.aligned import state as slices
from tidemark.core.operators.operator import Changes
from tidemark.core.operators.output import Output
from tidemark.core.operators.portions import RowLimit
from tidemark.core.operators.ports import PANES
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.segment import Segment
from tidemark.core.windows.pane import END


@contextmanager
def small_portions(rows: int) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(patch.object(portions, "_FIRST_ROWS", rows))
        stack.enter_context(patch.object(portions, "_GROWTH", 1))
        stack.enter_context(patch.object(slices, "_PORTION_BYTES", 100))
        stack.enter_context(patch.object(gap_filled, "_WINDOWS", 2))
        stack.enter_context(patch.object(gap_filled, "_PANES", 2))
        yield


class Restarted:
    """A task that is restored from its checkpoints at some of the places where it may pause."""

    def __init__(self, first: OperatorTask, draw: Any) -> None:
        self.task = first
        self._draw = draw
        self._changelog: list[Changes] = []

    def take(self, segment: Segment) -> list[Output]:
        outputs = []
        done = False
        while not done:
            done = True
            for steps in self.task.steps([segment]):
                outputs.append(steps.output)
                self.task.state.purge(self.task.published_ms)
                if steps.can_pause and self._draw(st.booleans()):
                    self._restart()
                    done = False
                    break
        self.task.next_offset += 1
        return outputs

    def _restart(self) -> None:
        checkpoint = self.task.checkpoint()
        self._changelog.append(checkpoint.changes)
        task = OperatorTask(self.task.operator, tally=self.task.tally)
        task.restore(self._changelog, checkpoint.clocks, checkpoint.next_offset, checkpoint.place)
        self.task = task


@pytest.mark.parametrize("family", FAMILIES)
@fewer(4)
@given(data=st.data(), log=event_logs())
def test_portions_publish_what_the_segment_publishes(family: str, data: Any, log: EventLog) -> None:
    case = FAMILIES[family](data.draw, log)
    whole = OperatorTask(case.operator)
    with small_portions(data.draw(st.integers(1, 3))):
        portioned = Restarted(OperatorTask(case.operator), data.draw)
    for segment in case.segments:
        wanted = whole.step(segment)
        with small_portions(1):
            found = portioned.take(segment)
        for port in (port.name for port in case.operator.outputs):
            assert results(whole, port, [wanted]) == results(whole, port, found), port
        assert portioned.task.clock_ms == whole.clock_ms
    assert portioned.task.tally == whole.tally
    left = {
        port.name: results(whole, port.name, [whole.finish()]) for port in case.operator.outputs[:1]
    }
    for port, wanted_rows in left.items():
        assert results(whole, port, [portioned.task.finish()]) == wanted_rows


@given(data=st.data(), log=event_logs())
def test_rows_of_several_inputs_are_taken_in_log_order(data: Any, log: EventLog) -> None:
    operator = pairs(("t", "u"))
    whole = OperatorTask(operator)
    with small_portions(data.draw(st.integers(1, 3))):
        portioned = Restarted(OperatorTask(operator), data.draw)
    for segment in log.segments:
        wanted = published(whole, "pairs", whole.step(segment))
        with small_portions(1):
            found = portioned.take(segment)
        assert [row for output in found for row in published(whole, "pairs", output)] == wanted
    assert portioned.task.tally == whole.tally


@pytest.mark.parametrize("lateness_ms", [0, 20])
def test_early_panes_have_rows_of_earlier_portions_that_are_behind_other_windows(lateness_ms):
    """The row at -8 is behind windows that end by 0, and on time for those that end later."""
    raw = Raw({"t/0": tuple(Record(at_ms, (("a", 1),)) for at_ms in (0, -8, 0))}, bound_ms=0)
    (segment,) = record(raw, [Commit((Read("t/0", 3),))])
    spec = Spec(10, 1, lateness_ms, closes=True, every="rows", interval=1, discarding=False)
    operator = early_aligned.operator(spec, raw.topics)
    whole = OperatorTask(operator)
    with small_portions(1):
        portioned = OperatorTask(operator)
    wanted = whole.step(segment)
    with small_portions(1):
        found = [steps.output for steps in portioned.steps([segment])]
    assert wanted[PANES].filter(pl.col(END) == 2).select("n").to_series().to_list() == [1, 2, 3]
    assert results(whole, PANES, found) == results(whole, PANES, [wanted])


def results(task: OperatorTask, port: str, outputs: list[Output]) -> list[Published]:
    return in_order_of_results(row for output in outputs for row in published(task, port, output))


def test_a_limit_grows_while_results_are_small_and_shrinks_at_once():
    limit = RowLimit(most_rows=1_000, target_bytes=1_000)
    limit.took(64, 10, full=True)
    assert limit.rows == 128
    limit.took(100, 10, full=False)
    assert limit.rows == 128
    limit.took(128, 12_800, full=True)
    assert limit.rows == 10
    limit.took(1, 1_000_000, full=True)
    assert limit.rows == 1


def test_a_limit_stays_where_time_alone_made_results_due():
    limit = RowLimit(most_rows=1_000, target_bytes=1_000)
    limit.took(0, 1_000_000, full=False)
    assert limit.rows == 64
